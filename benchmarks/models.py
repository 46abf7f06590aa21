"""Random models for timing a search: a tiny one that a search dominates, and a network of a usual size."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

PRECISION = jax.lax.Precision.HIGHEST
DISCOUNT = 0.97


class Prediction(NamedTuple):
    """What a model says of states."""

    prior_logits: Float[Array, "B A"]
    value: Float[Array, "B"]


class Model(Protocol):
    """A model of batches, with the embeddings that a search starts from."""

    @property
    def start(self) -> Float[Array, "B E"]: ...

    def predict(self, embedding: Float[Array, "B E"]) -> Prediction: ...

    def move(
        self, action: Int[Array, "B"], embedding: Float[Array, "B E"]
    ) -> tuple[Float[Array, "B"], Float[Array, "B E"]]:
        """Returns rewards, and the embeddings of the states after them."""


@dataclasses.dataclass(frozen=True)
class TinyModel:
    """A model with embeddings of eight numbers; values and rewards of order 1."""

    start: Float[Array, "B E"]
    policy: Float[Array, "E A"]
    value: Float[Array, "E"]
    reward: Float[Array, "A E"]
    shift: Float[Array, "A E"]

    @classmethod
    def make(cls, batch: int, actions: int, size: int = 8) -> "TinyModel":
        keys = jax.random.split(jax.random.key(0), 5)
        return cls(
            start=jax.random.normal(keys[4], (batch, size)),
            policy=jax.random.normal(keys[0], (size, actions)),
            value=0.3 * jax.random.normal(keys[1], (size, 1))[:, 0],
            reward=0.3 * jax.random.normal(keys[2], (actions, size)),
            shift=jax.random.normal(keys[3], (actions, size)),
        )

    def predict(self, embedding: Float[Array, "B E"]) -> Prediction:
        value = jnp.tanh(jnp.dot(embedding, self.value, precision=PRECISION))
        return Prediction(jnp.dot(embedding, self.policy, precision=PRECISION), value)

    def move(
        self, action: Int[Array, "B"], embedding: Float[Array, "B E"]
    ) -> tuple[Float[Array, "B"], Float[Array, "B E"]]:
        reward = jnp.sum(embedding * self.reward[action], axis=-1)
        return reward, jnp.tanh(1.3 * embedding + self.shift[action])


@dataclasses.dataclass(frozen=True)
class MLPModel:
    """Three layers of 256 from an embedding of 128 and an action to the next embedding, reward, policy and value."""

    start: Float[Array, "B E"]
    actions: Float[Array, "A W"]  # first layer's weights of each action
    layers: tuple[Float[Array, "I W"], ...]
    embed: Float[Array, "W E"]
    reward: Float[Array, "W"]
    policy: Float[Array, "E A"]
    value: Float[Array, "E"]

    @classmethod
    def make(cls, batch: int, actions: int, size: int = 128, width: int = 256, depth: int = 3) -> "MLPModel":
        keys = jax.random.split(jax.random.key(0), depth + 6)

        def weights(key: Array, inputs: int, *outputs: int) -> Array:
            return jax.random.normal(key, (inputs, *outputs)) / inputs**0.5

        sizes = (size, *(width,) * depth)
        return cls(
            start=jax.random.normal(keys[0], (batch, size)),
            actions=jax.random.normal(keys[1], (actions, width)),
            layers=tuple(
                weights(key, i, o) for key, i, o in zip(keys[6:], sizes[:-1], sizes[1:], strict=True)
            ),
            embed=weights(keys[2], width, size),
            reward=weights(keys[3], width),
            policy=weights(keys[4], size, actions),
            value=weights(keys[5], size),
        )

    def predict(self, embedding: Float[Array, "B E"]) -> Prediction:
        return Prediction(embedding @ self.policy, jnp.tanh(embedding @ self.value))

    def move(
        self, action: Int[Array, "B"], embedding: Float[Array, "B E"]
    ) -> tuple[Float[Array, "B"], Float[Array, "B E"]]:
        first, *rest = self.layers
        hidden = jax.nn.relu(embedding @ first + self.actions[action])
        for layer in rest:
            hidden = jax.nn.relu(hidden @ layer)
        return jnp.tanh(hidden @ self.reward), jnp.tanh(hidden @ self.embed)


MODELS: dict[str, Callable[[int, int], Model]] = {"tiny": TinyModel.make, "mlp": MLPModel.make}


def step_fields(model: Model, action: Array, embedding: Array) -> tuple[dict[str, Any], Array]:
    """Returns the fields of a `RecurrentFnOutput` for edges, and the embeddings below them."""
    reward, embedding = model.move(action, embedding)
    discount = jnp.full(reward.shape, DISCOUNT)
    return {"reward": reward, "discount": discount, **model.predict(embedding)._asdict()}, embedding


def alone(model: Model, num_simulations: int) -> Callable[[Array, Array], Any]:
    """Returns a loop of as many calls of a model as a search makes, without a tree: the limit of a search.

    Each call starts from the embedding of the one before it. The outputs are carried, so that none is left out.
    """

    def run(start: Array, key: Array) -> Any:
        prior_logits, _ = model.predict(start)
        num_actions = prior_logits.shape[-1]
        first = jnp.arange(len(start)) % num_actions

        def body(_: Array, state: tuple[Array, Any]) -> tuple[Array, Any]:
            action, (_, embedding) = state
            return (action + 1) % num_actions, step_fields(model, action, embedding)

        step = step_fields(model, first, start)
        return jax.lax.fori_loop(1, num_simulations, body, (first, step))[1]

    return run
