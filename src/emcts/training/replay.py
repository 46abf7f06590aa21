"""Replay with prioritised sampling: a ring of transitions of all parallel episodes, in the order of time.

Sampling descends a tree of sums that is built anew each time: one that is kept would drift, and a cumulative sum of a
million float32 numbers is too coarse for the small ones among them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from emcts.envs.base import tree_where
from emcts.training.data_parallel import SINGLE_DEVICE, DataParallel
from emcts.types import Key, Replaceable, record


@record
class StoredTransition(Replaceable):
    """A transition without the state that it leads to: that is the next one's. `policy` is the search's proposal."""

    state: PyTree  # packed
    action: Int[Array, "..."]
    reward: Float[Array, "..."]
    terminated: Bool[Array, "..."]
    truncated: Bool[Array, "..."]
    policy: Float[Array, "... A"]


@record
class Replay(Replaceable):
    """The ring. `cursor` is the row to be written next; rows that were never written have priority 0."""

    transitions: StoredTransition  # [T, E, ...]
    priorities: Float[Array, "T E"]
    max_priority: Float[Array, ""]  # of new transitions
    cursor: Int[Array, ""]
    filled: Int[Array, ""]  # rows


Priority = Callable[[Float[Array, "B"], Float[Array, "B"], Float[Array, "B"]], Float[Array, "B"]]


@record
class Sample(Replaceable):
    """The positions of sampled transitions, and the probability with which each was drawn."""

    row: Int[Array, "B"]
    env: Int[Array, "B"]
    probability: Float[Array, "B"]


def init(example: StoredTransition, rows: int) -> Replay:
    """Returns an empty ring for transitions shaped like `example` [E, ...]."""
    if rows < 2:
        raise ValueError(
            f"a replay of {rows} rows holds no transition and the one after it: raise its capacity"
        )
    transitions = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), example)
    num_envs = example.action.shape[0]
    return Replay(transitions, jnp.zeros((rows, num_envs)), jnp.float32(1), jnp.int32(0), jnp.int32(0))


def add(replay: Replay, transition: StoredTransition) -> Replay:
    """Writes one transition of all parallel episodes, over the oldest when the ring is full, at maximal priority."""
    rows, num_envs = replay.priorities.shape
    row = replay.cursor
    return replay.replace(
        transitions=jax.tree.map(lambda ring, new: ring.at[row].set(new), replay.transitions, transition),
        priorities=replay.priorities.at[row].set(jnp.full(num_envs, replay.max_priority)),
        cursor=(row + 1) % rows,
        filled=jnp.minimum(replay.filled + 1, rows),
    )


def sample(
    replay: Replay,
    key: Key,
    count: int,
    *,
    exponent: float,
    lookahead: int,
    data_parallel: DataParallel = SINGLE_DEVICE,
) -> Sample:
    """Draws `count` transitions, each with probability proportional to `priority ** exponent`.

    Only transitions with `lookahead` later ones in the ring are drawn. All devices draw the same.
    """
    priorities = data_parallel.gather(replay.priorities, axis=1)
    rows, num_envs = priorities.shape
    age = (replay.cursor - 1 - jnp.arange(rows)) % rows
    ready = (age >= lookahead) & (age < replay.filled)
    mass = jnp.where(ready[:, None], priorities, 0) ** exponent * (priorities > 0)
    mass = jnp.where(ready[:, None], mass, 0).reshape(-1)
    index, probability = draw(key, mass, count)
    return Sample(index // num_envs, index % num_envs, probability)


def draw(key: Key, mass: Float[Array, "N"], count: int) -> tuple[Int[Array, "B"], Float[Array, "B"]]:
    """Draws `count` indices with replacement in proportion to their mass, and returns their probabilities.

    At each node of a binary tree of sums, a random number of its own decides between the two halves. It is compared
    with the mass of the smaller half: there 32 random bits resolve what a float32 close to 1 does not. A half without
    mass is never chosen.
    """
    tree, depth = _sum_tree(mass)
    bits = jax.random.bits(key, (depth, count), jnp.uint32)

    def choose_half(node: Int[Array, "B"], bits: UInt32[Array, "B"]) -> tuple[Int[Array, "B"], None]:
        left, right = tree[2 * node], tree[2 * node + 1]
        noise = (bits.astype(jnp.float32) + 0.5) * 2.0**-32
        to_smaller = noise * (left + right) < jnp.minimum(left, right)
        return 2 * node + jnp.where(left <= right, ~to_smaller, to_smaller), None

    node, _ = jax.lax.scan(choose_half, jnp.ones(count, jnp.int32), bits)
    return node - 2**depth, tree[node] / tree[1]


def _sum_tree(leaves: Float[Array, "N"]) -> tuple[Float[Array, "nodes"], int]:
    """Builds a binary tree of sums, and returns its depth. Node 1 is the root; node k has the halves 2k and 2k + 1."""
    depth = (leaves.size - 1).bit_length()
    levels = [jnp.pad(leaves, (0, 2**depth - leaves.size))]
    while levels[-1].size > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    return jnp.concatenate([jnp.zeros(1, leaves.dtype), *reversed(levels)]), depth


def window(
    replay: Replay, sample: Sample, length: int, data_parallel: DataParallel = SINGLE_DEVICE
) -> StoredTransition:
    """Returns the sampled transitions and those after them, [B, length, ...]; zeros for episodes of other devices."""
    rows = replay.priorities.shape[0]
    row = (sample.row[:, None] + jnp.arange(length)[None, :]) % rows
    env, here = _local_env(replay, sample, data_parallel)
    transitions = jax.tree.map(lambda ring: ring[row, env[:, None]], replay.transitions)
    if data_parallel.num_devices == 1:
        return transitions
    zeros = jax.tree.map(jnp.zeros_like, transitions)
    return jax.vmap(tree_where)(here, transitions, zeros)


def _local_env(
    replay: Replay, sample: Sample, data_parallel: DataParallel
) -> tuple[Int[Array, "B"], Bool[Array, "B"]]:
    """The indices of sampled episodes in the shard of this device, and which of them are in it."""
    num_envs = replay.priorities.shape[1]
    env = sample.env - data_parallel.index * num_envs
    return jnp.clip(env, 0, num_envs - 1), (env >= 0) & (env < num_envs)


def latest(replay: Replay, rows: int) -> tuple[StoredTransition, Bool[Array, "rows E"]]:
    """Returns the last transitions of all parallel episodes, newest first, and which of them exist."""
    capacity, num_envs = replay.priorities.shape
    back = jnp.arange(min(rows, capacity))
    transitions = jax.tree.map(lambda ring: ring[(replay.cursor - 1 - back) % capacity], replay.transitions)
    return transitions, jnp.broadcast_to((back < replay.filled)[:, None], (back.shape[0], num_envs))


def set_priorities(
    replay: Replay,
    sample: Sample,
    priorities: Float[Array, "B"],
    data_parallel: DataParallel = SINGLE_DEVICE,
) -> Replay:
    """Sets the priorities of sampled transitions; if one was drawn twice, one of its two priorities is kept."""
    env, here = _local_env(replay, sample, data_parallel)
    env = jnp.where(here, env, replay.priorities.shape[1])
    updated = replay.priorities.at[sample.row, env].set(priorities, mode="drop")
    return replay.replace(
        priorities=updated, max_priority=jnp.maximum(data_parallel.max(updated.max()), 1e-6)
    )


def value_error(
    value: Float[Array, "B"], std: Float[Array, "B"], novelty: Float[Array, "B"]
) -> Float[Array, "B"]:
    """MuZero's priority: the absolute error of the value."""
    return value


def surprise(
    value: Float[Array, "B"], std: Float[Array, "B"], novelty: Float[Array, "B"]
) -> Float[Array, "B"]:
    """The absolute errors of the value and of its standard deviation, plus the standard deviation of the reward.

    A learned novelty estimator forgets what it is not trained on: transitions that are still novel come first.
    """
    return value + std + novelty


def importance(
    sample: Sample, size: Int[Array, ""] | int, exponent: Float[Array, ""] | float
) -> Float[Array, "B"]:
    """Returns importance weights `(size * p) ** -exponent`, divided by the largest of them."""
    weights = (jnp.maximum(size * sample.probability, 1e-12)) ** -exponent
    return weights / weights.max()
