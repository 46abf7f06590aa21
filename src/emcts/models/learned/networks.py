"""Abstracted and anchored models: their networks, and the losses that train their dynamics.

Latent states of an abstracted model serve rewards, values and policies. Those of an anchored model are states of the
environment, and its dynamics learn to predict them.
"""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from emcts.models.codecs import Codec, Continuation, Policy
from emcts.models.layers import mlp
from emcts.models.learned.model import Latent, ModelNetworks
from emcts.models.networks import Head, HeadSpec, Identity, Networks
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class ValueEquivalent:
    """The losses of the heads alone train the dynamics."""

    def head_input(self, latent: Latent) -> Latent:
        return latent

    def consistency(self, predicted: Latent, encoded: Latent) -> Float[Array, ""]:
        return jnp.zeros(())


@dataclasses.dataclass(frozen=True)
class Consistent(ValueEquivalent):
    """The losses of the heads, and the squared distance of predicted states from the encoded ones."""

    def consistency(self, predicted: Latent, encoded: Latent) -> Float[Array, ""]:
        return jnp.sum(jnp.square(predicted - jax.lax.stop_gradient(encoded)))


@dataclasses.dataclass(frozen=True)
class Anchored(Consistent):
    """The squared distance from the true states alone trains the dynamics: heads read them without a gradient."""

    def head_input(self, latent: Latent) -> Latent:
        return jax.lax.stop_gradient(latent)


class Standardised(eqx.Module):
    """A network whose outputs are standardised to mean 0 and variance 1.

    Scaled to the range from 0 to 1 instead, as in MuZero, all states would have most of their length in common.
    """

    body: Callable[[PyTree], Float[Array, "latent"]]

    def __call__(self, x: PyTree) -> Float[Array, "latent"]:
        raw = self.body(x)
        return (raw - jnp.mean(raw)) / jnp.sqrt(jnp.var(raw) + 1e-5)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of hidden layers and of the latent state. Defaults are the paper's for Deep Sea (`table:network_arch`)."""

    latent: int = 100
    representation: Sequence[int] = (512, 512)
    dynamics: Sequence[int] = (1024, 1024, 1024)
    heads: Sequence[int] = (128, 128)
    ube: Sequence[int] = (128, 128, 128)


def abstracted_networks(
    encoder: Callable[[PyTree], Float[Array, "latent"]], heads: HeadSpec, *, sizes: Sizes, key: Key
) -> ModelNetworks:
    """Makes the networks of an abstracted model. Outputs of `encoder` and of the dynamics are standardised."""
    dynamics_key, heads_key = jax.random.split(key)
    layers = (*sizes.dynamics, sizes.latent)
    dynamics = mlp(sizes.latent + heads.num_actions, layers, key=dynamics_key, indexed=False)
    return ModelNetworks(
        Standardised(encoder),
        Standardised(dynamics),
        latent_heads(sizes.latent, heads, sizes=sizes, key=heads_key),
    )


def anchored_networks(latent: int, heads: HeadSpec, *, sizes: Sizes, key: Key) -> ModelNetworks:
    """Makes the networks of an anchored model: latent states are what is observed."""
    dynamics_key, heads_key = jax.random.split(key)
    layers = (*sizes.dynamics, latent)
    dynamics = mlp(latent + heads.num_actions, layers, key=dynamics_key, indexed=False)
    return ModelNetworks(Identity(), dynamics, latent_heads(latent, heads, sizes=sizes, key=heads_key))


def latent_heads(latent: int, heads: HeadSpec, *, sizes: Sizes, key: Key) -> Networks:
    """Makes heads over a latent state, and over one with an action. Their last layers start at zero."""
    keys = jax.random.split(key, 6)
    pair = latent + heads.num_actions

    def head(codec: Codec, num_inputs: int, widths: Sequence[int], key: Key) -> Head:
        return Head(mlp(num_inputs, (*widths, codec.size), key=key, indexed=False, zero_output=True), codec)

    policy = Policy(heads.num_actions)
    return Networks(
        torso=Identity(),
        value=head(heads.values, latent, sizes.heads, keys[0]),
        policy=head(policy, latent, sizes.heads, keys[1]),
        exploration=head(policy, latent, sizes.heads, keys[2]) if heads.exploration else None,
        ube=head(heads.variances, latent, sizes.ube, keys[3]) if heads.ube else None,
        reward=head(heads.values, pair, sizes.heads, keys[4]),
        continuation=head(Continuation(), pair, sizes.heads, keys[5]),
    )
