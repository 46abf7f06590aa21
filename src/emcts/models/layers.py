"""Layers that equinox does not have: a one-hot input read as a look-up, and plain stacks of layers."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from emcts.types import Key


class Lookup(eqx.Module):
    """A linear layer for one-hot inputs, given as an index: a row of its weights, no matrix product.

    Rows start with the spread of a layer that has a single input, as a one-hot vector shows it just one.
    """

    weight: Float[Array, "inputs outputs"]

    def __init__(self, num_inputs: int, num_outputs: int, *, key: Key):
        self.weight = jax.random.normal(key, (num_inputs, num_outputs))

    def __call__(self, index: Int[Array, ""]) -> Float[Array, "outputs"]:
        return self.weight.at[index].get(mode="clip")


class Mlp(eqx.Module):
    """Layers with ReLU between them. The last starts at zero where `quiet`: it then predicts nothing at first."""

    layers: tuple[Any, ...]

    def __init__(self, first: Lookup | eqx.nn.Linear, sizes: Sequence[int], *, key: Key, quiet: bool = False):
        keys = jax.random.split(key, max(len(sizes) - 1, 1))
        rest = [
            eqx.nn.Linear(fan_in, fan_out, key=k)
            for fan_in, fan_out, k in zip(sizes[:-1], sizes[1:], keys, strict=False)
        ]
        if quiet and rest:
            rest[-1] = jax.tree.map(jnp.zeros_like, rest[-1])
        self.layers = (first, *rest)

    def __call__(self, x: Array) -> Float[Array, "outputs"]:
        *hidden, last = self.layers
        for layer in hidden:
            x = jax.nn.relu(layer(x))
        return last(x)


def mlp(first_size: int, sizes: Sequence[int], *, key: Key, finite: bool, quiet: bool = False) -> Mlp:
    """Layers of `sizes` over one of `first_size` indices (`finite`), or over a vector of that many numbers."""
    first_key, rest_key = jax.random.split(key)
    layer = Lookup if finite else eqx.nn.Linear
    return Mlp(layer(first_size, sizes[0], key=first_key), sizes, key=rest_key, quiet=quiet)


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
        planes = jnp.moveaxis(image.astype(jnp.float32), -1, 0)
        hidden = jax.nn.relu(self.conv(planes))
        return jax.nn.relu(self.linear(hidden.reshape(-1)))
