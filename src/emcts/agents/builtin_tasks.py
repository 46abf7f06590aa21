"""The tasks of the built-in environments: their options, and what each brings to training."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from emcts.agents.task import Anchor, Task
from emcts.envs import DeepSea, MinAtar, Subleq
from emcts.envs.subleq import (
    behaviour,
    behaviour_and_program,
    behaviour_on_examples,
    first_results,
    length,
)
from emcts.training.env_factory import SharedEnv
from emcts.training.evaluation import episodes_solved

MINATAR_MAX_STEPS = 1000  # of an evaluation episode: games may never end


@dataclasses.dataclass(frozen=True)
class DeepSeaOptions:
    """The environment."""

    size: int = 10
    """number of rows and of columns"""
    stochastic: bool = False
    """whether rewards at the bottom have noise"""


@dataclasses.dataclass(frozen=True)
class DeepSeaFactory:
    """Deep Sea with a map of actions for each seed."""

    size: int
    stochastic: bool = False

    def __post_init__(self) -> None:
        DeepSea(self.size)  # raises for a size that it does not have

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


@dataclasses.dataclass(frozen=True)
class SubleqOptions:
    """The environment."""

    task: str = "identity"
    """task that programs are to solve: `emcts subleq tasks` lists them"""
    word_size: int = 16
    """N: the number of words of memory, each from 0 to N - 1"""
    max_words: int = 10
    """largest number of words of a program"""
    signed: bool = False
    """whether a jump tests the stored word as two's complement"""


def subleq(options: SubleqOptions) -> Task:
    return Task(
        env_factory=SharedEnv(Subleq(options.task, options.word_size, options.max_words, options.signed)),
        max_steps=options.max_words + 1,
        solved=episodes_solved,
        bounded_returns=True,
        novelty_inputs={
            "io": behaviour,
            "full": behaviour_and_program,
            "examples": behaviour_on_examples,
            "trace": first_results,
            "length": length,
        },
    )


@dataclasses.dataclass(frozen=True)
class MinAtarOptions:
    """The environment."""

    sticky_action_prob: float = 0.1
    """probability with which the last action is repeated"""


def minatar(game: str) -> Callable[[MinAtarOptions], Task]:
    """Returns the task of a game."""
    return lambda options: Task(
        env_factory=SharedEnv(MinAtar(game, options.sticky_action_prob)), max_steps=MINATAR_MAX_STEPS
    )
