"""Encoders: networks from an observation to a vector, with layers chosen from the shapes of what is observed.

An observation is an array or a pytree of arrays, such as a dictionary. `InputSpec` describes one array.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from emcts.models.layers import Lookup, as_floats
from emcts.types import Key

SMALL_SIDE = 8  # an image is downsampled until it has no longer side than this
LARGE_SIDE = 40  # from here on the first convolution has a stride of 4
MOST_CHANNELS = 4  # times those of the first convolution


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """What a network reads: an array of `shape`, or an index below `num_indices` in place of a one-hot vector."""

    shape: tuple[int, ...] = ()
    num_indices: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.num_indices is not None and (self.shape or self.num_indices < 1):
            raise ValueError(
                f"an index below {self.num_indices} of shape {list(self.shape)}: give a single number, of 1 or more"
            )

    @property
    def size(self) -> int:
        """The number of inputs of a multi-layer perceptron."""
        return math.prod(self.shape) if self.num_indices is None else self.num_indices

    @property
    def is_indexed(self) -> bool:
        return self.num_indices is not None

    @property
    def is_vector(self) -> bool:
        return self.num_indices is None and len(self.shape) == 1

    @property
    def is_image(self) -> bool:
        """Whether it is [height, width, channels]."""
        return self.num_indices is None and len(self.shape) == 3

    def example(self) -> jax.ShapeDtypeStruct:
        """The type of such an input."""
        return jax.ShapeDtypeStruct(self.shape, jnp.int32 if self.is_indexed else np.dtype(self.dtype))


Spec = PyTree[InputSpec]  # of an observation
Encoder = Callable[[PyTree], Float[Array, "features"]]
MakeEncoder = Callable[[Spec, Key], Encoder]


def input_spec(observed: PyTree[jax.ShapeDtypeStruct]) -> Spec:
    """Describes observations of these types."""
    return jax.tree.map(lambda leaf: InputSpec(tuple(leaf.shape), dtype=str(leaf.dtype)), observed)


def flat_floats(observation: PyTree[Array]) -> Float[Array, "inputs"]:
    """Concatenates all arrays of an observation, as float32."""
    return jnp.concatenate([as_floats(leaf).reshape(-1) for leaf in jax.tree.leaves(observation)])


class FlatLinear(eqx.Module):
    """A linear layer over the elements of an array of any rank and dtype."""

    linear: eqx.nn.Linear

    def __call__(self, x: Shaped[Array, "..."]) -> Float[Array, "outputs"]:
        return self.linear(as_floats(x).reshape(-1))


class Convolutions(eqx.Module):
    """Convolutions over an image [height, width, channels], and a linear layer over what they return.

    The number of convolutions follows from the size: one for 5 x 5, two for 12 x 12, three for 84 x 84.
    """

    convolutions: tuple[eqx.nn.Conv2d, ...]
    linear: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], channels: int, outputs: int, *, key: Key):
        rows, columns, planes = shape
        layers = convolution_sizes((rows, columns), channels)
        *conv_keys, linear_key = jax.random.split(key, len(layers) + 1)
        made = []
        for (kernel, stride, width), conv_key in zip(layers, conv_keys, strict=True):
            made.append(eqx.nn.Conv2d(planes, width, kernel, stride, padding="SAME", key=conv_key))
            planes = width
            rows, columns = -(-rows // stride), -(-columns // stride)
        self.convolutions = tuple(made)
        self.linear = eqx.nn.Linear(rows * columns * planes, outputs, key=linear_key)

    def __call__(self, image: Shaped[Array, "H W C"]) -> Float[Array, "outputs"]:
        hidden = jnp.moveaxis(as_floats(image), -1, 0)
        for convolution in self.convolutions:
            hidden = jax.nn.relu(convolution(hidden))
        return self.linear(hidden.reshape(-1))


def convolution_sizes(shape: tuple[int, int], channels: int) -> list[tuple[int, int, int]]:
    """Returns kernel, stride and channels of each convolution over an image of this height and width."""
    side = max(shape)
    large = side > LARGE_SIDE
    layers = [(8, 4, channels) if large else (3, 1, channels)]
    side = -(-side // 4) if large else side
    while side > SMALL_SIDE:
        layers.append((3, 2, min(2 * layers[-1][2], MOST_CHANNELS * channels)))
        side = -(-side // 2)
    return layers


class SharedEncoder(eqx.Module):
    """Layers with ReLU over all arrays of an observation.

    The first layer has weights for each of them, as if they were concatenated: for the one-hot vector of an index, for
    the output of convolutions over an image, or for the elements of any other array. It is followed by a layer norm.
    """

    first: tuple[Callable[[Array], Float[Array, "width"]], ...]
    norm: eqx.nn.LayerNorm
    rest: tuple[eqx.nn.Linear, ...]

    def __init__(self, spec: Spec, sizes: Sequence[int], *, channels: int, key: Key):
        first_key, rest_key = jax.random.split(key)
        leaves = jax.tree.leaves(spec)
        if not leaves or not sizes:
            raise ValueError(
                f"an encoder of {len(leaves)} arrays with {len(sizes)} layers: give at least one of each"
            )
        first_keys = jax.random.split(first_key, len(leaves))
        self.first = tuple(
            _first_layer(leaf, sizes[0], channels, one) for leaf, one in zip(leaves, first_keys, strict=True)
        )
        self.norm = eqx.nn.LayerNorm(sizes[0])
        rest_keys = jax.random.split(rest_key, len(sizes))
        self.rest = tuple(
            eqx.nn.Linear(fan_in, fan_out, key=one)
            for fan_in, fan_out, one in zip(sizes[:-1], sizes[1:], rest_keys, strict=False)
        )

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "features"]:
        leaves = jax.tree.leaves(observation)
        parts = [layer(leaf) for layer, leaf in zip(self.first, leaves, strict=True)]
        hidden = jax.nn.relu(self.norm(sum(parts[1:], parts[0]) / len(parts) ** 0.5))
        for layer in self.rest:
            hidden = jax.nn.relu(layer(hidden))
        return hidden


def _first_layer(
    spec: InputSpec, width: int, channels: int, key: Key
) -> Callable[[Array], Float[Array, "width"]]:
    if spec.is_indexed:
        return Lookup(spec.size, width, key=key)
    if spec.is_image:
        rows, columns, planes = spec.shape
        return Convolutions((rows, columns, planes), channels, width, key=key)
    return FlatLinear(eqx.nn.Linear(spec.size, width, key=key))


@dataclasses.dataclass(frozen=True, eq=False)
class _Constant:
    """What of a module is not trained. Equal to itself alone, as a static part of a pytree has to be comparable."""

    part: PyTree


class OwnModule(eqx.Module):
    """A user's module: its float arrays are trained; the rest, such as functions, is static."""

    arrays: PyTree
    rest: _Constant = eqx.field(static=True)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "features"]:
        return eqx.combine(self.arrays, self.rest.part)(observation)


@dataclasses.dataclass(frozen=True)
class OwnEncoder:
    """Makes a user's encoder for each key, given one that was made before: `size` is that of its output.

    What is not a float array is the same for every key.
    """

    make: MakeEncoder
    spec: Spec
    rest: _Constant
    size: int

    def __call__(self, key: Key) -> OwnModule:
        return OwnModule(eqx.filter(self.make(self.spec, key), eqx.is_inexact_array), self.rest)


def own_encoder(make: MakeEncoder, spec: Spec) -> OwnEncoder:
    """Makes a user's encoder once, to see what it returns. Raises unless that is a vector of floats."""
    module = make(spec, jax.random.key(0))
    if not callable(module):
        raise ValueError(
            f"an encoder is a function from an observation to a vector, got a {type(module).__name__}: "
            "return a module with `__call__`"
        )
    arrays, rest = eqx.partition(module, eqx.is_inexact_array)
    if not jax.tree.leaves(arrays):
        raise ValueError(
            f"{type(module).__name__} has no float arrays to train: return an equinox module or another pytree, "
            "not a function that closes over them"
        )
    example = jax.tree.map(lambda leaf: leaf.example(), spec)
    out = eqx.filter_eval_shape(module, example)
    if not (isinstance(out, jax.ShapeDtypeStruct) and len(out.shape) == 1):
        what = f"an array of shape {list(out.shape)}" if hasattr(out, "shape") else f"a {type(out).__name__}"
        raise ValueError(f"an encoder returns a vector [features], got {what}: flatten its output")
    return OwnEncoder(make, spec, _Constant(rest), out.shape[0])
