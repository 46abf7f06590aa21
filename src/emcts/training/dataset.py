"""Datasets to learn from without acting: the transitions of another run's replay, laid out for parallel episodes."""

from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, PyTree

from emcts.training.replay import StoredTransition
from emcts.types import Replaceable, record

T = TypeVar("T")


@record
class Dataset(Replaceable):
    """Transitions in the order of time along the first axis, as a replay stores them; where not `valid`, padding.

    What follows the last transition of an episode of the dataset is not known: it is marked as cut off.
    """

    transitions: StoredTransition  # [L, E, ...]
    valid: Bool[Array | np.ndarray, "L E"]


def in_order(
    ring: StoredTransition, stored: Bool[np.ndarray, "T E"], cursor: int, steps: int | None = None
) -> StoredTransition:
    """Returns the first stored transitions of a ring [T, E, ...], one parallel episode after the other, [N, ...].

    The first are the oldest. Parallel episodes step one after the other, so that they share them evenly.
    """
    rows, num_envs = stored.shape
    total = int(stored.sum())
    steps = total if steps is None else steps
    if not 1 <= steps <= total:
        raise ValueError(
            f"offline_steps is {steps:,}, and the replay holds {total:,} transitions: give fewer"
        )
    time = (cursor + np.arange(rows)) % rows
    there = stored[time]
    chosen = there & (np.cumsum(there).reshape(there.shape) <= steps)
    parts = []
    for env in range(num_envs):
        if len(places := time[chosen[:, env]]):
            parts.append(_cut_off(jax.tree.map(lambda leaf, env=env, at=places: leaf[at, env], ring)))
    return _joined(parts)


def laid_out(transitions: StoredTransition, num_envs: int) -> Dataset:
    """Returns transitions [N, ...] as those of a number of parallel episodes, as evenly as possible."""
    steps = len(transitions.action)
    if steps < num_envs:
        raise ValueError(
            f"{steps} transitions are fewer than the {num_envs} parallel episodes: lower schedule.num_envs to {steps}"
        )
    longest = -(-steps // num_envs)
    columns, valid = [], []
    for places in np.array_split(np.arange(steps), num_envs):
        column = _cut_off(jax.tree.map(lambda leaf, places=places: leaf[places], transitions))
        padded = np.minimum(np.arange(longest), len(places) - 1)
        columns.append(jax.tree.map(lambda leaf, padded=padded: leaf[padded], column))
        valid.append(np.arange(longest) < len(places))
    return Dataset(_stacked(columns, axis=1), np.stack(valid, axis=1))


def of_all_seeds(datasets: Sequence[Dataset]) -> Dataset:
    """Returns the datasets of several seeds as one, [S, ...]. Those of one run have the same size."""
    return _stacked(datasets, axis=0)


def _cut_off(transitions: StoredTransition) -> StoredTransition:
    """Marks the last transition as cut off, unless it ended an episode: what it led to does not follow."""
    terminated = np.asarray(transitions.terminated)
    truncated = np.asarray(transitions.truncated) & ~terminated
    truncated[-1] = not terminated[-1]
    return eqx.tree_at(lambda one: one.truncated, transitions, truncated)  # of arrays on the host


def _joined(parts: Sequence[T]) -> T:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _stacked(parts: Sequence[PyTree], axis: int) -> PyTree:
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=axis), *parts)
