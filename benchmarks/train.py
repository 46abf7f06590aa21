"""Times whole training: environment steps per second, the parts of an iteration, compilation and memory.

A chunk is one call of `trainer.advance`, as in `emcts train`: acting, learning, and an evaluation at its end. The parts
of an agent that plans are compiled once more, each alone, and timed alternately with chunks, so that other load on the
machine affects all of them.
"""

import dataclasses
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.machine import provenance
from emcts.agents.catalogue import Registered
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.state import TrainState
from emcts.agents.mcts.update import TrainingBatch, make_batch, update
from emcts.runs.config import override
from emcts.training.seeds import SeedTrainer

T = TypeVar("T")
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """A preset with some settings changed, and the steps per second of all seeds that it must reach.

    `changes` are settings by their dotted path. `iterations_per_chunk` None is as many as between two evaluations.
    """

    environment: str
    preset: str
    seeds: int
    changes: Mapping[str, object] = dataclasses.field(default_factory=dict)
    agent: str = "e-az"
    bar: float | None = None
    authors: float | None = None  # steps per second of the authors' own program
    iterations_per_chunk: int | None = None

    @property
    def name(self) -> str:
        size, novelty = self.changes.get("env.size"), self.changes.get("novelty.kind")
        sized = self.environment if size is None else f"{self.environment} {size} x {size}"
        return sized if novelty is None else f"{sized}, {novelty}"

    def trainer(self) -> SeedTrainer[PyTree]:
        catalogue = Registered()
        settings = override(catalogue.settings(self.environment, self.agent, self.preset), self.changes)
        trainer = catalogue.trainer(self.environment, self.agent, settings, tuple(range(self.seeds)))
        if self.iterations_per_chunk is None:
            return trainer
        return dataclasses.replace(trainer, iterations_per_chunk=self.iterations_per_chunk)


CPU = (
    Case("subleq", "paper-subleq", 1, bar=540, authors=181, iterations_per_chunk=2),
    Case("deep-sea", "default", 1, {"env.size": 40}),
    Case("deep-sea", "default", 1, {"env.size": 40, "novelty.kind": "rnd"}, iterations_per_chunk=5),
    Case("deep-sea", "default", 1, {"env.size": 40}, agent="e-mz", iterations_per_chunk=5),
)
GPU = (
    Case("subleq", "paper-subleq", 1, bar=5_000, authors=237),
    Case("deep-sea", "default", 1, {"env.size": 40}),
    Case("deep-sea", "default", 20, {"env.size": 40}),
    Case("deep-sea", "default", 20, {"env.size": 40, "evaluation.every": 500}, agent="e-mz"),
    Case("minatar-breakout", "default", 10, bar=40_000),
    Case("subleq", "paper-subleq", 16, bar=24_000, authors=237),
)
TINY = {
    "env.size": 4,
    "search.simulations": 2,
    "model.width": 8,
    "replay.batch_size": 8,
    "schedule.updates": 2,
}
SMOKE = (Case("deep-sea", "default", 2, TINY),)
PARTS = ("acting", "reanalyse", "updates")


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of an iteration, each a compiled program of all seeds. They may donate the state they are given."""

    acting: Callable[[TrainState], TrainState]
    reanalyse: Callable[[TrainState], TrainingBatch]
    updates: Callable[[TrainState, TrainingBatch], TrainState]


def parts(learner: MctsLearner) -> Parts:
    """Compiles the parts: sampling and targets are one, the updates of the networks another."""

    def reanalyse(state: TrainState) -> TrainingBatch:
        sample_key, target_key, _ = jax.random.split(state.key, 3)
        return make_batch(learner, state, jnp.float32(0.5), sample_key, target_key)

    def updates(state: TrainState, batch: TrainingBatch) -> TrainState:
        _, _, update_key = jax.random.split(state.key, 3)
        return update(learner, state, batch, update_key)[0]

    return Parts(
        acting=jax.jit(jax.vmap(lambda state: learner.act(state)[0]), donate_argnums=0),
        reanalyse=jax.jit(jax.vmap(reanalyse)),
        updates=jax.jit(jax.vmap(updates), donate_argnums=0),
    )


@dataclasses.dataclass
class Stopwatch:
    """The seconds of calls, by name and in order; the first call of a name compiles."""

    seconds: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def __call__(self, name: str, function: Callable[..., T], *arguments: PyTree) -> T:
        start = time.perf_counter()
        result = jax.block_until_ready(function(*arguments))
        self.seconds.setdefault(name, []).append(time.perf_counter() - start)
        return result

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name][1:])


def measure(case: Case, rounds: int, seconds: float) -> Row:
    """Times rounds of a chunk and its parts: `rounds`, or at least three if they take more than `seconds`."""
    trainer = case.trainer()
    learner, clock = trainer.learner, Stopwatch()
    timed = parts(learner) if isinstance(learner, MctsLearner) else None
    state = trainer.init()
    state_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    state, progress = clock("chunk", trainer.advance, state)
    while progress.env_steps < learner.schedule.warmup_steps:
        state, progress = trainer.advance(state)
    began = time.perf_counter()
    for turn in range(rounds + 1):  # the first compiles the parts
        if timed is not None:
            state = clock("acting", timed.acting, state)
            batch = clock("reanalyse", timed.reanalyse, state)
            state = clock("updates", timed.updates, state, batch)
        if turn == rounds or (turn >= 3 and time.perf_counter() - began > seconds):
            break
        state, _ = clock("chunk", trainer.advance, state)
    chunk = clock.median("chunk")
    part_seconds = {name: clock.median(name) for name in PARTS if timed is not None}
    return {
        "case": case.name,
        "agent": case.agent,
        "preset": case.preset,
        "seeds": case.seeds,
        "steps_per_second": case.seeds * trainer.iterations_per_chunk * learner.steps_per_iteration / chunk,
        "bar": case.bar,
        "authors": case.authors,
        "iterations_per_chunk": trainer.iterations_per_chunk,
        "iteration_ms": 1e3 * chunk / trainer.iterations_per_chunk,
        **{f"{name}_ms": 1e3 * took for name, took in part_seconds.items()},
        **{f"{name}_share": took / sum(part_seconds.values()) for name, took in part_seconds.items()},
        "compile_s": max(clock.seconds["chunk"][0] - chunk, 0.0),
        "state_mib_per_seed": state_bytes / case.seeds / 2**20,
        "peak_mib": _peak_mebibytes(),
    }


def cases(*, smoke: bool = False) -> tuple[Case, ...]:
    """Returns the cases for this machine; on a CPU they have one seed."""
    chosen = SMOKE if smoke else GPU if jax.default_backend() == "gpu" else CPU
    has_pgx = importlib.util.find_spec("pgx") is not None
    return tuple(case for case in chosen if has_pgx or not case.environment.startswith("minatar-"))


def main(*, smoke: bool = False, out: Path | None = None) -> None:
    """Prints the tables; see `emcts bench train --help`."""
    console = Console()
    rounds, seconds = (1, 0.0) if smoke else (7, 20.0)
    rows = []
    for case in cases(smoke=smoke):
        console.print(f"[dim]{case.name}, seeds: {case.seeds} ...")
        rows.append(measure(case, rounds, seconds))
    console.print(_speed(rows))
    console.print(_shares(rows))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**provenance("emcts bench train"), "cases": rows}, indent=1) + "\n")
        console.print(f"written to {out}")


def _peak_mebibytes() -> float | None:
    """Returns the peak memory of this process on the device, if the device reports it."""
    stats = jax.devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use")
    return None if peak is None else peak / 2**20


def _speed(rows: list[Row]) -> Table:
    table = _table("whole training", ("agent", "seeds", "steps/s", "bar", "authors", "compile s"))
    for row in rows:
        rate, bar, authors = row["steps_per_second"], row["bar"], row["authors"]
        verdict = "" if bar is None else f"[{'green' if rate >= bar else 'red'}]{bar:,.0f}"
        ratio = "" if authors is None else f"{authors:,.0f} ({rate / authors:.1f} x)"
        table.add_row(
            row["case"],
            row["agent"],
            str(row["seeds"]),
            f"{rate:,.0f}",
            verdict,
            ratio,
            f"{row['compile_s']:.0f}",
        )
    return table


def _shares(rows: list[Row]) -> Table:
    columns = ("agent", "seeds", "ms", *PARTS, "MiB/seed", "peak MiB")
    table = _table("an iteration, its parts, and memory", columns)
    for row in rows:
        shares = [f"{row[f'{part}_share']:.0%}" if f"{part}_share" in row else "" for part in PARTS]
        peak = "" if row["peak_mib"] is None else f"{row['peak_mib']:,.0f}"
        memory = (f"{row['state_mib_per_seed']:,.1f}", peak)
        table.add_row(
            row["case"], row["agent"], str(row["seeds"]), f"{row['iteration_ms']:,.1f}", *shares, *memory
        )
    return table


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("environment")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
