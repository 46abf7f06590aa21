"""Compares numbers of outcomes that a search samples of each action, in stochastic worlds.

Two kinds of rows. `search:lake` and `search:lake-8` are searches alone, in slippery lakes that value iteration solves:
how often the action is optimal, and what the policy is worth, for values at the leaves that are exact, noisy or 0. All
other rows train an agent with the default preset and a number of outcomes, as
`emcts train REFERENCE --agent AGENT --search.outcomes K` does.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from examples.slippery_lake import LakeState, SlipperyLake
from jaxtyping import Array, Float
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.machine import provenance
from emcts.agents.catalogue import installed
from emcts.agents.mcts.planners import ExplorationParams, Gumbel
from emcts.models.evaluators import StateEstimate, TransitionEstimate
from emcts.models.simulator import SimulatorPlanningModel
from emcts.runs.config import override, plain
from emcts.types import JSON

EXAMPLES = Path(__file__).parents[1] / "examples"
OUTCOMES = (1, 2, 4, 8, 16)
SMOKE_STEPS = 512
DISCOUNT = 0.99
LAKES = {"lake": 4, "lake-8": 8}
SIMULATIONS = (16, 64, 256)
NOISE = 0.1  # the standard deviation of noisy values
LEAVES = ("exact", "noisy", "zero")


@dataclasses.dataclass(frozen=True)
class World:
    """A stochastic environment to train an agent in."""

    reference: str
    steps: int
    agent: str = "az"
    arguments: Mapping[str, JSON] = dataclasses.field(default_factory=dict)
    time_limit: int | None = None


WORLDS = {
    "lake": World("slippery_lake:SlipperyLake", 20_000, time_limit=100),
    "lake-8": World("slippery_lake:SlipperyLake", 100_000, arguments={"size": 8}, time_limit=200),
    "2048": World("pgx:2048", 500_000),
    "breakout": World("pgx:minatar-breakout", 500_000),
}


@dataclasses.dataclass(frozen=True)
class Quality:
    """Searches of one kind in a lake: shares of the optimum are of the value at the start."""

    size: int
    leaves: str
    simulations: int
    outcomes: int
    optimal: float  # how often the action is, over all cells
    regret: float  # of the action, in the value of the cell
    share: float  # of the optimal value, by acting so
    seconds: float


def search_quality(
    size: int, simulations: int, outcomes: int, *, tables: int = 8, keys: int = 8
) -> list[Quality]:
    """Searches every cell, with values at the leaves from some tables, `keys` times each."""
    env = SlipperyLake(size)
    qvalues = env.optimal_qvalues(DISCOUNT)
    playing = np.flatnonzero(qvalues.max(axis=1) > 0)
    optimum = qvalues.max(axis=1)
    noise = NOISE * np.random.default_rng(0).normal(size=(tables, size**2))
    leaves = {"exact": optimum + 0 * noise, "noisy": optimum + noise, "zero": 0 * noise}
    planner = Gumbel(simulations, gumbel_scale=0.0)
    roots = LakeState(jnp.asarray(playing, jnp.int32))

    @jax.jit
    def search(values: Float[Array, "tables cells"]) -> Array:
        def of_table(values: Float[Array, "cells"], key: Array) -> Array:
            model = SimulatorPlanningModel(
                env,
                lambda state: StateEstimate(jnp.zeros(4), jnp.zeros(4), values[state.cell], jnp.float32(0)),
                lambda before, action, after, outcome: TransitionEstimate(
                    outcome.reward, jnp.float32(0), jnp.float32(0)
                ),
                DISCOUNT,
                lambda leaf: jnp.float32(1),
                float("inf"),
                num_outcomes=outcomes,
            )
            return planner(key, model, roots, ExplorationParams.constant(roots)).action

        repeated = jnp.repeat(values, keys, axis=0)
        actions = jax.vmap(of_table)(repeated, jax.random.split(jax.random.key(0), tables * keys))
        return actions.reshape(tables, keys, -1)

    found = []
    jax.block_until_ready(search(jnp.zeros((tables, size**2))))
    for name, values in leaves.items():
        start = time.monotonic()
        actions = np.asarray(search(jnp.asarray(values, jnp.float32)))
        seconds = time.monotonic() - start
        taken = qvalues[playing, actions]
        best = optimum[playing]
        policy = np.zeros((tables, size**2, 4))
        policy[:, playing] = (actions[..., None] == np.arange(4)).mean(axis=1)
        share = np.mean([policy_value(env, one)[0] for one in policy]) / optimum[0]
        found.append(
            Quality(
                size,
                name,
                simulations,
                outcomes,
                float(np.mean(taken >= best - 1e-6)),
                float(np.mean(best - taken)),
                float(share),
                seconds,
            )
        )
    return found


def policy_value(env: SlipperyLake, policy: Float[np.ndarray, "cells 4"]) -> Float[np.ndarray, "cells"]:
    """Returns the value of each cell under a policy, exactly."""
    cells, goal = env.size**2, env.size**2 - 1
    chances = np.zeros((cells, cells))
    for slip in range(3):
        for action in range(4):
            np.add.at(chances, (np.arange(cells), env.transitions[:, action, slip]), policy[:, action] / 3)
    over = env.holes | (np.arange(cells) == goal)
    chances[over] = 0
    return np.linalg.solve(np.eye(cells) - DISCOUNT * chances * ~over, chances[:, goal])


@dataclasses.dataclass
class Record:
    """The training of one row so far."""

    world: str
    agent: str
    outcomes: int
    seeds: tuple[int, ...]
    settings: Mapping[str, JSON]
    untrained_return: list[float]
    curve: list[dict[str, JSON]]
    seconds: float = 0.0
    simulator_steps: int = 0  # of one seed

    def last(self, share: float = 0.25) -> Float[np.ndarray, "S"]:
        """Returns of each seed the mean of its last evaluations; without any, that of the untrained agent."""
        if not self.curve:
            return np.array(self.untrained_return)
        returns = np.array([one["return"] for one in self.curve], float)
        return returns[-max(1, round(share * len(returns))) :].mean(axis=0)


def train(
    name: str,
    outcomes: int,
    seeds: Sequence[int],
    *,
    steps: int | None,
    training: bool,
    smoke: bool,
    out: Path | None,
) -> Record:
    """Trains one row. The file is written after each evaluation. Without `training`, the untrained agent plays."""
    world = WORLDS[name]
    limit = f" --steps {steps or world.steps}" if training else " --no-training"
    row = f"{name}:{outcomes} --seeds {len(seeds)}{limit}"
    catalogue = installed((world.reference,))
    changes: dict[str, Any] = {
        "env.arguments": dict(world.arguments),
        "env.time_limit": world.time_limit,
        "search.outcomes": outcomes,
        "steps": steps or world.steps,
    }
    if smoke:
        changes |= {**catalogue.smoke_changes(world.reference, world.agent), "steps": SMOKE_STEPS}
    settings = override(catalogue.settings(world.reference, world.agent), changes)
    settings = catalogue.resolve(world.reference, world.agent, settings)
    trainer = catalogue.trainer(world.reference, world.agent, settings, tuple(seeds))
    state = trainer.init()
    untrained = trainer.evaluate(state, episodes=1 if smoke else 16, beta=0.0, seed=0)
    returns = np.asarray(untrained["return"], float).reshape(len(seeds), -1).mean(axis=1)
    record = Record(name, world.agent, outcomes, tuple(seeds), plain(settings), returns.tolist(), [])
    if not training and out is not None:
        _write(out / f"untrained-{name}-{outcomes}.json", row, dataclasses.asdict(record))
    start, env_steps = time.monotonic(), 0
    while training and env_steps < trainer.total_env_steps:
        state, progress = trainer.advance(state)
        env_steps = progress.env_steps
        record.seconds = time.monotonic() - start
        record.simulator_steps = progress.simulator_steps
        shown = [float(f"{one:.5g}") for one in progress.metrics["return"]]
        record.curve.append({"env_steps": env_steps, "return": shown})
        print(f"{name}:{outcomes}: {env_steps:,} steps, {record.seconds:.0f} s, returns {shown}", flush=True)
        if out is not None:
            _write(out / f"{name}-{outcomes}.json", row, dataclasses.asdict(record))
    return record


def _write(path: Path, row: str, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**provenance(f"emcts bench outcomes --rows {row}"), **content}) + "\n")


def main(
    *,
    rows: Sequence[str] = (),
    seeds: int = 3,
    steps: int | None = None,
    training: bool = True,
    smoke: bool = False,
    out: Path | None = None,
) -> None:
    """Measures all rows, or those named: search:LAKE, WORLD, or WORLD:K."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    searches, trained = chosen(rows)
    if searches:
        Console(width=120).print(_search_table(searches, smoke=smoke, out=out))
    if trained:
        table = _table(
            "world", "outcomes", "return", "of each seed", "untrained", "simulator steps", "seconds"
        )
        for name, outcomes in trained:
            numbers = range(1 if smoke else seeds)
            record = train(name, outcomes, numbers, steps=steps, training=training, smoke=smoke, out=out)
            last = record.last()
            table.add_row(
                name,
                str(outcomes),
                f"{last.mean():.4g}",
                ", ".join(f"{one:.4g}" for one in last),
                f"{np.mean(record.untrained_return):.4g}",
                f"{record.simulator_steps:,}",
                f"{record.seconds:.0f} on {jax.devices()[0].platform}",
            )
        Console(width=140).print(table)


def _search_table(names: Sequence[str], *, smoke: bool, out: Path | None) -> Table:
    table = _table(
        "lake", "leaves", "simulations", "outcomes", "optimal", "regret", "share of optimum", "seconds"
    )
    for name in names:
        found: list[Quality] = []
        for simulations in (4,) if smoke else SIMULATIONS:
            for outcomes in (1, 2) if smoke else OUTCOMES:
                repeats = {"tables": 1, "keys": 1} if smoke else {}
                found += search_quality(LAKES[name], simulations, outcomes, **repeats)
        found.sort(key=lambda one: (LEAVES.index(one.leaves), one.simulations, one.outcomes))
        for one in found:
            table.add_row(
                name,
                one.leaves,
                str(one.simulations),
                str(one.outcomes),
                f"{one.optimal:.3f}",
                f"{one.regret:.4f}",
                f"{one.share:.3f}",
                f"{one.seconds:.2f}",
            )
        if out is not None:
            rows = [dataclasses.asdict(one) for one in found]
            _write(out / f"search-{name}.json", f"search:{name}", {"noise": NOISE, "rows": rows})
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE)
    for column in columns:
        table.add_column(column, justify="left" if column in ("world", "lake", "leaves") else "right")
    return table


def chosen(rows: Sequence[str]) -> tuple[list[str], list[tuple[str, int]]]:
    """Returns the lakes to search and the worlds to train, with the outcomes; all of them if no row is named."""
    lakes = {f"search:{name}": name for name in LAKES}
    trained = {f"{name}:{outcomes}": (name, outcomes) for name in WORLDS for outcomes in OUTCOMES}
    known = {*lakes, *trained, *WORLDS}
    if missing := [row for row in rows if row not in known]:
        raise ValueError(
            f"there is no row {missing[0]!r}: give any of {', '.join([*lakes, *WORLDS])}, or WORLD:K with K of "
            f"{', '.join(map(str, OUTCOMES))}"
        )
    if not rows:
        return list(lakes.values()), list(trained.values())
    return (
        [name for row, name in lakes.items() if row in rows],
        [pair for row, pair in trained.items() if row in rows or pair[0] in rows],
    )
