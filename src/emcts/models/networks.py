"""The networks of an agent: heads over one input, each with a codec for its outputs, chosen from the input's shape."""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from emcts.models.codecs import PAPER, Categorical, Codec, Policy, Tanh, Unit
from emcts.models.encoders import Encoder, SharedEncoder, Spec
from emcts.models.encoders import InputSpec as InputSpec
from emcts.models.layers import ConvTorso, Projected, mlp
from emcts.models.statistics import Statistics, normalise
from emcts.types import Key, Replaceable, record


class Head(eqx.Module):
    """A body and the codec of its outputs."""

    body: Callable[[Array], Float[Array, "outputs"]]
    codec: Codec = eqx.field(static=True)

    def __call__(self, x: Array) -> Float[Array, "outputs"]:
        return self.body(x)


@record
class RawOutputs(Replaceable):
    """The outputs of the heads for one state, before they are decoded. A head that an agent lacks is None."""

    value: Float[Array, "*B outputs"]
    policy: Float[Array, "*B A"]
    exploration: Float[Array, "*B A"] | None
    ube: Float[Array, "*B variances"] | None


class Networks(eqx.Module):
    """Heads over a state; `reward` and `continuation` (whether the episode continues) read a state and an action.

    With statistics of observations, the torso reads them normalised.
    """

    torso: Callable[[PyTree], Array]
    value: Head
    policy: Head
    exploration: Head | None
    ube: Head | None
    reward: Head | None
    continuation: Head | None = None
    statistics: Statistics | None = None

    def outputs(self, x: PyTree) -> RawOutputs:
        hidden = self.torso(normalise(self.statistics, x))
        return RawOutputs(
            value=self.value(hidden),
            policy=self.policy(hidden),
            exploration=None if self.exploration is None else self.exploration(hidden),
            ube=None if self.ube is None else self.ube(hidden),
        )


class Identity(eqx.Module):
    """No torso: each head reads the input itself."""

    def __call__(self, x: Array) -> Array:
        return x


@dataclasses.dataclass(frozen=True)
class HeadSpec:
    """Which heads an agent has, and what its values are: in (-1, 1) if `bounded`, else categorical over `values`.

    Variances are in (0, 1) if `bounded`, else categorical over `variances`, in units of the squared return range.
    """

    num_actions: int
    values: Categorical
    bounded: bool
    ube: bool
    exploration: bool
    variances: Categorical = PAPER


def paper_networks(
    spec: Spec, heads: HeadSpec, *, widths: Sequence[int], channels: int, key: Key
) -> Networks:
    """Makes separate networks over a vector, or heads over one convolution of an image, as the paper has them.

    Over anything else these are `shared_networks`.
    """
    if isinstance(spec, InputSpec) and spec.is_image:
        rows, columns, planes = spec.shape
        return image_networks((rows, columns, planes), heads, channels=channels, width=widths[-1], key=key)
    if isinstance(spec, InputSpec) and spec.is_vector:
        return vector_networks(spec.size, heads, widths=widths, key=key)
    return shared_networks(spec, heads, widths=widths, channels=channels, key=key)


def shared_networks(
    spec: Spec, heads: HeadSpec, *, widths: Sequence[int], channels: int, key: Key
) -> Networks:
    """Makes heads over an encoder of any observation, with layers of these widths."""
    encoder_key, heads_key = jax.random.split(key)
    encoder = SharedEncoder(spec, widths, channels=channels, key=encoder_key)
    return encoded_networks(encoder, widths[-1], heads, width=widths[-1], key=heads_key)


TORSOS = {"paper": paper_networks, "shared": shared_networks}


def encoded_networks(
    encoder: Encoder, features: int, heads: HeadSpec, *, width: int, key: Key, num_pairs: int | None = None
) -> Networks:
    """Makes heads over an encoder that returns `features` numbers, each with a hidden layer.

    With `num_pairs` there is a learned reward for each pair of state and action, by its number.
    """
    value_key, policy_key, exploration_key, ube_key, reward_key = jax.random.split(key, 5)
    policy = Policy(heads.num_actions)

    def head(codec: Codec, key: Key) -> Head:
        return Head(mlp(features, (width, codec.size), key=key, indexed=False, zero_output=True), codec)

    def reward(num_pairs: int) -> Head:
        sizes = (width, heads.values.size)
        return Head(mlp(num_pairs, sizes, key=reward_key, indexed=True, zero_output=True), heads.values)

    return Networks(
        torso=encoder,
        value=head(Tanh() if heads.bounded else heads.values, value_key),
        policy=head(policy, policy_key),
        exploration=head(policy, exploration_key) if heads.exploration else None,
        ube=head(Unit() if heads.bounded else heads.variances, ube_key) if heads.ube else None,
        reward=None if num_pairs is None else reward(num_pairs),
    )


def indexed_networks(num_states: int, heads: HeadSpec, *, widths: Sequence[int], key: Key) -> Networks:
    """Makes separate networks over the index of a state, with categorical heads and a learned reward."""
    value_key, policy_key, ube_key, reward_key = jax.random.split(key, 4)
    values, policy = heads.values, Policy(heads.num_actions)

    def head(codec: Codec, num_inputs: int, key: Key) -> Head:
        return Head(mlp(num_inputs, (*widths, codec.size), key=key, indexed=True, zero_output=True), codec)

    exploration_key = jax.random.fold_in(policy_key, 1)
    return Networks(
        torso=Identity(),
        value=head(values, num_states, value_key),
        policy=head(policy, num_states, policy_key),
        exploration=head(policy, num_states, exploration_key) if heads.exploration else None,
        ube=head(heads.variances, num_states, ube_key) if heads.ube else None,
        reward=head(values, num_states * heads.num_actions, reward_key),
    )


def vector_networks(num_inputs: int, heads: HeadSpec, *, widths: Sequence[int], key: Key) -> Networks:
    """Makes separate networks over a vector. Bounded values come with variances in (0, 1)."""
    value_key, policy_key, exploration_key, ube_key = jax.random.split(key, 4)
    policy = Policy(heads.num_actions)

    def head(codec: Codec, key: Key) -> Head:
        sizes = (*widths, codec.size)
        return Head(mlp(num_inputs, sizes, key=key, indexed=False, zero_output=not heads.bounded), codec)

    return Networks(
        torso=Identity(),
        value=head(Tanh() if heads.bounded else heads.values, value_key),
        policy=head(policy, policy_key),
        exploration=head(policy, exploration_key) if heads.exploration else None,
        ube=head(Unit() if heads.bounded else heads.variances, ube_key) if heads.ube else None,
        reward=None,
    )


def image_networks(
    shape: tuple[int, int, int], heads: HeadSpec, *, channels: int, width: int, key: Key
) -> Networks:
    """Makes heads over a shared convolutional torso, with categorical values."""
    torso_key, value_key, policy_key, exploration_key, ube_key = jax.random.split(key, 5)
    policy = Policy(heads.num_actions)

    def head(codec: Codec, key: Key) -> Head:
        return Head(mlp(width, (width, codec.size), key=key, indexed=False, zero_output=True), codec)

    return Networks(
        torso=ConvTorso(shape, channels, width, key=torso_key),
        value=head(heads.values, value_key),
        policy=head(policy, policy_key),
        exploration=head(policy, exploration_key) if heads.exploration else None,
        ube=head(heads.variances, ube_key) if heads.ube else None,
        reward=None,
    )


def paper_encoder(spec: Spec, hidden: Sequence[int], latent: int, *, channels: int, key: Key) -> Encoder:
    """Makes the representation of a learned model, from what is observed to a latent state, as the paper has it.

    Of anything but an index, a vector or an image, it is a `shared_encoder`.
    """
    if isinstance(spec, InputSpec) and spec.is_image:
        torso_key, last_key = jax.random.split(key)
        rows, columns, planes = spec.shape
        torso = ConvTorso((rows, columns, planes), channels, latent, key=torso_key)
        return Projected(torso, eqx.nn.Linear(latent, latent, key=last_key))
    if isinstance(spec, InputSpec) and (spec.is_vector or spec.is_indexed):
        return mlp(spec.size, (*hidden, latent), key=key, indexed=spec.is_indexed)
    return shared_encoder(spec, hidden, latent, channels=channels, key=key)


def shared_encoder(spec: Spec, hidden: Sequence[int], latent: int, *, channels: int, key: Key) -> Encoder:
    """Makes the representation of a learned model for any observation: `hidden` layers, and a linear one."""
    encoder_key, last_key = jax.random.split(key)
    sizes = tuple(hidden) or (latent,)
    encoder = SharedEncoder(spec, sizes, channels=channels, key=encoder_key)
    return Projected(encoder, eqx.nn.Linear(sizes[-1], latent, key=last_key))


ENCODERS = {"paper": paper_encoder, "shared": shared_encoder}
