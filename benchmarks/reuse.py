"""Measures what it is worth that the searches of an agent go on in the tree of the last move (`--search.reuse`).

A row is one agent in one environment, in three ways of acting: afresh with `n` simulations, with reuse and as many, and
with reuse and as few as take the time of the first. Targets are searched with `n` simulations in all three: only acting
differs. Times are CPU times of a move: a search, and with reuse the cut of the tree.
"""

import csv
import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.machine import provenance
from emcts.agents.catalogue import Registered
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import ExplorationParams, Planner, SearchPlanner, UbeAtRoot
from emcts.agents.mcts.tree_reuse import empty_tree, plan_move, tree_after
from emcts.runs.config import override
from emcts.training.seeds import SeedTrainer
from emcts.types import JSON

FIRST_SEED = 1000
TIMED_CALLS, WARM_MOVES = 40, 4
SAME_NETWORKS_EPISODES = 32
ARMS = ("afresh", "equal simulations", "equal time")


@dataclasses.dataclass(frozen=True)
class Row:
    """An agent in an environment. `is_goal` if what counts is the steps to the goal, else the return does."""

    environment: str
    agent: str
    simulations: int
    settings: Mapping[str, JSON]
    is_goal: bool = True


BREAKOUT: Mapping[str, JSON] = {
    "steps": 20_480,
    "model.width": 64,
    "model.channels": 8,
    "replay.batch_size": 128,
    "replay.capacity": 20_480,
    "schedule.num_envs": 16,
    "schedule.rollout_length": 16,
    "schedule.updates": 2,
    "schedule.warmup_steps": 1024,
    "evaluation.every": 5_120,
    "evaluation.episodes": 16,
    "evaluation.max_steps": 300,
}
LEARNED_BREAKOUT: Mapping[str, JSON] = {
    **{name: value for name, value in BREAKOUT.items() if name != "model.width"},
    "steps": 10_240,
    "replay.batch_size": 64,
    "model.latent": 64,
    "model.dynamics": (64,),
    "model.heads": (64,),
    "evaluation.every": 2_560,
}
DEEP_SEA_10: Mapping[str, JSON] = {"env.size": 10, "steps": 2_000, "evaluation.every": 50}
DEEP_SEA_20: Mapping[str, JSON] = {"env.size": 20, "steps": 5_000, "evaluation.every": 100}
ROWS = {
    "deep-sea-10": Row("deep-sea", "e-az", 16, DEEP_SEA_10),
    "deep-sea-20": Row("deep-sea", "e-az", 16, DEEP_SEA_20),
    "breakout": Row("minatar-breakout", "az", 16, BREAKOUT, is_goal=False),
    "breakout-learned": Row("minatar-breakout", "mz", 16, LEARNED_BREAKOUT, is_goal=False),
}


@dataclasses.dataclass
class Result:
    """What one way of acting did. Lists have a number for each seed; None where a seed did not get there."""

    row: str
    agent: str
    acting: str
    simulations: int
    cpu_ms: float  # of a move of all parallel episodes
    env_steps: int = 0
    first_goal: list[float | None] = dataclasses.field(default_factory=list)
    solved: list[float | None] = dataclasses.field(default_factory=list)
    returns: list[float] = dataclasses.field(default_factory=list)
    same_networks: list[float] = dataclasses.field(default_factory=list)  # returns of those trained afresh


def with_simulations(planner: Planner, number: int) -> Planner:
    """Returns the planner with another number of simulations."""
    if isinstance(planner, UbeAtRoot):
        return dataclasses.replace(
            planner, planner=dataclasses.replace(planner.planner, num_simulations=number)
        )
    assert isinstance(planner, SearchPlanner)
    return dataclasses.replace(planner, num_simulations=number)


def acting(trainer: SeedTrainer[Any], number: int, *, reuse: bool) -> SeedTrainer[Any]:
    """Returns the trainer of an agent that acts with so many simulations, and learns as before."""
    learner = trainer.learner
    assert isinstance(learner, MctsLearner)
    changed = dataclasses.replace(
        learner,
        planner=with_simulations(learner.planner, number),
        evaluation_planner=dataclasses.replace(learner.evaluation_planner, num_simulations=number),
        reuse_tree=reuse,
    )
    return dataclasses.replace(trainer, learner=changed)


class Moves:
    """Moves of the parallel episodes of an untrained agent, to be timed."""

    def __init__(self, trainer: SeedTrainer[Any], state: PyTree):
        learner = trainer.learner
        assert isinstance(learner, MctsLearner)
        env = learner.env(state.env_params)
        model = learner.world_model.planning_models(env, state.networks)(state.novelty)
        params = ExplorationParams.of(learner.exploration)
        self._states = state.episodes.state
        self._tree = empty_tree(learner.planner, model, self._states, params) if learner.reuse_tree else None

        def move(key: Any, states: PyTree, tree: Any) -> tuple[PyTree, Any]:
            plan_key, step_key = jax.random.split(key)
            plan, tree = plan_move(learner.planner, model, plan_key, states, params, tree)
            keys = jax.random.split(step_key, learner.num_envs)
            after, outcome = jax.vmap(env.step)(states, plan.action, keys)
            return after, tree_after(model, tree, plan.action, after, ~outcome.over)

        self._move = jax.jit(move)
        for number in range(WARM_MOVES):
            self._states, self._tree = self._move(jax.random.key(number), self._states, self._tree)
        jax.block_until_ready(self._states)

    def cpu_ms(self) -> float:
        """Returns the CPU milliseconds of one more move from the same states."""
        start = time.process_time()
        jax.block_until_ready(self._move(jax.random.key(0), self._states, self._tree))
        return 1e3 * (time.process_time() - start)


def cpu_times(moves: Sequence[Moves], calls: int) -> list[float]:
    """Returns the median time of each, in interleaved calls."""
    times = np.array([[one.cpu_ms() for one in moves] for _ in range(calls)])
    return [float(time) for time in np.median(times, axis=0)]


def simulations_of_equal_time(times: Sequence[float], simulations: Sequence[int]) -> int:
    """Returns how many simulations with reuse take `times[0]`, given the times of two numbers with reuse."""
    _, few, many = simulations
    each = max((times[2] - times[1]) / (many - few), 1e-9)
    return int(np.clip(round(few + (times[0] - times[1]) / each), 1, many))


def measure(name: str, seeds: int, *, smoke: bool) -> list[Result]:
    """Measures one row."""
    row = ROWS[name]
    changes: dict[str, object] = {**row.settings}
    number = row.simulations
    if smoke:
        changes |= {**Registered().smoke_changes(row.environment, row.agent), "evaluation.max_steps": 5}
        number = 4
    settings = override(
        Registered().settings(row.environment, row.agent), {**changes, "search.simulations": number}
    )
    numbers = tuple(range(FIRST_SEED, FIRST_SEED + (1 if smoke else seeds)))
    trainer: Any = Registered().trainer(row.environment, row.agent, settings, numbers)
    compared = (number, max(1, number // 2), number)
    state = jax.tree.map(lambda leaf: leaf[0], trainer.init())
    timed = [Moves(acting(trainer, one, reuse=index > 0), state) for index, one in enumerate(compared)]
    times = cpu_times(timed, 2 if smoke else TIMED_CALLS)
    fewer = simulations_of_equal_time(times, compared)
    each = (times[2] - times[1]) / max(1, compared[2] - compared[1])
    equal = times[1] + each * (fewer - compared[1])
    ways = zip(ARMS, (number, number, fewer), (times[0], times[2], equal), (False, True, True), strict=True)
    results, first_state = [], None
    for way, count, cpu_ms, reuse in ways:
        result = Result(name, row.agent, way, count, cpu_ms)
        state = train(result, row, acting(trainer, count, reuse=reuse), first_state)
        first_state = state if first_state is None else first_state
        results.append(result)
        print(result, flush=True)
    return results


def train(result: Result, row: Row, trainer: SeedTrainer[Any], networks: PyTree | None) -> PyTree:
    """Trains one way of acting, and returns the state; if given, other networks are played by it too."""
    state, env_steps, curve = trainer.init(), 0, []
    while env_steps < trainer.total_env_steps:
        state, progress = trainer.advance(state)
        env_steps = progress.env_steps
        curve.append(progress.metrics["return"])
        reached = {name: progress.metrics[f"{name}_step"] for name in ("first_reward", "solved")}
        if row.is_goal and np.isfinite(reached["solved"]).all():
            break
    result.env_steps = env_steps
    if row.is_goal:
        result.first_goal, result.solved = ([_number(one) for one in steps] for steps in reached.values())
        return state
    result.returns = np.mean(curve[-max(1, len(curve) // 2) :], axis=0).tolist()
    played = trainer.evaluate(
        state if networks is None else networks, episodes=SAME_NETWORKS_EPISODES, beta=0.0, seed=0
    )
    result.same_networks = np.asarray(played["return"]).mean(axis=1).tolist()
    return state


def _number(step: float) -> float | None:
    return None if np.isnan(step) else float(step)


def _mean(values: Sequence[float | None]) -> str:
    """The mean of the seeds that got there, and how many did not."""
    there = [one for one in values if one is not None]
    if not there:
        return ""
    missing = len(values) - len(there)
    return f"{statistics.mean(there):.4g}" + (f" ({missing} of {len(values)} never)" if missing else "")


COLUMNS = ("first_goal", "solved", "returns", "same_networks")


def lines(results: Sequence[Result], command: str) -> list[dict[str, JSON]]:
    """Returns the results as lines of a CSV file."""
    made = provenance(command)
    return [
        {
            "row": one.row,
            "agent": one.agent,
            "acting": one.acting,
            "simulations": one.simulations,
            "cpu_ms_of_a_move": round(one.cpu_ms, 3),
            "env_steps": one.env_steps,
            **{name: " ".join(_text(value) for value in getattr(one, name)) for name in COLUMNS},
            **made,
        }
        for one in results
    ]


def _text(value: float | None) -> str:
    return "never" if value is None else f"{value:.5g}"


def main(*, rows: Sequence[str] = (), seeds: int = 5, smoke: bool = False, out: Path | None = None) -> None:
    """Measures all rows, or those named. The file is written after each, and keeps the lines of other rows."""
    if missing := [row for row in rows if row not in ROWS]:
        raise ValueError(f"there is no row {missing[0]!r}: give any of {', '.join(ROWS)}")
    table = Table(box=box.SIMPLE)
    heads = (
        "row",
        "acting",
        "simulations",
        "CPU ms of a move",
        "first goal",
        "solved",
        "return",
        "same networks",
    )
    for head in heads:
        table.add_column(head, justify="left" if head in ("row", "acting") else "right")
    for name in rows or ROWS:
        results = measure(name, seeds, smoke=smoke)
        command = f"emcts bench reuse --rows {name} --seeds {seeds}"
        if out is not None:
            _write(out, name, lines(results, command))
        for one in results:
            cells = [_mean(getattr(one, column)) for column in COLUMNS]
            table.add_row(one.row, one.acting, str(one.simulations), f"{one.cpu_ms:.2f}", *cells)
    Console(width=140).print(table)


def _write(path: Path, name: str, new: Sequence[Mapping[str, JSON]]) -> None:
    """Replaces the lines of a row in the file."""
    kept: list[Mapping[str, JSON]] = []
    if path.is_file():
        with path.open(newline="") as file:
            kept = [line for line in csv.DictReader(file) if line["row"] != name]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(new[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *new])
