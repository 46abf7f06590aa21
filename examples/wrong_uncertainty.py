"""Measures how much a search helps when the uncertainty that guides it is wrong.

Agents in Deep Sea with nothing to learn count all transitions, and compute from the counts the uncertainty of each cell
by the exact solution of the uncertainty Bellman equation. That solution is then made late, or noisy, like that of a
network. Some agents act by the best score of one-step lookahead, as AZ+UBE does, others search, as E-AZ does.

python examples/wrong_uncertainty.py        # 40 x 40, 20 seeds: some minutes on two CPU cores
python examples/wrong_uncertainty.py 20
python examples/wrong_uncertainty.py 20 backups     # the same with backups between the mean and the max of stds
"""

import functools
import math
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

import emcts
from emcts.models.ube import horizon_factor
from emcts.types import Key

SEEDS = 20
BETA, DISCOUNT = 10.0, 0.995
UNSEEN, EPSILON = 3.0, 0.01  # the variance of an unseen transition, and how fast it falls
RIGHT = 1  # 0 is left
LONGEST = 500  # episodes

Counts = Float[Array, "B N N 2"]  # of transitions, by row, column and action
Ube = Float[Array, "B M N"]  # variances of the returns; M is N + 1, and the last row is terminal


@dataclass(frozen=True)
class Fault:
    """The fault of an agent's uncertainty: its delay in episodes, and the std of the log of a factor on every cell.

    The factors are drawn anew for each episode, or are `lasting`: their correlation from one episode to the next. With
    `width`, those of cells are alike that are up to as many rows or columns apart.
    """

    late: int = 0
    noise: float = 0.0
    lasting: float = 0.0
    width: int = 0

    def __str__(self) -> str:
        parts = [f"{self.late} episodes late"] if self.late else []
        parts += [f"noise {self.noise:g}"] if self.noise else []
        parts += [f"lasting {self.lasting:g}"] if self.lasting else []
        parts += [f"width {self.width}"] if self.width else []
        return ", ".join(parts) or "exact"


FAULTS = (
    Fault(),
    Fault(late=2),
    Fault(late=5),
    Fault(noise=0.1),
    Fault(noise=0.2),
    Fault(noise=0.2, lasting=0.9),
    Fault(noise=0.2, width=2),
    Fault(late=2, noise=0.2),
)
BACKUPS = {
    "mean": emcts.mean_backup,
    "power 4": emcts.power_mean(4),
    "power 16": emcts.power_mean(16),
    "max": emcts.power_mean(math.inf),
}


def local_variance(counts: Array) -> Array:
    return UNSEEN * EPSILON / (counts + EPSILON)


def columns_after(size: int, column: Int[Array, "K"]) -> Int[Array, "K 2"]:
    return jnp.stack([jnp.maximum(column - 1, 0), jnp.minimum(column + 1, size - 1)], axis=-1)


@jax.jit
@jax.vmap
def solve(counts: Float[Array, "N N 2"]) -> Float[Array, "M N"]:
    """Returns the variance of the best path from each cell, row by row from below."""
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


@functools.partial(jax.jit, static_argnames=("simulations", "backup"))
def run_episode(
    counts: Counts, ube: Ube, key: Key, *, simulations: int, backup: emcts.Backup = emcts.mean_backup
) -> Counts:
    """Returns the counts after one more episode of each seed. With 0 simulations an agent uses one-step lookahead."""
    seeds, size = jnp.arange(len(counts)), counts.shape[1]

    def recurrent_fn(_: None, key: Key, action: Array, cell: Array) -> tuple[emcts.RecurrentFnOutput, Array]:
        row, column = cell[:, 0], cell[:, 1]
        local = local_variance(counts[seeds, jnp.minimum(row, size - 1), column, action])
        row, column = jnp.minimum(row + 1, size), columns_after(size, column)[seeds, action]
        behind = jnp.maximum(ube[seeds, row, column], horizon_factor(DISCOUNT, size - row) * local)
        out = emcts.RecurrentFnOutput(
            reward=jnp.where(action == RIGHT, -0.01 / size, 0.0),
            discount=jnp.where(row < size, DISCOUNT, 0.0),
            prior_logits=jnp.zeros((len(seeds), 2)),
            value=jnp.zeros(len(seeds)),
            reward_variance=local,
            value_variance=behind,
        )
        return out, jnp.stack([row, column], axis=-1)

    def select_action(key: Key, cell: Array) -> Int[Array, "B"]:
        root = emcts.RootFnOutput(
            prior_logits=jnp.zeros((len(seeds), 2)),
            value=jnp.zeros(len(seeds)),
            embedding=cell,
            value_variance=ube[seeds, cell[:, 0], cell[:, 1]],
        )
        search = functools.partial(
            emcts.muzero_policy, None, key, root, recurrent_fn, dirichlet_fraction=0.0, temperature=0.0
        )
        if simulations:
            return jnp.argmax(search(simulations, beta=BETA, backup=backup).action_weights, axis=-1)
        plain = search(1).search_tree
        return jnp.argmax(emcts.ube_root_scores(None, key, root, recurrent_fn, plain, beta=BETA), axis=-1)

    def env_step(carry: tuple[Array, Array], key: Key) -> tuple[tuple[Array, Array], None]:
        counts, cell = carry
        action = select_action(key, cell)
        counts = counts.at[seeds, cell[:, 0], cell[:, 1], action].add(1)
        column = columns_after(size, cell[:, 1])[seeds, action]
        return (counts, jnp.stack([cell[:, 0] + 1, column], axis=-1)), None

    start = jnp.zeros((len(seeds), 2), jnp.int32)
    (after, _), _ = jax.lax.scan(env_step, (counts, start), jax.random.split(key, size))
    return after


@functools.partial(jax.jit, static_argnames="fault")
def next_noise(noise: Ube, key: Key, fault: Fault) -> Ube:
    """Returns the logs of the factors of the next episode, in units of their std."""
    new = jax.random.normal(key, noise.shape)
    if fault.width:
        side = 2 * fault.width + 1
        window = jnp.ones((1, 1, side, side))
        sums = jax.lax.conv_general_dilated(new[:, None], window, (1, 1), "SAME")[:, 0]
        cells = jax.lax.conv_general_dilated(jnp.ones_like(new)[:, None], window, (1, 1), "SAME")[:, 0]
        new = sums / jnp.sqrt(cells)
    return fault.lasting * noise + math.sqrt(1 - fault.lasting**2) * new


def steps_to_goal(
    size: int,
    simulations: int,
    fault: Fault,
    *,
    seeds: int = SEEDS,
    backup: emcts.Backup = emcts.mean_backup,
) -> Float[np.ndarray, "B"]:
    """Returns the steps to the goal of each seed; NaN for never. Half of them are in episodes that do not explore."""
    key = jax.random.key(0)
    counts = jnp.zeros((seeds, size, size, 2)) + _random_episode(seeds, size)
    known = deque([counts], maxlen=fault.late + 1)
    noise = next_noise(jnp.zeros((seeds, size + 1, size)), jax.random.key(1), Fault(width=fault.width))
    first = np.full(seeds, np.nan)
    for episode in range(1, LONGEST):
        found = np.asarray(counts[:, -1, -1, RIGHT] > 0)
        first[np.isnan(first) & found] = 2 * size * episode
        if not np.isnan(first).any():
            break
        key, noise_key, episode_key = jax.random.split(key, 3)
        noise = next_noise(noise, noise_key, fault)
        ube = solve(known[0]) * jnp.exp(fault.noise * noise)
        counts = run_episode(counts, ube, episode_key, simulations=simulations, backup=backup)
        known.append(counts)
    return first


def _random_episode(seeds: int, size: int) -> Float[np.ndarray, "B N N 2"]:
    rng, counts, column = np.random.default_rng(0), np.zeros((seeds, size, size, 2)), np.zeros(seeds, int)
    for row in range(size):
        action = rng.integers(2, size=seeds)
        counts[np.arange(seeds), row, column, action] += 1
        column = np.clip(column + 2 * action - 1, 0, size - 1)
    return counts


def columns(*, backups: bool = False) -> dict[str, dict[str, Any]]:
    """Returns options of `steps_to_goal` by the name of their column: ways of acting, or backups of a search."""
    if backups:
        return {name: {"simulations": 50, "backup": backup} for name, backup in BACKUPS.items()}
    return {f"{n} simulations" if n else "one-step lookahead": {"simulations": n} for n in (0, 10, 50)}


def main(size: int, *, backups: bool = False) -> None:
    """Prints a line for each fault; with `backups`, a column for each backup in place of the numbers of simulations."""
    ways = columns(backups=backups)
    print(f"Steps to the goal of Deep Sea {size} x {size}, mean ± std of {SEEDS} seeds")
    print(f"{'uncertainty':>24}", *(f"{name:>18}" for name in ways))
    for fault in FAULTS:
        times = [steps_to_goal(size, fault=fault, **options) for options in ways.values()]
        print(f"{fault!s:>24}", *(f"{f'{x.mean():,.0f} ± {x.std():,.0f}':>18}" for x in times), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, backups="backups" in sys.argv[2:])
