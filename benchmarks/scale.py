"""Times whole training against seeds and devices: steps a second, memory of a seed, and what devices tell each other.

On a machine without several devices, virtual ones of a CPU show that the work is shared, not that it is faster:
XLA_FLAGS=--xla_force_host_platform_device_count=8 emcts bench scale
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.machine import provenance
from benchmarks.traffic import traffic
from benchmarks.train import Row, Stopwatch
from emcts.agents import catalogue
from emcts.training.devices import DeviceLayout
from emcts.training.seeds import SeedTrainer


@dataclasses.dataclass(frozen=True)
class Case:
    """An agent, on so many seeds; measured in every layout that the devices of the machine allow."""

    environment: str
    agent: str
    preset: str
    seeds: tuple[int, ...]
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    iterations_per_chunk: int | None = None  # None: as many as there are between evaluations

    @property
    def name(self) -> str:
        size = self.changes.get("size")
        return f"{self.environment} {self.agent}" + ("" if size is None else f", {size} x {size}")

    def trainer(self, seeds: int) -> SeedTrainer:
        preset = catalogue.settings(self.environment, self.agent, self.preset)
        settings = dataclasses.replace(preset, **self.changes)
        trainer = catalogue.trainer(self.environment, self.agent, settings, tuple(range(seeds)))
        chunk = self.iterations_per_chunk or trainer.iterations_per_chunk
        return dataclasses.replace(trainer, iterations_per_chunk=chunk)


GPU = (
    Case("subleq", "e-az", "paper-subleq", (1, 4, 16, 64), iterations_per_chunk=5),
    Case("deep-sea", "e-az", "default", (1, 4, 16, 64), {"size": 40}),
    Case("deep-sea", "e-mz", "default", (1, 4, 16, 64), {"size": 40, "steps_between_evaluations": 200}),
)
CPU = (
    Case("deep-sea", "e-az", "default", (1, 8), {"size": 10, "episodes": 8, "exploring_episodes": 4}),
    Case(
        "subleq",
        "e-az",
        "paper-subleq",
        (1,),
        {"episodes": 16, "batch_size": 64, "updates_per_iteration": 2, "replay_capacity": 20_000},
        iterations_per_chunk=2,
    ),
)
TINY = {"size": 4, "simulations": 2, "width": 8, "batch_size": 8, "updates_per_iteration": 2}
SMOKE = (Case("deep-sea", "e-az", "default", (2,), TINY, iterations_per_chunk=30),)


def layouts(trainer: SeedTrainer) -> list[DeviceLayout]:
    """Two devices, eight and so on, shared by the seeds first; and by the data of each seed."""
    found = {DeviceLayout(1, 1)}
    devices = 2
    while devices <= len(jax.devices()):
        for groups in {min(devices, len(trainer.seeds)), 1}:
            if devices % groups == 0 and _fits(trainer, layout := DeviceLayout(groups, devices // groups)):
                found.add(layout)
        devices *= 4
    return sorted(found, key=lambda layout: (layout.size, -layout.seeds))


def measure(case: Case, trainer: SeedTrainer, layout: DeviceLayout, rounds: int) -> Row:
    """The median of chunks after the warm-up, without the first that learns."""
    trainer = trainer.on(layout)
    clock = Stopwatch()
    state = trainer.init()
    state, progress = trainer.advance(state)
    while progress.env_steps < trainer.learner.schedule.warm_up:
        state, progress = trainer.advance(state)
    for _ in range(rounds + 1):
        state, _ = clock("chunk", trainer.advance, state)
    seconds = clock.median("chunk")
    iterations = trainer.iterations_per_chunk
    steps = iterations * trainer.learner.steps_per_iteration * len(trainer.seeds)
    flags = np.ones(iterations, bool)
    told = traffic(trainer._advance, state, flags, flags.astype(np.float32)) if layout.size > 1 else {}
    state_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    networks = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.networks))
    return {
        "case": case.name,
        "preset": case.preset,
        "changes": dict(case.changes),
        "seeds": len(trainer.seeds),
        "layout": f"{layout.seeds}x{layout.data}",
        "steps_per_second": steps / seconds,
        "iteration_ms": 1e3 * seconds / iterations,
        "updates_per_iteration": trainer.learner.schedule.updates,
        "state_mib_per_seed": state_bytes / len(trainer.seeds) / 2**20,
        "networks_kib_per_seed": networks / len(trainer.seeds) / 2**10,
        "told_kib_per_iteration": {
            kind: number / iterations / 2**10 for kind, number in sorted(told.items())
        },
    }


def main(*, smoke: bool = False, out: Path | None = None) -> None:
    """Prints the table; see `emcts bench scale --help`."""
    console = Console()
    chosen = SMOKE if smoke else GPU if jax.default_backend() == "gpu" else CPU
    rows = []
    for case in chosen:
        for seeds in case.seeds:
            trainer = case.trainer(seeds)
            for layout in layouts(trainer):
                console.print(f"[dim]{case.name}, {seeds} seeds, {layout.seeds}x{layout.data} devices ...")
                rows.append(measure(case, trainer, layout, 1 if smoke else 5))
                _write(rows, out)
    console.print(_table(rows))
    if out is not None:
        console.print(f"written to {out}")


def _write(rows: list[Row], out: Path | None) -> None:
    """What there is so far: a measurement that is cut short is not lost."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**provenance("emcts bench scale"), "rows": rows}, indent=1) + "\n")


def _fits(trainer: SeedTrainer, layout: DeviceLayout) -> bool:
    try:
        trainer.on(layout)
    except ValueError:
        return False
    return True


def _table(rows: list[Row]) -> Table:
    table = Table(title="training against seeds and devices", box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("agent")
    for column in ("seeds", "devices", "steps/s", "x", "ms", "MiB a seed", "told KiB"):
        table.add_column(column, justify="right", no_wrap=True)
    first: dict[str, float] = {}
    for row in rows:
        rate = row["steps_per_second"]
        slowest = first.setdefault(row["case"], rate)
        table.add_row(
            row["case"],
            str(row["seeds"]),
            row["layout"],
            f"{rate:,.0f}",
            f"{rate / slowest:.2f}",
            f"{row['iteration_ms']:,.1f}",
            f"{row['state_mib_per_seed']:,.1f}",
            f"{sum(row['told_kib_per_iteration'].values()):,.0f}",
        )
    return table
