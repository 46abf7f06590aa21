"""Deep Sea as a task: a map of actions for each seed, and rows and columns as the latent states of anchored models."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from emcts.agents.task import Anchor, Task
from emcts.envs import DeepSea
from emcts.training.evaluation import episodes_solved


@dataclasses.dataclass(frozen=True)
class DeepSeaOptions:
    """The environment."""

    size: int = 10
    """rows and columns"""
    stochastic: bool = False
    """whether rewards at the bottom have noise"""


@dataclasses.dataclass(frozen=True)
class DeepSeaFactory:
    """Deep Sea with a map of actions for each seed."""

    size: int
    stochastic: bool = False

    def params(self, seed: int) -> PyTree:
        return DeepSea(self.size, seed=seed).right_actions

    def make(self, params: PyTree) -> DeepSea:
        return self.example.with_map(params)

    @property
    def example(self) -> DeepSea:
        return DeepSea(self.size, stochastic=self.stochastic)


def deep_sea(options: DeepSeaOptions) -> Task:
    return Task(
        env_factory=DeepSeaFactory(options.size, options.stochastic),
        max_steps=options.size,
        solved=episodes_solved,
        anchor=Anchor(2 * options.size, row_and_column),
    )


def row_and_column(env: DeepSea, state: PyTree) -> Float[Array, "latent"]:
    """Encodes a cell as two one-hot vectors; as zeros once the episode is over."""
    cell = jnp.concatenate([jax.nn.one_hot(state.row, env.size), jax.nn.one_hot(state.column, env.size)])
    return jnp.where(state.row < env.size, cell, 0.0)
