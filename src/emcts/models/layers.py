"""Layers that equinox does not have: one-hot inputs as a look-up, perceptrons, a convolutional torso."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, Shaped

from emcts.types import Key

PIXEL = 255.0  # the largest uint8


class Lookup(eqx.Module):
    """A linear layer for one-hot inputs, given as an index: a row of its weights, no matrix product.

    Rows are initialised like those of a layer with a single input, since a one-hot vector has just one.
    """

    weight: Float[Array, "inputs outputs"]

    def __init__(self, num_inputs: int, num_outputs: int, *, key: Key):
        self.weight = jax.random.normal(key, (num_inputs, num_outputs))

    def __call__(self, index: Int[Array, ""]) -> Float[Array, "outputs"]:
        return self.weight.at[index].get(mode="clip")


class Mlp(eqx.Module):
    """Layers with ReLU between them. With `zero_output` the weights of the last layer start at zero."""

    layers: tuple[Lookup | eqx.nn.Linear, ...]

    def __init__(
        self, first: Lookup | eqx.nn.Linear, sizes: Sequence[int], *, key: Key, zero_output: bool = False
    ):
        keys = jax.random.split(key, max(len(sizes) - 1, 1))
        rest = [
            eqx.nn.Linear(fan_in, fan_out, key=k)
            for fan_in, fan_out, k in zip(sizes[:-1], sizes[1:], keys, strict=False)
        ]
        if zero_output and rest:
            rest[-1] = jax.tree.map(jnp.zeros_like, rest[-1])
        self.layers = (first, *rest)

    def __call__(self, x: Array) -> Float[Array, "outputs"]:
        *hidden, last = self.layers
        for layer in hidden:
            x = jax.nn.relu(layer(x))
        return last(x)


def mlp(first_size: int, sizes: Sequence[int], *, key: Key, indexed: bool, zero_output: bool = False) -> Mlp:
    """Makes layers of `sizes` over one of `first_size` indices (`indexed`), or over a vector of that many numbers."""
    first_key, rest_key = jax.random.split(key)
    layer = Lookup if indexed else eqx.nn.Linear
    return Mlp(layer(first_size, sizes[0], key=first_key), sizes, key=rest_key, zero_output=zero_output)


class ConvTorso(eqx.Module):
    """One 3 x 3 convolution and a fully connected layer, for images [height, width, channels] of 0 and 1."""

    conv: eqx.nn.Conv2d
    linear: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], channels: int, width: int, *, key: Key):
        conv_key, linear_key = jax.random.split(key)
        rows, columns, planes = shape
        self.conv = eqx.nn.Conv2d(planes, channels, kernel_size=3, padding=1, key=conv_key)
        self.linear = eqx.nn.Linear(rows * columns * channels, width, key=linear_key)

    def __call__(self, image: Array) -> Float[Array, "width"]:
        rows, columns, _ = image.shape
        hidden = jax.nn.relu(_convolve(self.conv, as_floats(image)))
        weight = self.linear.weight.reshape(-1, hidden.shape[1], rows * columns)
        return jax.nn.relu(jnp.einsum("po,wop->w", hidden, weight) + _bias(self.linear))


def _convolve(
    conv: eqx.nn.Conv2d, image: Float[Array, "rows columns planes"]
) -> Float[Array, "pixels outputs"]:
    """Returns a 3 x 3 convolution as one matrix product over the patches of an image.

    A convolution whose weights differ between seeds becomes one with groups, which is several times slower.
    """
    rows, columns, _ = image.shape
    padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
    shifts = [padded[row : row + rows, column : column + columns] for row in range(3) for column in range(3)]
    patches = jnp.concatenate(shifts, axis=-1).reshape(rows * columns, -1)
    kernel = jnp.moveaxis(conv.weight, 1, -1).reshape(conv.out_channels, -1)
    return patches @ kernel.T + _bias(conv)[None]


def _bias(layer: eqx.nn.Conv2d | eqx.nn.Linear) -> Float[Array, "outputs"]:
    return jnp.zeros(1) if layer.bias is None else layer.bias.reshape(-1)


class Projected(eqx.Module):
    """A torso, and a linear layer that latent states come from."""

    torso: Callable[[PyTree], Float[Array, "features"]]
    last: eqx.nn.Linear

    def __call__(self, observation: PyTree) -> Float[Array, "latent"]:
        return self.last(self.torso(observation))


def as_floats(x: Shaped[Array, "*S"]) -> Float[Array, "*S"]:
    """Returns an array of any dtype as float32, and an image of uint8 as shares of 255."""
    floats = x.astype(jnp.float32)
    return floats / PIXEL if x.dtype == jnp.uint8 and x.ndim == 3 else floats
