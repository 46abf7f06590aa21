"""Times whole training against seeds and devices: steps per second, memory per seed, and communication.

On a machine without several devices, virtual ones of a CPU show that the work is shared, not that it is faster:
XLA_FLAGS=--xla_force_host_platform_device_count=8 emcts bench scale
"""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.machine import provenance
from benchmarks.traffic import traffic
from benchmarks.train import SMOKE, Case, Row, Stopwatch
from emcts.training.devices import DeviceLayout
from emcts.training.seeds import SeedTrainer


def over_seeds(numbers: tuple[int, ...], case: Case) -> tuple[Case, ...]:
    """Returns the case with each number of seeds. It is measured in every layout that the devices allow."""
    return tuple(dataclasses.replace(case, seeds=number) for number in numbers)


GPU_SEEDS = (1, 4, 16, 64)
GPU = (
    *over_seeds(GPU_SEEDS, Case("subleq", "paper-subleq", 1, iterations_per_chunk=5)),
    *over_seeds(GPU_SEEDS, Case("deep-sea", "default", 1, {"env.size": 40})),
    *over_seeds(
        GPU_SEEDS, Case("deep-sea", "default", 1, {"env.size": 40, "evaluation.every": 200}, agent="e-mz")
    ),
)
CPU = (
    *over_seeds(
        (1, 8),
        Case(
            "deep-sea",
            "default",
            1,
            {"env.size": 10, "schedule.num_envs": 8, "exploration.num_exploiting": 4},
        ),
    ),
    Case(
        "subleq",
        "paper-subleq",
        1,
        {
            "schedule.num_envs": 16,
            "schedule.updates": 2,
            "replay.batch_size": 64,
            "replay.capacity": 20_000,
        },
        iterations_per_chunk=2,
    ),
)


def layouts(trainer: SeedTrainer[PyTree]) -> list[DeviceLayout]:
    """Returns layouts of 1, 2, 8, ... devices, shared by the seeds first, and by the data of each seed."""
    found = {DeviceLayout(1, 1)}
    devices = 2
    while devices <= len(jax.devices()):
        for groups in {min(devices, len(trainer.seeds)), 1}:
            if devices % groups == 0 and _fits(trainer, layout := DeviceLayout(groups, devices // groups)):
                found.add(layout)
        devices *= 4
    return sorted(found, key=lambda layout: (layout.size, -layout.seeds))


def measure(case: Case, trainer: SeedTrainer[PyTree], layout: DeviceLayout, rounds: int) -> Row:
    """Returns the median over chunks after the warm-up, without the first that learns."""
    trainer = trainer.on(layout)
    clock = Stopwatch()
    state = trainer.init()
    state, progress = trainer.advance(state)
    while progress.env_steps < trainer.learner.schedule.warmup_steps:
        state, progress = trainer.advance(state)
    for _ in range(rounds + 1):
        state, _ = clock("chunk", trainer.advance, state)
    seconds = clock.median("chunk")
    iterations, seeds = trainer.iterations_per_chunk, len(trainer.seeds)
    steps = iterations * trainer.learner.steps_per_iteration * seeds
    sent = _sent(trainer, state) if layout.size > 1 else {}
    return {
        "case": case.name,
        "agent": case.agent,
        "preset": case.preset,
        "changes": dict(case.changes),
        "seeds": seeds,
        "layout": f"{layout.seeds}x{layout.data}",
        "steps_per_second": steps / seconds,
        "iteration_ms": 1e3 * seconds / iterations,
        "updates_per_iteration": trainer.learner.schedule.updates,
        "state_mib_per_seed": _num_bytes(state) / seeds / 2**20,
        "networks_kib_per_seed": _num_bytes(state.networks) / seeds / 2**10,
        "communication_kib_per_iteration": {kind: number / 2**10 for kind, number in sorted(sent.items())},
    }


def main(*, smoke: bool = False, out: Path | None = None) -> None:
    """Prints the table; see `emcts bench scale --help`."""
    console = Console()
    chosen = SMOKE if smoke else GPU if jax.default_backend() == "gpu" else CPU
    rows = []
    for case in chosen:
        trainer = case.trainer()
        for layout in layouts(trainer):
            devices = f"{layout.seeds}x{layout.data} devices"
            console.print(f"[dim]{case.name} {case.agent}, {case.seeds} seeds, {devices} ...")
            rows.append(measure(case, trainer, layout, 1 if smoke else 5))
            _write(rows, out)
    console.print(_table(rows))
    if out is not None:
        console.print(f"written to {out}")


def _sent(trainer: SeedTrainer[PyTree], state: PyTree) -> dict[str, float]:
    """Returns the bytes of collectives per iteration, with its share of the evaluation."""
    chunk, flags = trainer.begin_chunk(), np.ones(trainer.iterations_per_chunk, bool)
    iteration = traffic(trainer._piece, state, chunk, np.int32(1), flags, flags.astype(np.float32))
    evaluation = traffic(trainer._evaluation, state, chunk)
    return {
        kind: iteration[kind] + evaluation[kind] / trainer.iterations_per_chunk
        for kind in iteration | evaluation
    }


def _num_bytes(tree: PyTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _write(rows: list[Row], out: Path | None) -> None:
    """Writes after every measurement, so that an interrupted benchmark keeps its results."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**provenance("emcts bench scale"), "rows": rows}, indent=1) + "\n")


def _fits(trainer: SeedTrainer[PyTree], layout: DeviceLayout) -> bool:
    try:
        trainer.on(layout)
    except ValueError:
        return False
    return True


def _table(rows: list[Row]) -> Table:
    table = Table(
        title="training: state per seed (MiB) and communication per iteration (KiB)",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    table.add_column("environment")
    for column in ("agent", "seeds", "devices", "steps/s", "x", "ms", "MiB", "KiB"):
        table.add_column(column, justify="right", no_wrap=True)
    first: dict[tuple[str, str], float] = {}
    for row in rows:
        rate = row["steps_per_second"]
        slowest = first.setdefault((row["case"], row["agent"]), rate)
        table.add_row(
            row["case"],
            row["agent"],
            str(row["seeds"]),
            row["layout"],
            f"{rate:,.0f}",
            f"{rate / slowest:.2f}",
            f"{row['iteration_ms']:,.1f}",
            f"{row['state_mib_per_seed']:,.1f}",
            f"{sum(row['communication_kib_per_iteration'].values()):,.0f}",
        )
    return table
