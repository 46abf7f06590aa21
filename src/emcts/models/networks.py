"""The networks of an agent: heads over one input, each with what its outputs mean."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int

from emcts.models.codecs import Categorical, Codec, Policy, Tanh, Unit
from emcts.models.layers import ConvTorso, mlp
from emcts.types import Key, Replaceable, record


class Head(eqx.Module):
    """A body and the meaning of its outputs."""

    body: Callable[[Array], Float[Array, "outputs"]]
    codec: Codec = eqx.field(static=True)

    def __call__(self, x: Array) -> Float[Array, "outputs"]:
        return self.body(x)


@record
class Raw(Replaceable):
    """The outputs of the heads for one state, before they are decoded. A head that an agent lacks is None."""

    value: Any
    policy: Any
    exploration: Any
    ube: Any


class Networks(eqx.Module):
    """Heads. `reward` and `continuation`, whether the episode goes on, read a pair of state and action, the others a state."""

    torso: Callable[[Array], Array]
    value: Head
    policy: Head
    exploration: Head | None
    ube: Head | None
    reward: Head | None
    continuation: Head | None = None

    def state(self, x: Array) -> Raw:
        hidden = self.torso(x)
        heads = (self.value, self.policy, self.exploration, self.ube)
        return Raw(*(None if head is None else head(hidden) for head in heads))


class Identity(eqx.Module):
    """No torso: each head reads the input itself."""

    def __call__(self, x: Array) -> Array:
        return x


def indexed_networks(
    num_states: int, num_actions: int, *, widths: Sequence[int], values: Categorical, ube: bool, key: Key
) -> Networks:
    """Separate networks over the index of a state, with categorical heads and a learned reward (Deep Sea).

    `values` is what the heads of values and rewards predict.
    """
    value_key, policy_key, ube_key, reward_key = jax.random.split(key, 4)

    def head(codec: Codec, num_inputs: int, key: Key) -> Head:
        return Head(mlp(num_inputs, (*widths, codec.size), key=key, finite=True, quiet=True), codec)

    return Networks(
        torso=Identity(),
        value=head(values, num_states, value_key),
        policy=head(Policy(num_actions), num_states, policy_key),
        exploration=None,
        ube=head(Categorical(values.limit), num_states, ube_key) if ube else None,
        reward=head(values, num_states * num_actions, reward_key),
    )


def vector_networks(
    num_inputs: int, num_actions: int, *, widths: Sequence[int], uncertain: bool, key: Key
) -> Networks:
    """Separate networks over a vector, with values in (-1, 1) and variances in (0, 1) (SUBLEQ).

    `uncertain` adds the UBE head and the policy that explores.
    """
    value_key, policy_key, exploration_key, ube_key = jax.random.split(key, 4)

    def head(codec: Codec, key: Key) -> Head:
        return Head(mlp(num_inputs, (*widths, codec.size), key=key, finite=False), codec)

    return Networks(
        torso=Identity(),
        value=head(Tanh(), value_key),
        policy=head(Policy(num_actions), policy_key),
        exploration=head(Policy(num_actions), exploration_key) if uncertain else None,
        ube=head(Unit(), ube_key) if uncertain else None,
        reward=None,
    )


def image_networks(
    shape: tuple[int, int, int],
    num_actions: int,
    *,
    channels: int,
    width: int,
    values: Categorical,
    uncertain: bool,
    key: Key,
) -> Networks:
    """A convolution that all heads share, and categorical values, for images (MinAtar)."""
    torso_key, value_key, policy_key, exploration_key, ube_key = jax.random.split(key, 5)

    def head(codec: Codec, key: Key) -> Head:
        return Head(mlp(width, (width, codec.size), key=key, finite=False, quiet=True), codec)

    return Networks(
        torso=ConvTorso(shape, channels, width, key=torso_key),
        value=head(values, value_key),
        policy=head(Policy(num_actions), policy_key),
        exploration=head(Policy(num_actions), exploration_key) if uncertain else None,
        ube=head(Categorical(values.limit), ube_key) if uncertain else None,
        reward=None,
    )


def pair_index(state_index: Int[Array, ""], action: Int[Array, ""], num_actions: int) -> Int[Array, ""]:
    """The number of a pair of state and action, in a world of few."""
    return state_index * num_actions + action
