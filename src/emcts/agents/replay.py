"""What was lived through, in the order it happened, and sampled in proportion to priorities.

A ring of rows, one row per move of all lanes (episodes that run side by side). Sampling descends a tree of sums, made
anew each time: one that is kept would drift, and a cumulative sum of a million float32 numbers is too coarse for the
small ones among them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from emcts.agents.spread import WHOLE, Spread
from emcts.envs.base import tree_where
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


def sample(
    replay: Replay, key: Key, count: int, *, exponent: float, ahead: int, spread: Spread = WHOLE
) -> Sample:
    """Draws `count` steps of all lanes, each with probability proportional to `priority ** exponent`.

    Only steps are drawn that have `ahead` later ones in the ring. All devices draw the same.
    """
    priorities = spread.whole(replay.priorities, axis=1)
    rows, lanes = priorities.shape
    age = (replay.cursor - 1 - jnp.arange(rows)) % rows
    ready = (age >= ahead) & (age < replay.filled)
    mass = jnp.where(ready[:, None], priorities, 0) ** exponent * (priorities > 0)
    mass = jnp.where(ready[:, None], mass, 0).reshape(-1)
    index, probability = draw(key, mass, count)
    return Sample(index // lanes, index % lanes, probability)


def draw(key: Key, mass: Float[Array, "N"], count: int) -> tuple[Int[Array, "B"], Float[Array, "B"]]:
    """Draws `count` indices with replacement, in proportion to their mass, and says with what probability each.

    At each node of a binary tree of sums, a random number of its own decides between the two halves. It is compared
    with the share of the smaller half: there 32 random bits resolve what a float32 of almost 1 does not. A half without
    mass is never entered.
    """
    tree, depth = _sums(mass)
    bits = jax.random.bits(key, (depth, count), jnp.uint32)

    def descend(node: Int[Array, "B"], bits: UInt32[Array, "B"]) -> tuple[Int[Array, "B"], None]:
        left, right = tree[2 * node], tree[2 * node + 1]
        noise = (bits.astype(jnp.float32) + 0.5) * 2.0**-32
        to_smaller = noise * (left + right) < jnp.minimum(left, right)
        return 2 * node + jnp.where(left <= right, ~to_smaller, to_smaller), None

    node, _ = jax.lax.scan(descend, jnp.ones(count, jnp.int32), bits)
    return node - 2**depth, tree[node] / tree[1]


def _sums(leaves: Float[Array, "N"]) -> tuple[Float[Array, "nodes"], int]:
    """A binary tree of sums and its depth. Node 1 is the root, and the halves of node k are 2k and 2k + 1."""
    depth = (leaves.size - 1).bit_length()
    levels = [jnp.pad(leaves, (0, 2**depth - leaves.size))]
    while levels[-1].size > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    return jnp.concatenate([jnp.zeros(1, leaves.dtype), *reversed(levels)]), depth


def window(replay: Replay, at: Sample, length: int, spread: Spread = WHOLE) -> Step:
    """The sampled steps and those after them, [B, length, ...]; nothing but zeros for lanes of other devices."""
    rows = replay.priorities.shape[0]
    row = (at.row[:, None] + jnp.arange(length)[None, :]) % rows
    lane, here = _lane_here(replay, at, spread)
    steps = jax.tree.map(lambda ring: ring[row, lane[:, None]], replay.steps)
    if spread.count == 1:
        return steps
    return jax.vmap(lambda here, step: tree_where(here, step, jax.tree.map(jnp.zeros_like, step)))(
        here, steps
    )


def _lane_here(replay: Replay, at: Sample, spread: Spread) -> tuple[Int[Array, "B"], Bool[Array, "B"]]:
    """Where in the rings of this device sampled lanes are, and which of them are in these."""
    lanes = replay.priorities.shape[1]
    lane = at.lane - spread.index * lanes
    return jnp.clip(lane, 0, lanes - 1), (lane >= 0) & (lane < lanes)


def latest(replay: Replay, rows: int) -> tuple[Step, Bool[Array, "rows L"]]:
    """The last moves of all lanes, newest first, and which of them there are."""
    capacity, lanes = replay.priorities.shape
    back = jnp.arange(min(rows, capacity))
    steps = jax.tree.map(lambda ring: ring[(replay.cursor - 1 - back) % capacity], replay.steps)
    return steps, jnp.broadcast_to((back < replay.filled)[:, None], (back.shape[0], lanes))


def prioritise(replay: Replay, at: Sample, priorities: Float[Array, "B"], spread: Spread = WHOLE) -> Replay:
    """Sets the priorities of sampled steps; of one that was drawn twice, one of the two stands."""
    lane, here = _lane_here(replay, at, spread)
    lane = jnp.where(here, lane, replay.priorities.shape[1])
    updated = replay.priorities.at[at.row, lane].set(priorities, mode="drop")
    return replay.replace(priorities=updated, largest=jnp.maximum(spread.largest(updated.max()), 1e-6))


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
