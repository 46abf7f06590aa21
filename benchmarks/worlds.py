"""Trains agents with the default preset in environments that its numbers were not chosen on, and records the results.

A row is one agent in one environment. Each seed counts as done at the first evaluation that reaches the target of the
environment: a mean return, or all episodes solved. Settings are those of `emcts train REFERENCE --agent AGENT` without
any flag but the environment's own.
"""

import dataclasses
import json
import sys
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
from emcts.agents.catalogue import installed
from emcts.runs.config import override, plain
from emcts.training.progress import Progress, Trainer
from emcts.types import JSON

EXAMPLES = Path(__file__).parents[1] / "examples"
FIRST_SEED = 1000
UNTRAINED_EPISODES = 32
SMOKE_STEPS = 512


@dataclasses.dataclass(frozen=True)
class World:
    """An environment, and what counts as done: all episodes solved, a mean return, or a multiple of the untrained one.

    `needed` is the least number of seeds that the agents under test have to bring there.
    """

    reference: str
    steps: int
    agents: tuple[str, ...]
    baselines: tuple[str, ...] = ()
    arguments: Mapping[str, JSON] = dataclasses.field(default_factory=dict)
    time_limit: int | None = None
    target_return: float | None = None
    times_untrained: float | None = None
    needed: int = 5

    def done(self, metrics: Mapping[str, np.ndarray], untrained: float) -> np.ndarray:
        """Returns of each seed whether this evaluation reaches the target."""
        if self.times_untrained is not None:
            return metrics["return"] >= self.times_untrained * untrained
        if self.target_return is not None:
            return metrics["return"] >= self.target_return
        return metrics["solved"] == 1


ROOMS = World("rooms:FourRooms", 30_000, ("e-az",), ("az",), {"size": 12}, time_limit=200)
LEARNED_ROOMS = dataclasses.replace(ROOMS, steps=150_000, agents=("e-mz",), baselines=("mz",), needed=3)
PAYS_TEN = {"size": 12, "goal_reward": 10.0, "step_reward": -0.01}
ALL_AT_GOAL = (
    9.0  # of 9.64 on the shortest path: with one episode of eight that misses the goal it is below 8.2
)

WORLDS: dict[str, World] = {
    "rooms": ROOMS,
    "rooms-ten": dataclasses.replace(ROOMS, arguments=PAYS_TEN, target_return=ALL_AT_GOAL),
    "rooms-learned": LEARNED_ROOMS,
    "rooms-ten-learned": dataclasses.replace(LEARNED_ROOMS, arguments=PAYS_TEN, target_return=ALL_AT_GOAL),
    "frozen-lake": World(
        "gymnasium:FrozenLake-v1",
        50_000,
        ("e-mz",),
        ("mz",),
        {"map_name": "8x8", "is_slippery": False},
        target_return=1.0,
        needed=4,
    ),
    "cart-pole": World("gymnasium:CartPole-v1", 100_000, ("mz", "e-mz"), target_return=450.0, needed=4),
    "mountain-car": World(
        "gymnax:MountainCar-v0", 200_000, ("e-az",), ("az",), target_return=-130.0, needed=4
    ),
    "2048": World("pgx:2048", 500_000, ("az",), times_untrained=3.0),
    "door-key": World("xminigrid:MiniGrid-DoorKey-8x8", 200_000, ("e-az",), ("az",)),
}


@dataclasses.dataclass
class Record:
    """What happened to each seed of a row so far."""

    world: str
    agent: str
    seeds: tuple[int, ...]
    settings: Mapping[str, JSON]
    untrained_return: float
    done_step: list[int | None]
    first_reward_step: list[float | None]
    curve: list[dict[str, JSON]]
    seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def num_done(self) -> int:
        return sum(step is not None for step in self.done_step)

    def add(self, progress: Progress, done: np.ndarray) -> None:
        for index in np.flatnonzero(done):
            if self.done_step[index] is None:
                self.done_step[index] = progress.env_steps
        first = progress.metrics["first_reward_step"]
        self.first_reward_step = [None if np.isnan(step) else float(step) for step in first]
        shown = {name: progress.metrics[name] for name in ("return", "train_return", "uncertainty")}
        self.curve.append(
            {
                "env_steps": progress.env_steps,
                **{name: [_rounded(one) for one in values] for name, values in shown.items()},
            }
        )


def train(
    world: World, name: str, agent: str, seeds: Sequence[int], *, smoke: bool, out: Path | None
) -> Record:
    """Trains one row until all seeds are done or all steps are taken. The file is written after each evaluation."""
    catalogue = installed((world.reference,))
    settings = catalogue.settings(world.reference, agent)
    steps = SMOKE_STEPS if smoke else world.steps
    changes = {"env.arguments": dict(world.arguments), "env.time_limit": world.time_limit, "steps": steps}
    if smoke:
        changes |= {**catalogue.smoke_changes(world.reference, agent), "steps": steps}
    settings = catalogue.resolve(world.reference, agent, override(settings, changes))
    trainer = catalogue.trainer(world.reference, agent, settings, tuple(seeds))
    state = trainer.init()
    untrained = trainer.evaluate(state, episodes=1 if smoke else UNTRAINED_EPISODES, beta=0.0, seed=0)
    count = len(seeds)
    record = Record(
        name,
        agent,
        tuple(seeds),
        plain(settings),
        float(np.mean(untrained["return"])),
        [None] * count,
        [None] * count,
        [],
    )
    start = time.monotonic()
    for progress in _chunks(trainer, state):
        now = time.monotonic() - start
        record.compile_seconds = record.compile_seconds or now
        record.seconds = now
        record.add(progress, world.done(progress.metrics, record.untrained_return))
        print(f"{name} {agent}: {_line(record, progress)}", flush=True)
        if out is not None:
            _write(out / f"{name}-{agent}.json", record, seeds)
        if record.num_done == count:
            break
    return record


def _chunks(trainer: Trainer, state: PyTree) -> Any:
    env_steps = 0
    while env_steps < trainer.total_env_steps:
        state, progress = trainer.advance(state)
        env_steps = progress.env_steps
        yield progress


def _write(path: Path, record: Record, seeds: Sequence[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = f"emcts bench worlds --rows {record.world}:{record.agent}"
    content = {**provenance(command), "seeds": list(seeds), **dataclasses.asdict(record)}
    path.write_text(json.dumps(content) + "\n")


def _line(record: Record, progress: Progress) -> str:
    returns = ", ".join(f"{one:.4g}" for one in progress.metrics["return"])
    return f"{progress.env_steps:,} steps, {record.seconds:.0f} s, returns {returns}, done {record.num_done}"


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.5g}")


def main(*, rows: Sequence[str] = (), seeds: int = 5, smoke: bool = False, out: Path | None = None) -> None:
    """Trains all rows, or those named WORLD or WORLD:AGENT, and prints a table."""
    sys.path.insert(0, str(EXAMPLES))
    chosen = _chosen(rows)
    table = Table(box=box.SIMPLE)
    for column in ("world", "agent", "seeds done", "needed", "steps to it", "return", "untrained", "seconds"):
        table.add_column(column, justify="left" if column in ("world", "agent") else "right")
    for name, agent in chosen:
        world = WORLDS[name]
        numbers = range(FIRST_SEED, FIRST_SEED + (1 if smoke else seeds))
        record = train(world, name, agent, numbers, smoke=smoke, out=out)
        done = [step for step in record.done_step if step is not None]
        last: Any = record.curve[-1]["return"]
        table.add_row(
            name,
            agent,
            f"{record.num_done} of {len(numbers)}",
            str(world.needed) if agent in world.agents else "-",
            f"{min(done):,} to {max(done):,}" if done else "-",
            f"{np.mean(last):.4g}",
            f"{record.untrained_return:.4g}",
            f"{record.seconds:.0f} on {jax.devices()[0].platform}",
        )
    Console(width=120).print(table)


def _chosen(rows: Sequence[str]) -> list[tuple[str, str]]:
    known = [(name, agent) for name, world in WORLDS.items() for agent in (*world.agents, *world.baselines)]
    if not rows:
        return known
    found = [pair for pair in known if pair[0] in rows or ":".join(pair) in rows]
    if missing := [
        row for row in rows if row not in {name for pair in known for name in (pair[0], ":".join(pair))}
    ]:
        raise ValueError(f"there is no row {missing[0]!r}: give any of {', '.join(WORLDS)}, or WORLD:AGENT")
    return found
