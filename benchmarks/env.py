"""Steps per second of every environment: one alone, and batches.

    python -m benchmarks.env

Each row is one compiled loop of random legal actions under `auto_reset`, observations included. Environments
whose package is not installed are left out. A second table has acting in simulators on the host (benchmarks/host.py).
"""

import functools
import importlib
import importlib.util
import os
import time
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import host, subleq
from benchmarks.subleq import Measurement
from emcts.envs import (
    AnyEnvironment,
    DeepSea,
    Environment,
    MinAtar,
    Subleq,
    auto_reset,
    from_gymnasium,
    from_gymnax,
    from_pgx,
)
from emcts.envs.minatar import GAMES
from emcts.envs.rollout import random_legal_action
from emcts.types import Key

BATCHES = (1, 128, 4096)
HOST_BATCHES = (
    1,
    128,
)  # the time per environment does not fall further: a simulator in Python steps one at a time
SECONDS = 0.5  # of measuring, at least
LONGEST = 50_000  # steps of one run
State = TypeVar("State")


def environments() -> dict[str, tuple[Callable[[], AnyEnvironment], tuple[int, ...]]]:
    """For each name, a function that makes the environment, and the batches to measure it at."""
    table: dict[str, tuple[Callable[[], AnyEnvironment], tuple[int, ...]]] = {
        "Deep Sea 10": (lambda: DeepSea(10), BATCHES),
        "Deep Sea 50": (lambda: DeepSea(50), BATCHES),
        "Deep Sea 50, stochastic": (lambda: DeepSea(50, stochastic=True), BATCHES),
        "SUBLEQ-16 identity": (lambda: Subleq("identity"), BATCHES),
    }
    if importlib.util.find_spec("pgx"):
        pgx = importlib.import_module("pgx")
        for game in GAMES:
            table[f"MinAtar {game}"] = (functools.partial(MinAtar, game), BATCHES)
        table["pgx 2048"] = (lambda: from_pgx(pgx.make("2048")), BATCHES)
    if importlib.util.find_spec("gymnax"):
        gymnax = importlib.import_module("gymnax")
        table["gymnax CartPole-v1"] = (lambda: from_gymnax(*gymnax.make("CartPole-v1")), BATCHES)
    if importlib.util.find_spec("gymnasium"):
        gymnasium = importlib.import_module("gymnasium")
        make = functools.partial(gymnasium.make, "CartPole-v1")
        table["Gymnasium CartPole-v1"] = (lambda: from_gymnasium(make), HOST_BATCHES)
    return table


def steps_per_second(env: AnyEnvironment, batch: int, *, seconds: float = SECONDS) -> float:
    """The best of three runs, each long enough to hide its launch."""
    resetting = auto_reset(env)
    rollout = jax.jit(functools.partial(_rollout, resetting))
    starts = jax.jit(lambda key: jax.vmap(resetting.init)(jax.random.split(key, batch)))
    keys = iter(jax.random.split(jax.random.key(0), 64))

    def run(length: int) -> float:
        key = next(keys)
        states = jax.block_until_ready(starts(key))
        start = time.perf_counter()
        jax.block_until_ready(rollout(states, key, jnp.int32(length)))
        return time.perf_counter() - start

    length, _ = 16, run(1)
    while (took := run(length)) < seconds / 2 and length < LONGEST:
        length = min(LONGEST, max(2 * length, int(length * seconds / took)))
    return batch * length / min(run(length) for _ in range(3))


def rows(*, smoke: bool = False) -> list[Measurement]:
    """One row per environment and batch."""
    results: list[Measurement] = []
    for name, (make, batches) in environments().items():
        env = make()
        for batch in batches[:1] if smoke else batches:
            rate = steps_per_second(env, batch, seconds=0.0 if smoke else SECONDS)
            results.append({"what": name, "size": batch, "per_second": rate, "bar": None})
    return results + ([] if smoke else subleq.rows())


def main(*, smoke: bool = False) -> None:
    """Prints the table; `smoke` measures each environment once and shortly, as a test that it runs."""
    device = jax.devices()[0]
    where = device.device_kind if device.platform != "cpu" else f"CPU, {os.cpu_count()} cores"
    table = Table(title=f"environments on {where}", box=box.MARKDOWN)
    for column in ("environment", "at once", "per second", "bar"):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for row in rows(smoke=smoke):
        bar = "" if row["bar"] is None else f"{row['bar']:,.0f}"
        table.add_row(row["what"], f"{row['size']:,}", f"{row['per_second']:,.0f}", bar)
    Console().print(table)
    host.main(smoke=smoke)


def _rollout(
    env: Environment[State], states: State, key: Key, length: Int[Array, ""]
) -> tuple[State, Float[Array, ""]]:
    """Sums observations and rewards, since the compiler leaves out what is not used."""
    batch = jax.tree.leaves(states)[0].shape[0]

    def step(time: Int[Array, ""], carry: tuple[State, Array]) -> tuple[State, Array]:
        states, total = carry
        noise_key, step_key = jax.random.split(jax.random.fold_in(key, time))
        noise = jax.random.uniform(noise_key, (batch, env.num_actions))
        actions = jax.vmap(random_legal_action)(jax.vmap(env.legal)(states), noise)
        states, outcome = jax.vmap(env.step)(states, actions, jax.random.split(step_key, batch))
        observations = jax.vmap(env.observe)(states)
        return states, total + observations.astype(jnp.float32).sum() + outcome.reward.sum()

    # The length is traced: one compilation serves every length.
    return jax.lax.fori_loop(0, length, step, (states, jnp.float32(0)))


if __name__ == "__main__":
    main()
