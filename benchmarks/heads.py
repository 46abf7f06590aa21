"""Measures how late and how noisy the UBE heads of agents in Deep Sea are, against exact uncertainty, over training.

After each exploring episode all states are evaluated: the head, the local variances that the agent has, and its visit
counts. From both the uncertainty Bellman equation is solved exactly. The head is compared with the solution of now and
those of the episodes before. Where the agent estimates novelty (RND), the two solutions tell the estimator's error from
the head's.
"""

import csv
import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.exact_ube import Comparison, World, agreement, compare
from benchmarks.machine import provenance
from emcts.agents.catalogue import Registered
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import ExplorationParams
from emcts.agents.mcts.state import TrainState
from emcts.envs.base import unpack_state
from emcts.models.evaluators import all_states
from emcts.models.ube import horizon_factor, single_step_factor
from emcts.runs.config import override
from emcts.training.data_parallel import per_example
from emcts.types import JSON, record

OLDEST = 8  # episodes
PLANNED_EVERY = 4  # episodes: all states are searched
ENVIRONMENT = "deep-sea"


@dataclasses.dataclass(frozen=True)
class Row:
    """An agent, and settings other than its preset's."""

    agent: str
    preset: str | None = None
    settings: Mapping[str, JSON] = dataclasses.field(default_factory=dict)


RND: Mapping[str, JSON] = {"novelty.kind": "rnd", "exploration.beta": 10.0}
ROWS: Mapping[str, Row] = {
    "e-az-counts": Row("e-az"),
    "e-az-rnd": Row("e-az", settings=RND),
    "az-ube-counts": Row("az-ube"),
    "az-ube-rnd": Row("az-ube", settings=RND),
    "e-mz": Row("e-mz"),
    "e-mz-anchored": Row("e-mz", "anchored"),
}


@record
class Readout:
    """What an agent knows of all N states by themselves."""

    head: Float[Array, "*S N"]
    local: Float[Array, "*S N A"]  # variances of transitions
    counts: Int[Array, "*S N A"]


def read_out(learner: MctsLearner, state: TrainState) -> Readout:
    """Evaluates all states of one seed."""
    env: Any = learner.env(state.env_params)
    model = learner.world_model.planning_models(env, state.networks)(state.novelty)
    states, key = all_states(env), jax.random.key(0)

    def local(action: Int[Array, ""]) -> Float[Array, "N"]:
        return model.step(states, jnp.full(env.num_states, action), key).reward_variance

    return Readout(
        head=model.estimate(states).ube,
        local=jax.lax.map(local, jnp.arange(env.num_actions)).T,
        counts=transition_counts(env, state),
    )


def planned_actions(learner: MctsLearner, state: TrainState) -> Int[Array, "N"]:
    """Returns the action of an exploring episode in each state, for one seed."""
    env: Any = learner.env(state.env_params)
    model = learner.world_model.planning_models(env, state.networks)(state.novelty)
    states = all_states(env)
    params = ExplorationParams.constant(states, beta=max(learner.exploration.betas), exploring=True)

    def plan(key: Array, states: PyTree, params: ExplorationParams) -> Array:
        return learner.planner(key, model, states, params).action

    return per_example(plan)(jax.random.split(jax.random.key(0), env.num_states), states, params)


def transition_counts(env: Any, state: TrainState) -> Int[Array, "N A"]:
    """Returns how often each transition is in the replay, which has to hold all of them."""
    stored = state.replay.transitions
    states = jax.vmap(jax.vmap(lambda packed: unpack_state(env, packed)))(stored.state)
    pairs = jax.vmap(jax.vmap(env.index))(states) * env.num_actions + stored.action
    written = jnp.arange(len(pairs)) < state.replay.filled
    counts = jnp.zeros(env.num_states * env.num_actions, jnp.int32)
    return counts.at[pairs].add(written[:, None].astype(jnp.int32)).reshape(env.num_states, env.num_actions)


def transitions(env: Any, leaf_factor: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Returns the state after each transition by its number, and the leaf's `c` there."""

    def step(state: PyTree, action: Array) -> tuple[Array, Array]:
        after, _ = env.step(state, action, jax.random.key(0))
        return env.index(after), leaf_factor(jnp.float32(env.steps_left(after)))

    return jax.vmap(lambda state: jax.vmap(lambda action: step(state, action))(jnp.arange(env.num_actions)))(
        all_states(env)
    )


def leaf_factor(settings: Any) -> Callable[[Array], Array]:
    """Returns the leaf rule's `c`, given the steps that are left, as the agent's settings have it."""
    horizons: Mapping[str, Callable[[Array], Array]] = {
        "episode": lambda left: horizon_factor(settings.search.discount, left),
        "endless": lambda left: horizon_factor(settings.search.discount),
        "single": lambda left: single_step_factor(settings.search.discount),
    }
    return horizons[settings.novelty.leaf_horizon]


@dataclasses.dataclass
class Measurement:
    """The course of one training. `lines` has one entry for each exploring episode."""

    row: str
    settings: Mapping[str, JSON]
    seeds: tuple[int, ...]
    size: int
    lines: list[dict[str, JSON]]
    first_goal: list[float | None]
    env_steps: int = 0
    seconds: float = 0.0

    def mean(self, name: str, since: float = 0.25) -> float:
        """Returns the mean of a column over the episodes after the first quarter, as the agent first has to learn."""
        values = [float(str(line[name])) for line in self.lines[int(since * len(self.lines)) :]]
        known = [value for value in values if np.isfinite(value)]
        return float(np.mean(known)) if known else float("nan")


def make_settings(row: Row, size: int, steps: int, changes: Mapping[str, JSON]) -> Any:
    """Returns the settings of a training that is looked at after every exploring episode."""
    settings = Registered().settings(ENVIRONMENT, row.agent, row.preset)
    settings = override(settings, {**row.settings, "env.size": size, "steps": steps, **changes})
    exploring = settings.schedule.num_envs - settings.exploration.num_exploiting
    every = size * settings.schedule.num_envs // max(1, exploring)
    iteration = settings.schedule.num_envs * settings.schedule.rollout_length
    if every % iteration:
        raise ValueError(
            f"an exploring episode is complete every {every} steps, and an iteration has {iteration}: give a --size "
            "for which episodes are whole iterations"
        )
    settings = override(
        settings, {"evaluation.every": every, "evaluation.max_steps": 1, "evaluation.episodes": 1}
    )
    if settings.replay.capacity < steps:
        raise ValueError(
            f"a replay of {settings.replay.capacity} steps loses some of {steps}: raise its capacity"
        )
    return settings


def measure(
    name: str,
    *,
    size: int,
    seeds: Sequence[int],
    steps: int,
    changes: Mapping[str, JSON],
    inform: Callable[[str], None] = lambda text: None,
) -> Measurement:
    """Trains one row until all seeds saw the goal or the steps are over. A seed counts until it saw the goal."""
    row = ROWS[name]
    settings = make_settings(row, size, steps, changes)
    trainer: Any = Registered().trainer(ENVIRONMENT, row.agent, settings, tuple(seeds))
    learner: MctsLearner = trainer.learner
    read = jax.jit(jax.vmap(lambda state: read_out(learner, state)))
    plan = jax.jit(jax.vmap(lambda state: planned_actions(learner, state)))
    state = trainer.init()
    factor = leaf_factor(settings)
    after, factors = jax.jit(jax.vmap(lambda params: transitions(learner.env(params), factor)))(
        state.env_params
    )
    world = World(np.asarray(after), np.asarray(factors, np.float64), settings.search.discount)
    novelty = settings.novelty
    unseen = novelty.unseen_variance * (novelty.return_range or 1.0) ** 2
    result = Measurement(name, {**row.settings, **changes}, tuple(seeds), size, [], [])
    own: list[np.ndarray] = []
    true: list[np.ndarray] = []
    begun, told = time.perf_counter(), 0.0
    while result.env_steps < steps:
        state, progress = trainer.advance(state)
        result.env_steps = progress.env_steps
        first = progress.metrics["first_reward_step"]
        searching = np.isnan(first)
        result.first_goal = [None if np.isnan(step) else float(step) for step in first]
        readout = jax.device_get(read(state))
        local = np.asarray(readout.local, np.float64)
        by_counts = unseen * novelty.count_epsilon / (readout.counts + novelty.count_epsilon)
        own.insert(0, world.solve(local, size))
        true.insert(0, world.solve(by_counts, size))
        del own[OLDEST + 1 :], true[OLDEST + 1 :]
        if not searching.any():
            break
        if len(own) <= OLDEST:
            continue
        is_planned = len(result.lines) % PLANNED_EVERY == 0
        planned = np.asarray(jax.device_get(plan(state))) if is_planned else None
        part = _Part(world, searching, readout, planned, unseen)
        result.lines.append(
            {"env_steps": result.env_steps, "seeds": int(searching.sum())} | part.columns(own, true)
        )
        if time.perf_counter() > told + 20:
            told = time.perf_counter()
            inform(f"{name} {result.env_steps:,} steps, {searching.sum()} of {len(seeds)} seeds search")
    result.seconds = time.perf_counter() - begun
    return result


@dataclasses.dataclass(frozen=True)
class _Part:
    """The seeds of one checkpoint that have not seen the goal."""

    world: World
    searching: np.ndarray
    readout: Readout
    planned: np.ndarray | None
    unseen: float

    def columns(self, own: Sequence[np.ndarray], true: Sequence[np.ndarray]) -> dict[str, JSON]:
        of = self.searching
        world = dataclasses.replace(self.world, after=self.world.after[of], factor=self.world.factor[of])
        counts, head = np.asarray(self.readout.counts)[of], np.asarray(self.readout.head, np.float64)[of]
        local = np.asarray(self.readout.local, np.float64)[of]
        visited = counts.sum(axis=-1) > 0
        by_own = compare(head, [one[of] for one in own], visited, world, unseen=self.unseen)
        by_true = compare(head, [one[of] for one in true], visited, world, unseen=self.unseen)
        estimator = compare(own[0][of], [true[0][of]], visited, world, unseen=self.unseen)
        exact = world.behind(own[0][of], local)
        ahead = world.behind(head, local).argmax(axis=-1)
        agrees = float("nan")
        if self.planned is not None:
            agrees = agreement(self.planned[of], exact, visited, unseen=self.unseen)
        return {
            **_columns("", by_own),
            **_columns("true_", by_true),
            "estimator_bias": _short(estimator.bias),
            "estimator_noise": _short(estimator.noise),
            "ahead_agrees": _short(agreement(ahead, exact, visited, unseen=self.unseen)),
            "planner_agrees": _short(agrees),
            "errors_by_age": " ".join(str(_short(error)) for error in by_own.errors),
        }


def _columns(prefix: str, found: Comparison) -> dict[str, JSON]:
    names = ("states", "age", "bias", "noise", "noise_now", "siblings", "closed")
    return {prefix + name: _short(getattr(found, name)) for name in names}


def _short(number: float) -> float | int:
    return number if isinstance(number, int) else round(number, 4)


def write(measurements: Sequence[Measurement], out: Path, command: str) -> None:
    """Writes a line for each exploring episode, and beside it a JSON file with what made them and a summary."""
    out.parent.mkdir(parents=True, exist_ok=True)
    kept_lines, kept = _others(measurements, out)
    lines = [*kept_lines, *({"row": label(one), **line} for one in measurements for line in one.lines)]
    if lines:
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[-1]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
    rows = [*kept, *(summary(one) | {"made": provenance(command)} for one in measurements)]
    out.with_suffix(".json").write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


def _others(
    measurements: Sequence[Measurement], out: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the lines and summaries of other rows that the file has."""
    if not out.is_file():
        return [], []
    new = {label(one) for one in measurements}
    with out.open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["row"] not in new]
    rows = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))["rows"]
    return lines, [row for row in rows if row["row"] not in new]


def label(one: Measurement) -> str:
    """Returns the name of a row with its size and what was changed."""
    given = {name: value for name, value in one.settings.items() if ROWS[one.row].settings.get(name) != value}
    return " ".join([f"{one.row} {one.size}", *(f"{name}={value}" for name, value in given.items())])


def summary(one: Measurement) -> dict[str, JSON]:
    """Returns means over the exploration, and the first goals."""
    found = [step for step in one.first_goal if step is not None]
    names = ("age", "noise", "noise_now", "bias", "siblings", "closed", "ahead_agrees", "planner_agrees")
    more = ("true_age", "true_noise", "estimator_noise", "estimator_bias")
    return {
        "row": label(one),
        "agent": ROWS[one.row].agent,
        "size": one.size,
        "settings": dict(one.settings),
        "seeds": list(one.seeds),
        "first_goal": list(one.first_goal),
        "found": len(found),
        "mean_first_goal": round(float(np.mean(found)), 1) if found else None,
        "env_steps": one.env_steps,
        "seconds": round(one.seconds, 1),
        **{name: _short(one.mean(name)) for name in (*names, *more)},
    }


def read_changes(given: Sequence[str]) -> dict[str, JSON]:
    """Reads settings such as `targets.ube_depth=5`: values are JSON, or else text."""
    changes: dict[str, JSON] = {}
    for one in given:
        path, separator, text = one.partition("=")
        if not separator:
            raise ValueError(f"{one!r} is no setting: give a path and a value, such as targets.ube_depth=5")
        try:
            changes[path.replace("-", "_")] = json.loads(text)
        except json.JSONDecodeError:
            changes[path.replace("-", "_")] = text
    return changes


def main(
    *,
    rows: Sequence[str] = (),
    size: int = 20,
    seeds: int = 8,
    first_seed: int = 0,
    steps: int = 2_500,
    settings: Sequence[str] = (),
    plan: bool = False,
    smoke: bool = False,
    out: Path | None = None,
) -> None:
    """Measures all rows, or those named, and prints their means. Other rows of the file are kept."""
    if missing := [row for row in rows if row not in ROWS]:
        raise ValueError(f"there is no row {missing[0]!r}: give any of {', '.join(ROWS)}")
    changes = read_changes(settings)
    names = tuple(rows) or tuple(ROWS)
    command = " ".join(
        ["emcts bench heads", *(f"--rows {' '.join(rows)}" if rows else "").split()]
        + [f"--size {size} --seeds {seeds} --first-seed {first_seed} --steps {steps}"]
        + (["--settings", *settings] if settings else [])
    )
    numbers = range(first_seed, first_seed + seeds)
    if plan:
        for name in names:
            print(f"{name}: {len(numbers)} seeds of {size} x {size}, up to {steps:,} steps each")
        return
    if smoke:
        size, steps, numbers = 5, 600, range(first_seed, first_seed + 1)
    console = Console(width=140)
    table = Table(box=box.SIMPLE)
    shown = (
        "first goal",
        "found",
        "age",
        "noise",
        "bias",
        "siblings",
        "closed",
        "ahead agrees",
        "planner agrees",
    )
    for head in ("row", *shown):
        table.add_column(head, justify="left" if head == "row" else "right")
    for name in names:
        found = measure(
            name,
            size=size,
            seeds=tuple(numbers),
            steps=steps,
            changes={**(_smoke_changes(ROWS[name]) if smoke else {}), **changes},
            inform=lambda text: print(text, flush=True),
        )
        if out is not None:
            write([found], out, command)
        means = summary(found)
        cells = [means["mean_first_goal"], f"{means['found']} of {len(numbers)}"]
        cells += [means[one.replace(" ", "_")] for one in shown[2:]]
        table.add_row(label(found), *map(str, cells))
        print(means, flush=True)
    console.print(table)


def _smoke_changes(row: Row) -> dict[str, JSON]:
    changes: Any = Registered().smoke_changes(ENVIRONMENT, row.agent)
    fixed = ("env.size", "steps", "evaluation.every", "evaluation.episodes", "replay.capacity")
    return {**{name: value for name, value in changes.items() if name not in fixed}, "replay.capacity": 600}
