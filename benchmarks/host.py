"""Acting in simulators on the host: steps per second, what a step costs the processor, and a plain loop beside it.

    python -m benchmarks.host

Each row is one compiled loop over Gymnasium's CartPole-v1: of random actions, or of an agent that plans with a learned
model. The plain loop steps one simulator in Python. Costs are processor time of all threads, which other load on the
machine affects less than steps per second.
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
    """Steps per second of all episodes, and the processor's microseconds of a step.

    `simulators` are those that the simulators take, with what finds and checks them; `plain` those of a plain loop.
    """

    what: str
    seeds: int
    per_second: float
    cost: float
    simulators: float
    plain: float


@dataclasses.dataclass
class Stopwatch:
    """The processor time that an environment's simulators take."""

    env: GymnasiumEnvironment
    seconds: float = 0.0

    def __post_init__(self) -> None:
        step = self.env.pool.step

        def timed(moves: Moves) -> Steps:
            start = time.thread_time()
            steps = step(moves)
            self.seconds += time.thread_time() - start
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
    for column in ("acting", "seeds", "steps a second", "us a step", "in simulators", "plain loop"):
        table.add_column(column, justify="left" if column == "acting" else "right")
    for row in rows(smoke=smoke):
        costs = (f"{cost:.1f}" for cost in (row.cost, row.simulators, row.plain))
        table.add_row(row.what, str(row.seeds), f"{row.per_second:,.0f}", *costs)
    Console(width=120).print(table)


def _measure(
    what: str,
    make: Callable[[GymnasiumEnvironment, int, int], Callable[[Key], PyTree]],
    seeds: int,
    moves: int,
) -> HostMeasurement:
    """The best of three runs, each."""
    env = from_gymnasium(_make)
    watch, run = Stopwatch(env), make(env, seeds, moves)
    jax.block_until_ready(run(jax.random.key(0)))
    runs = []
    for key in jax.random.split(jax.random.key(1), 3):
        watch.seconds, wall, processor = 0.0, time.perf_counter(), time.process_time()
        jax.block_until_ready(run(key))
        runs.append((time.perf_counter() - wall, time.process_time() - processor, watch.seconds))
    env.close()
    wall, cost, simulators = (min(column) / (seeds * NUM_ENVS * moves) for column in zip(*runs, strict=True))
    plain = min(_plain_loop(20 * moves) for _ in range(3))
    return HostMeasurement(what, seeds, 1 / wall, 1e6 * cost, 1e6 * simulators, 1e6 * plain)


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
    """The processor's seconds for a step of one simulator, without any of ours."""
    simulator = _make()
    simulator.reset(seed=0)
    start = time.process_time()
    for step in range(steps):
        _, _, terminated, truncated, _ = simulator.step(step * 7 // 5 % 2)
        if terminated or truncated:
            simulator.reset(seed=step)
    return (time.process_time() - start) / steps


def _make() -> Any:
    return importlib.import_module("gymnasium").make(ID)


if __name__ == "__main__":
    main()
