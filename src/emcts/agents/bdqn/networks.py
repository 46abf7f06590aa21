"""The networks of Bootstrapped DQN: members, each with a prior of the same shape that is added and never trained."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.types import Key, Replaceable, record


@record
class Layer(Replaceable):
    """Weights and bias of one layer; of all members, with an axis of members in front."""

    weight: Float[Array, "*K inputs outputs"]
    bias: Float[Array, "*K outputs"]


Layers = tuple[Layer, ...]


@dataclasses.dataclass(frozen=True)
class BootstrappedEnsemble:
    """`size` members, each a network with `hidden` layers and a prior like it, which counts `prior_scale` times.

    A member learns from a step with `mask_probability`, and from its reward with noise of `noise_scale`.
    """

    size: int
    hidden: tuple[int, ...]
    prior_scale: float
    mask_probability: float = 1.0
    noise_scale: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"an ensemble of {self.size}: give at least 1")
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden layers of {list(self.hidden)} units: give at least 1 to each")
        if not 0 < self.mask_probability <= 1:
            raise ValueError(f"mask_probability is {self.mask_probability}: give a share above 0, up to 1")

    def make(self, inputs: int, outputs: int, key: Key) -> Layers:
        """Makes all members, or their priors."""
        sizes = (inputs, *self.hidden, outputs)
        return jax.vmap(lambda key: make_layers(sizes, key))(jax.random.split(key, self.size))

    def values(self, learned: Layers, prior: Layers, x: Float[Array, "inputs"]) -> Float[Array, "A"]:
        """Returns the values of one member, by action."""
        return forward(learned, x) + self.prior_scale * forward(prior, x)

    def all_values(self, learned: Layers, priors: Layers, x: Float[Array, "inputs"]) -> Float[Array, "K A"]:
        """Returns the values of every member."""
        return jax.vmap(self.values, in_axes=(0, 0, None))(learned, priors, x)


def make_layers(sizes: Sequence[int], key: Key) -> Layers:
    """Weights are normal with deviation `1 / sqrt(inputs)`, cut off at two of these; biases are 0.

    So bsuite's networks begin. It decides how large priors are, and with them how long an agent explores.
    """
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(
        Layer(jax.random.truncated_normal(k, -2, 2, (inputs, outputs)) / inputs**0.5, jnp.zeros(outputs))
        for k, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )


def forward(layers: Layers, x: Float[Array, "inputs"]) -> Float[Array, "outputs"]:
    """The layers in turn, with ReLU between them."""
    *hidden, last = layers
    for layer in hidden:
        x = jax.nn.relu(x @ layer.weight + layer.bias)
    return x @ last.weight + last.bias
