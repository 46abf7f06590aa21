"""What a run needs of the training inside it: a state of all seeds that advances chunk by chunk."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import PyTree


@dataclass(frozen=True)
class Find:
    """Something worth keeping that a seed found: for SUBLEQ, a program."""

    seed: int
    env_steps: int
    words: tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    """What one chunk of training did, on the host. Steps are those of each seed, all episodes counted.

    `metrics` are [S] floats by name, NaN where there is nothing to say (yet). Known to the display and the summary:
    `return`, `first_reward_step`, `solved_step`, `regret_step`, `states_discovered`, `table_occupancy`, `uncertainty`,
    and `nan_step`, which is finite once a loss was not. `simulator_steps` are those that searches took for acting and
    Reanalyse, where they step the environment itself.
    """

    env_steps: int
    train_steps: int
    metrics: Mapping[str, np.ndarray]
    finds: tuple[Find, ...] = ()
    simulator_steps: int = 0


@runtime_checkable
class Trainer(Protocol):
    """Training of several seeds at once. The state is all there is: the same state leads to the same results.

    `jax.eval_shape(trainer.init)` must work: it is what a checkpoint is compared with.
    """

    @property
    def seeds(self) -> tuple[int, ...]: ...

    @property
    def total_env_steps(self) -> int:
        """Of each seed."""

    @property
    def shardings(self) -> PyTree | None:
        """Where the arrays of a state are, as a state of shardings; None for wherever JAX puts them."""

    def init(self) -> PyTree:
        """The state of all seeds: arrays [S, ...] and typed keys."""

    def advance(self, state: PyTree) -> tuple[PyTree, Progress]:
        """One chunk, of seconds to a minute. The state passed in is donated."""

    def evaluate(self, state: PyTree, *, episodes: int, beta: float, seed: int) -> Mapping[str, np.ndarray]:
        """[S, E] by name, such as `return` and `length`."""

    def maps(self, state: PyTree) -> Mapping[str, np.ndarray]:
        """[S, N, N] by name; none where the world is no grid."""
