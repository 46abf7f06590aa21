"""Acting in simulators on the host: steps per second, how much of the time they take, and a plain loop beside it.

    python -m benchmarks.host

Each row is one compiled loop over Gymnasium's CartPole-v1: of random actions, or of an agent that plans with a learned
model. The plain loop steps one simulator in Python. It is measured before each row, since other load on the machine
affects both.
"""

import dataclasses
import functools
import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float, PyTree
from rich import box
from rich.console import Console
from rich.table import Table

from emcts.agents.catalogue import Registered
from emcts.agents.mcts.learner import MctsLearner
from emcts.envs.adapters.gymnasium import GymnasiumEnvironment, HostState, from_gymnasium
from emcts.envs.adapters.simulators import Moves, Steps
from emcts.envs.base import advance
from emcts.runs.config import override
from emcts.training.env_factory import SharedEnv
from emcts.types import Key

ID = "CartPole-v1"
MOVES, NUM_ENVS, SEEDS = 500, 16, (1, 5)


@dataclasses.dataclass(frozen=True)
class HostMeasurement:
    """Steps per second of all episodes, the share of the time that the simulators took, and the plain loop."""

    what: str
    seeds: int
    per_second: float
    host_share: float
    plain_per_second: float


@dataclasses.dataclass
class Stopwatch:
    """The time that an environment's simulators take."""

    env: GymnasiumEnvironment
    seconds: float = 0.0

    def __post_init__(self) -> None:
        step = self.env.pool.step

        def timed(moves: Moves) -> Steps:
            start = time.perf_counter()
            steps = step(moves)
            self.seconds += time.perf_counter() - start
            return steps

        self.env.pool.step = timed  # type: ignore[method-assign]


def rows(*, smoke: bool = False) -> list[HostMeasurement]:
    """Random actions and acting by a search, for one seed and for several; nothing without Gymnasium."""
    if not importlib.util.find_spec("gymnasium"):
        return []
    moves = 8 if smoke else MOVES
    cases: dict[str, Callable[[GymnasiumEnvironment, int, int], Callable[[Key], PyTree]]] = {
        "random actions": _random_actions,
        "mz, default settings": _searched_actions,
    }
    return [
        _measure(what, make, seeds, moves)
        for what, make in list(cases.items())[: 1 if smoke else None]
        for seeds in SEEDS[: 1 if smoke else None]
    ]


def main(*, smoke: bool = False) -> None:
    """Prints the table; `smoke` measures one row shortly."""
    table = Table(title=f"{ID} on the host, {NUM_ENVS} episodes of each seed", box=box.MARKDOWN)
    for column in ("acting", "seeds", "steps a second", "in simulators", "plain loop", "ratio"):
        table.add_column(column, justify="left" if column == "acting" else "right")
    for row in rows(smoke=smoke):
        rates = f"{row.per_second:,.0f}", f"{row.host_share:.0%}", f"{row.plain_per_second:,.0f}"
        table.add_row(row.what, str(row.seeds), *rates, f"{row.per_second / row.plain_per_second:.2f}")
    Console().print(table)


def _measure(
    what: str,
    make: Callable[[GymnasiumEnvironment, int, int], Callable[[Key], PyTree]],
    seeds: int,
    moves: int,
) -> HostMeasurement:
    """The best of three runs."""
    env = from_gymnasium(_make)
    watch, run = Stopwatch(env), make(env, seeds, moves)
    plain = _plain_loop(20 * moves)
    jax.block_until_ready(run(jax.random.key(0)))
    best = (float("inf"), 0.0)
    for key in jax.random.split(jax.random.key(1), 3):
        watch.seconds, start = 0.0, time.perf_counter()
        jax.block_until_ready(run(key))
        best = min(best, (time.perf_counter() - start, watch.seconds))
    env.close()
    return HostMeasurement(what, seeds, seeds * NUM_ENVS * moves / best[0], best[1] / best[0], plain)


def _random_actions(env: GymnasiumEnvironment, seeds: int, moves: int) -> Callable[[Key], PyTree]:
    shape = (seeds, NUM_ENVS)

    def run(key: Key) -> Float[Array, "T"]:
        def move(states: HostState, key: Key) -> tuple[HostState, Float[Array, ""]]:
            action_key, step_key, reset_key = jax.random.split(key, 3)
            actions = jax.random.randint(action_key, shape, 0, env.num_actions)
            keys = jax.random.split(step_key, shape), jax.random.split(reset_key, shape)
            _, outcome, states = jax.vmap(jax.vmap(functools.partial(advance, env)))(states, actions, *keys)
            return states, outcome.reward.sum()

        init_key, moves_key = jax.random.split(key)
        states = jax.vmap(jax.vmap(env.init))(jax.random.split(init_key, shape))
        return jax.lax.scan(move, states, jax.random.split(moves_key, moves))[1]

    return jax.jit(run)


def _searched_actions(env: GymnasiumEnvironment, seeds: int, moves: int) -> Callable[[Key], PyTree]:
    """What a training does between its updates."""
    catalogue, reference = Registered(), f"gymnasium:{ID}"
    changes = {"schedule.num_envs": NUM_ENVS, "schedule.rollout_length": moves}
    settings = override(catalogue.settings(reference, "mz"), changes)
    learner: Any = catalogue.compose(reference, "mz", settings)
    assert isinstance(learner, MctsLearner)
    learner = dataclasses.replace(learner, env_factory=SharedEnv(env))

    def run(key: Key) -> PyTree:
        def one(key: Key) -> PyTree:
            return learner.act(learner.init(key, ()))[1]

        return jax.vmap(one)(jax.random.split(key, seeds))

    return jax.jit(run)


def _plain_loop(steps: int) -> float:
    """Steps per second of one simulator, without any of ours."""
    simulator = _make()
    simulator.reset(seed=0)
    start = time.perf_counter()
    for step in range(steps):
        _, _, terminated, truncated, _ = simulator.step(step * 7 // 5 % 2)
        if terminated or truncated:
            simulator.reset(seed=step)
    return steps / (time.perf_counter() - start)


def _make() -> Any:
    return importlib.import_module("gymnasium").make(ID)


if __name__ == "__main__":
    main()
