"""What a search is worth when the uncertainty that guides it is wrong.

Divers in Deep Sea with nothing to learn: they count every move, and know from the counts how uncertain each cell is, by
the exact solution of the uncertainty Bellman equation. That solution is then made late, or noisy, as that of a network
is. Some go by the best score of one step ahead, as AZ+UBE does, others search, as E-AZ does.

python examples/wrong_uncertainty.py        # 40 x 40, 20 seas: some minutes on two CPU cores
python examples/wrong_uncertainty.py 20
"""

import functools
import sys
from collections import deque
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

import emcts
from emcts.models.ube import horizon_factor
from emcts.types import Key

SEAS = 20
BETA, DISCOUNT = 10.0, 0.995
UNSEEN, EPSILON = 3.0, 0.01  # the variance of a move that was never made, and how fast it falls
RIGHT = 1  # 0 is left
LONGEST = 500  # episodes

Counts = Float[Array, "B N N 2"]  # of moves, by row, column and action
Ube = Float[Array, "B M N"]  # the variance of what follows; M is N + 1, and nothing follows the last row


@dataclass(frozen=True)
class Fault:
    """What is wrong with a diver's uncertainty: episodes that it is late, and the log of a factor on every cell."""

    late: int = 0
    noise: float = 0.0

    def __str__(self) -> str:
        if self.late:
            return f"{self.late} episodes late"
        return f"noise {self.noise:g}" if self.noise else "exact"


FAULTS = (Fault(), Fault(late=2), Fault(late=5), Fault(noise=0.1), Fault(noise=0.2))


def local_variance(counts: Array) -> Array:
    return UNSEEN * EPSILON / (counts + EPSILON)


def columns_after(size: int, column: Int[Array, "K"]) -> Int[Array, "K 2"]:
    return jnp.stack([jnp.maximum(column - 1, 0), jnp.minimum(column + 1, size - 1)], axis=-1)


@jax.jit
@jax.vmap
def solve(counts: Float[Array, "N N 2"]) -> Float[Array, "M N"]:
    """The variance of the best path from each cell, row by row from below."""
    size = len(counts)
    after = columns_after(size, jnp.arange(size))

    def row_above(below: Float[Array, "N"], row: Int[Array, ""]) -> tuple[Array, Array]:
        local = local_variance(counts[row])
        behind = jnp.maximum(below[after], horizon_factor(DISCOUNT, size - 1 - row) * local)
        here = jnp.max(local + DISCOUNT**2 * behind, axis=-1)
        return here, here

    bottom = jnp.zeros(size)
    _, rows = jax.lax.scan(row_above, bottom, jnp.arange(size), reverse=True)
    return jnp.concatenate([rows, bottom[None]])


@functools.partial(jax.jit, static_argnames="simulations")
def dive(counts: Counts, ube: Ube, key: Key, *, simulations: int) -> Counts:
    """The counts after one more episode in each sea. With no simulations a diver looks one step ahead."""
    seas, size = jnp.arange(len(counts)), counts.shape[1]

    def step(_: None, key: Key, action: Array, cell: Array) -> tuple[emcts.RecurrentFnOutput, Array]:
        row, column = cell[:, 0], cell[:, 1]
        local = local_variance(counts[seas, jnp.minimum(row, size - 1), column, action])
        row, column = jnp.minimum(row + 1, size), columns_after(size, column)[seas, action]
        behind = jnp.maximum(ube[seas, row, column], horizon_factor(DISCOUNT, size - row) * local)
        out = emcts.RecurrentFnOutput(
            reward=jnp.where(action == RIGHT, -0.01 / size, 0.0),
            discount=jnp.where(row < size, DISCOUNT, 0.0),
            prior_logits=jnp.zeros((len(seas), 2)),
            value=jnp.zeros(len(seas)),
            reward_variance=local,
            value_variance=behind,
        )
        return out, jnp.stack([row, column], axis=-1)

    def choose(key: Key, cell: Array) -> Int[Array, "B"]:
        root = emcts.RootFnOutput(
            prior_logits=jnp.zeros((len(seas), 2)),
            value=jnp.zeros(len(seas)),
            embedding=cell,
            value_variance=ube[seas, cell[:, 0], cell[:, 1]],
        )
        search = functools.partial(
            emcts.muzero_policy, None, key, root, step, dirichlet_fraction=0.0, temperature=0.0
        )
        if simulations:
            return jnp.argmax(search(simulations, beta=BETA).action_weights, axis=-1)
        plain = search(1).search_tree
        return jnp.argmax(emcts.ube_root_scores(None, key, root, step, plain, beta=BETA), axis=-1)

    def move(carry: tuple[Array, Array], key: Key) -> tuple[tuple[Array, Array], None]:
        counts, cell = carry
        action = choose(key, cell)
        counts = counts.at[seas, cell[:, 0], cell[:, 1], action].add(1)
        column = columns_after(size, cell[:, 1])[seas, action]
        return (counts, jnp.stack([cell[:, 0] + 1, column], axis=-1)), None

    start = jnp.zeros((len(seas), 2), jnp.int32)
    (after, _), _ = jax.lax.scan(move, (counts, start), jax.random.split(key, size))
    return after


def steps_to_treasure(
    size: int, simulations: int, fault: Fault, *, seas: int = SEAS
) -> Float[np.ndarray, "B"]:
    """The first time, of each sea; NaN for never. Half of the steps are of episodes that do not explore."""
    key = jax.random.key(0)
    counts = jnp.zeros((seas, size, size, 2)) + _random_episode(seas, size)
    known = deque([counts], maxlen=fault.late + 1)
    first = np.full(seas, np.nan)
    for episode in range(1, LONGEST):
        found = np.asarray(counts[:, -1, -1, RIGHT] > 0)
        first[np.isnan(first) & found] = 2 * size * episode
        if not np.isnan(first).any():
            break
        key, noise_key, dive_key = jax.random.split(key, 3)
        ube = solve(known[0])
        ube *= jnp.exp(fault.noise * jax.random.normal(noise_key, ube.shape))
        counts = dive(counts, ube, dive_key, simulations=simulations)
        known.append(counts)
    return first


def _random_episode(seas: int, size: int) -> Float[np.ndarray, "B N N 2"]:
    rng, counts, column = np.random.default_rng(0), np.zeros((seas, size, size, 2)), np.zeros(seas, int)
    for row in range(size):
        action = rng.integers(2, size=seas)
        counts[np.arange(seas), row, column, action] += 1
        column = np.clip(column + 2 * action - 1, 0, size - 1)
    return counts


def main(size: int) -> None:
    print(f"Steps to the treasure of Deep Sea {size} x {size}, mean ± std of {SEAS} seas")
    print(f"{'uncertainty':>16} {'one step ahead':>18} {'10 simulations':>18} {'50 simulations':>18}")
    for fault in FAULTS:
        times = [steps_to_treasure(size, simulations, fault) for simulations in (0, 10, 50)]
        print(f"{fault!s:>16}", *(f"{f'{x.mean():,.0f} ± {x.std():,.0f}':>18}" for x in times), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
