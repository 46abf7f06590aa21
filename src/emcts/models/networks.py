"""The networks of an agent: heads over one input, each with a codec for its outputs, chosen from the input's shape."""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float

from emcts.models.codecs import PAPER, Categorical, Codec, Policy, Tanh, Unit
from emcts.models.layers import ConvTorso, ImageEncoder, mlp
from emcts.models.statistics import Statistics
from emcts.types import Key, Replaceable, record


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """What a network reads: an array of `shape`, or an index below `num_indices` in place of a one-hot vector."""

    shape: tuple[int, ...] = ()
    num_indices: int | None = None

    def __post_init__(self) -> None:
        if self.num_indices is None and len(self.shape) not in (1, 3):
            raise ValueError(
                f"observations have shape {list(self.shape)}: networks read vectors and images [H, W, C]; "
                "flatten them in `observe`"
            )

    @property
    def size(self) -> int:
        """The number of inputs of a multi-layer perceptron."""
        return self.shape[0] if self.num_indices is None else self.num_indices

    @property
    def is_indexed(self) -> bool:
        return self.num_indices is not None

    @property
    def is_image(self) -> bool:
        return self.num_indices is None and len(self.shape) == 3


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
    """Heads over a state; `reward` and `continuation` (whether the episode continues) read a state and an action."""

    torso: Callable[[Array], Array]
    value: Head
    policy: Head
    exploration: Head | None
    ube: Head | None
    reward: Head | None
    continuation: Head | None = None
    statistics: Statistics | None = None

    def outputs(self, x: Array) -> RawOutputs:
        hidden = self.torso(x)
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

    Variances are in (0, 1) if `bounded`, else categorical over `variances`, in units of the squared reward range.
    """

    num_actions: int
    values: Categorical
    bounded: bool
    ube: bool
    exploration: bool
    variances: Categorical = PAPER


def make_networks(spec: InputSpec, heads: HeadSpec, *, width: int, channels: int, key: Key) -> Networks:
    """Makes the networks of an agent that plans with a simulator."""
    if spec.is_indexed:
        return indexed_networks(spec.size, heads, widths=(width,) * 2, key=key)
    if spec.is_image:
        rows, columns, planes = spec.shape
        return image_networks((rows, columns, planes), heads, channels=channels, width=width, key=key)
    return vector_networks(spec.size, heads, widths=(width,) * 2, key=key)


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


def make_encoder(
    spec: InputSpec, hidden: Sequence[int], latent: int, *, channels: int, key: Key
) -> Callable[[Array], Float[Array, "latent"]]:
    """Makes the representation of a learned model: a network from what is observed to a latent state."""
    if not spec.is_image:
        return mlp(spec.size, (*hidden, latent), key=key, indexed=spec.is_indexed)
    torso_key, last_key = jax.random.split(key)
    rows, columns, planes = spec.shape
    torso = ConvTorso((rows, columns, planes), channels, latent, key=torso_key)
    return ImageEncoder(torso, eqx.nn.Linear(latent, latent, key=last_key))
