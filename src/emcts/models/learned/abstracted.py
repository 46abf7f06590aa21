"""The abstracted model: latent states that need to mean no more than rewards, values and policies ask for."""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.models.codecs import Categorical, Chance, Codec, Policy
from emcts.models.layers import Mlp, mlp
from emcts.models.learned.model import Latent, ModelNetworks
from emcts.models.networks import Head, Identity, Networks
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class ValueEquivalent:
    """The losses of the heads alone train the dynamics."""

    def shown(self, latent: Latent) -> Latent:
        return latent

    def consistency(self, predicted: Latent, encoded: Latent) -> Float[Array, ""]:
        return jnp.zeros(())


@dataclasses.dataclass(frozen=True)
class Consistent(ValueEquivalent):
    """Beside them, predicted states are drawn to the representations of those that were (squared distance)."""

    def consistency(self, predicted: Latent, encoded: Latent) -> Float[Array, ""]:
        return jnp.sum(jnp.square(predicted - jax.lax.stop_gradient(encoded)))


class Standardised(eqx.Module):
    """A body whose outputs are moved and stretched to mean 0 and variance 1: latent states neither grow nor fade.

    Stretched to reach from 0 to 1 instead, as MuZero does, all states would have most of their length in common.
    """

    body: Callable[[Array], Float[Array, "latent"]]

    def __call__(self, x: Array) -> Float[Array, "latent"]:
        raw = self.body(x)
        return (raw - jnp.mean(raw)) / jnp.sqrt(jnp.var(raw) + 1e-5)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of hidden layers, and of the latent state. These are the paper's, for Deep Sea (`table:network_arch`)."""

    latent: int = 100
    representation: Sequence[int] = (512, 512)
    dynamics: Sequence[int] = (1024, 1024, 1024)
    heads: Sequence[int] = (128, 128)
    ube: Sequence[int] = (128, 128, 128)


def abstracted_networks(
    body: Mlp | Callable[[Array], Float[Array, "latent"]],
    num_actions: int,
    *,
    sizes: Sizes,
    values: Categorical,
    ube: bool,
    exploration: bool,
    key: Key,
) -> ModelNetworks:
    """`body` makes a latent state of what is observed, before it is standardised."""
    dynamics_key, heads_key = jax.random.split(key)
    dynamics = mlp(
        sizes.latent + num_actions, (*sizes.dynamics, sizes.latent), key=dynamics_key, finite=False
    )
    heads = latent_heads(
        sizes.latent, num_actions, sizes=sizes, values=values, ube=ube, exploration=exploration, key=heads_key
    )
    return ModelNetworks(Standardised(body), Standardised(dynamics), heads)


def latent_heads(
    latent: int,
    num_actions: int,
    *,
    sizes: Sizes,
    values: Categorical,
    ube: bool,
    exploration: bool,
    key: Key,
) -> Networks:
    """Heads over a latent state, and over one with an action; all say nothing at first."""
    keys = jax.random.split(key, 6)

    def head(codec: Codec, num_inputs: int, widths: Sequence[int], key: Key) -> Head:
        return Head(mlp(num_inputs, (*widths, codec.size), key=key, finite=False, quiet=True), codec)

    policy = Policy(num_actions)
    return Networks(
        torso=Identity(),
        value=head(values, latent, sizes.heads, keys[0]),
        policy=head(policy, latent, sizes.heads, keys[1]),
        exploration=head(policy, latent, sizes.heads, keys[2]) if exploration else None,
        ube=head(Categorical(values.limit), latent, sizes.ube, keys[3]) if ube else None,
        reward=head(values, latent + num_actions, sizes.heads, keys[4]),
        continuation=head(Chance(), latent + num_actions, sizes.heads, keys[5]),
    )
