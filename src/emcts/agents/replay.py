"""What was lived through, in the order it happened, and sampled in proportion to priorities.

A ring of rows, one row per move of all lanes (episodes that run side by side). Sampling is exact: a cumulative sum
over all priorities, made anew each time. A sum tree would drift.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.types import Key, Replaceable, record


@record
class Step(Replaceable):
    """One move: the state (packed), the action and what it paid, and the policy that the search proposed."""

    state: PyTree
    action: Int[Array, "..."]
    reward: Float[Array, "..."]
    terminated: Bool[Array, "..."]
    truncated: Bool[Array, "..."]
    policy: Float[Array, "... A"]


@record
class Replay(Replaceable):
    """The ring. `cursor` is the row to be written next; rows that were never written have priority 0."""

    steps: Step  # [T, L, ...]
    priorities: Float[Array, "T L"]
    largest: Float[Array, ""]  # priority of what is new
    cursor: Int[Array, ""]
    filled: Int[Array, ""]  # rows


Priority = Callable[[Float[Array, "B"], Float[Array, "B"], Float[Array, "B"]], Float[Array, "B"]]


@record
class Sample(Replaceable):
    """Where sampled steps are, and the probability with which each was drawn."""

    row: Int[Array, "B"]
    lane: Int[Array, "B"]
    probability: Float[Array, "B"]


def init(example: Step, rows: int) -> Replay:
    """An empty ring for moves shaped like `example` [L, ...]."""
    if rows < 2:
        raise ValueError(f"a replay of {rows} rows holds no move and the one after it: raise its capacity")
    steps = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), example)
    lanes = example.action.shape[0]
    return Replay(steps, jnp.zeros((rows, lanes)), jnp.float32(1), jnp.int32(0), jnp.int32(0))


def add(replay: Replay, move: Step) -> Replay:
    """Writes one move of all lanes, over the oldest when the ring is full, with the largest priority there is."""
    rows, lanes = replay.priorities.shape
    row = replay.cursor
    return replay.replace(
        steps=jax.tree.map(lambda ring, new: ring.at[row].set(new), replay.steps, move),
        priorities=replay.priorities.at[row].set(jnp.full(lanes, replay.largest)),
        cursor=(row + 1) % rows,
        filled=jnp.minimum(replay.filled + 1, rows),
    )


def sample(replay: Replay, key: Key, count: int, *, exponent: float, ahead: int) -> Sample:
    """Draws `count` steps, each with probability proportional to `priority ** exponent`.

    Only steps are drawn that have `ahead` later ones in the ring.
    """
    rows, lanes = replay.priorities.shape
    age = (replay.cursor - 1 - jnp.arange(rows)) % rows
    ready = (age >= ahead) & (age < replay.filled)
    mass = jnp.where(ready[:, None], replay.priorities, 0) ** exponent * (replay.priorities > 0)
    mass = jnp.where(ready[:, None], mass, 0).reshape(-1)
    cumulated = jnp.cumsum(mass)
    draws = jax.random.uniform(key, (count,)) * cumulated[-1]
    index = jnp.searchsorted(cumulated, draws, side="right")
    # Sums made in parallel round apart: they may rise by a digit where no mass is. The last step before stands for it.
    last = jax.lax.cummax(jnp.where(mass > 0, jnp.arange(rows * lanes, dtype=jnp.int32), 0))
    index = last[jnp.minimum(index, rows * lanes - 1)]
    return Sample(index // lanes, index % lanes, mass[index] / cumulated[-1])


def window(replay: Replay, at: Sample, length: int) -> Step:
    """The sampled steps and those after them, [B, length, ...]."""
    rows = replay.priorities.shape[0]
    row = (at.row[:, None] + jnp.arange(length)[None, :]) % rows
    return jax.tree.map(lambda ring: ring[row, at.lane[:, None]], replay.steps)


def latest(replay: Replay, rows: int) -> tuple[Step, Bool[Array, "rows L"]]:
    """The last moves of all lanes, newest first, and which of them there are."""
    capacity, lanes = replay.priorities.shape
    back = jnp.arange(min(rows, capacity))
    steps = jax.tree.map(lambda ring: ring[(replay.cursor - 1 - back) % capacity], replay.steps)
    return steps, jnp.broadcast_to((back < replay.filled)[:, None], (back.shape[0], lanes))


def prioritise(replay: Replay, at: Sample, priorities: Float[Array, "B"]) -> Replay:
    """Sets the priorities of sampled steps; of one that was drawn twice, one of the two stands."""
    updated = replay.priorities.at[at.row, at.lane].set(priorities)
    return replay.replace(priorities=updated, largest=jnp.maximum(updated.max(), 1e-6))


def value_error(
    value: Float[Array, "B"], std: Float[Array, "B"], novelty: Float[Array, "B"]
) -> Float[Array, "B"]:
    """MuZero's priority: how far off the value was."""
    return value


def surprise(
    value: Float[Array, "B"], std: Float[Array, "B"], novelty: Float[Array, "B"]
) -> Float[Array, "B"]:
    """How far off the value and its standard deviation were, and that of the move's reward: how new the move still is.

    A learned novelty estimator forgets what it is not shown; so it is shown first what it has not learned.
    """
    return value + std + novelty


def importance(at: Sample, size: Any, exponent: Any) -> Float[Array, "B"]:
    """`(size * p) ** -exponent`, over the largest of them: what a loss is weighted with to undo the priorities."""
    weights = (jnp.maximum(size * at.probability, 1e-12)) ** -exponent
    return weights / weights.max()
