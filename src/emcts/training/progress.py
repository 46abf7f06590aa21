"""The interface between a run and its training: a state of all seeds that advances chunk by chunk.

A chunk ends with an evaluation, and is what metrics are of. It runs in pieces of some iterations, between which a run
can show its speed, save and stop; the results do not depend on the lengths of the pieces. In the first chunk, metrics
of acting and learning are reported in the middle too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import PyTree

from emcts.types import JSON


@dataclass(frozen=True)
class Artifact:
    """Something that a seed found and that the run keeps. Equal data of one seed is the same artifact."""

    seed: int
    env_steps: int
    data: Mapping[str, JSON]
    text: str  # the same for people to read; the texts of a seed share a file
    suffix: str = ".txt"  # of that file


@dataclass(frozen=True)
class Progress:
    """Results of one chunk of training, on the host. Steps are those of each seed since its start, in all episodes.

    `metrics` are [S] floats by name, NaN where a seed has no value (yet). The display and the summary use
    `return`, `first_reward_step`, `solved_step`, `regret_step`, `states_discovered`, `table_occupancy`, `uncertainty`
    and `nan_step`, which is finite once a loss was not. `simulator_steps` counts the steps of the environment inside
    searches, for acting and Reanalyse; it is 0 for a learned model.
    """

    env_steps: int
    train_steps: int
    metrics: Mapping[str, np.ndarray]
    artifacts: tuple[Artifact, ...] = ()
    simulator_steps: int = 0


@dataclass(frozen=True)
class Piece:
    """Some iterations of a chunk, as the host sees them afterwards."""

    env_steps: int  # of each seed since its start
    iterations: int
    is_last: bool  # the chunk can be ended
    changes_pace: bool  # the iterations after it take another time: they learn, and these did not
    is_finite: bool  # no loss was not finite, or exploded
    is_report_due: bool = False  # of the chunk so far: before the first evaluation


def next_report(done: int) -> int:
    """Returns the iteration of the first chunk after which metrics are reported next: 1, 2, 4, 8 and so on.

    Reports come soon and stay few, and at the same steps however often a run is interrupted.
    """
    return 1 << done.bit_length()


@runtime_checkable
class Trainer(Protocol):
    """Trains several seeds at once. The state determines everything: equal states give equal results.

    The state and the chunk that has begun determine everything between two pieces. `jax.eval_shape` of `init` and
    `begin_chunk` must work: checkpoints are compared with its shapes.
    """

    @property
    def seeds(self) -> tuple[int, ...]: ...

    @property
    def total_env_steps(self) -> int:
        """The environment steps of each seed after which training ends: the last chunk is as long as it takes."""

    @property
    def shardings(self) -> PyTree | None:
        """The shardings of a state, as a pytree of its structure; None for the default device."""

    def init(self) -> PyTree:
        """Returns the initial state of all seeds: arrays [S, ...] and typed keys."""

    @property
    def chunk_shardings(self) -> PyTree | None:
        """The shardings of a chunk, as those of a state."""

    def compilations(self, state: PyTree) -> Mapping[str, Callable[[], object]]:
        """Returns functions that compile the programs ahead of time, by name; else they compile when first used."""

    def begin_chunk(self) -> PyTree:
        """Returns a chunk without iterations: arrays, to which pieces add what happened."""

    def run_piece(self, state: PyTree, chunk: PyTree, iterations: int) -> tuple[PyTree, PyTree, Piece]:
        """Trains at most so many iterations of a chunk, and at least one. The given state and chunk are donated."""

    def report(self, state: PyTree, chunk: PyTree) -> Progress:
        """Returns the metrics of acting and learning in a chunk that has begun. Nothing is evaluated or changed."""

    def end_chunk(self, state: PyTree, chunk: PyTree) -> tuple[PyTree, Progress]:
        """Evaluates after the last piece of a chunk. The given state is donated."""

    def advance(self, state: PyTree) -> tuple[PyTree, Progress]:
        """Trains one whole chunk, which takes seconds to minutes. The given state is donated."""

    def evaluate(self, state: PyTree, *, episodes: int, beta: float, seed: int) -> Mapping[str, np.ndarray]:
        """Returns [S, E] results of episodes by name, such as `return` and `length`."""

    def maps(self, state: PyTree) -> Mapping[str, np.ndarray]:
        """Returns [S, N, N] maps of a grid environment by name; no maps for any other environment."""
