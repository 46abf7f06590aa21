"""`emcts demo`: E-AZ and AZ learn Deep Sea, live; then a table, a picture and a sentence."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float
from rich import box
from rich.console import Console
from rich.table import Table

from emcts.envs.deep_sea.render import reachable
from emcts.experiments.demo import (
    AGENTS,
    Demo,
    Learning,
    Snapshot,
    begin,
    draw,
    solved_steps,
    training,
    treasure_steps,
)
from emcts.runs.logging.display import Clock, Display, display_for
from emcts.runs.logging.metrics import LatestMetrics, to_lines, with_lines


def demo(*, size: int = 20, seeds: int = 4, steps: int = 6000, out: Path = Path("demo")) -> None:
    """Trains E-AZ in Deep Sea until every seed brings up the treasure, then AZ for as long.

    Args:
        size: rows and columns of the sea; the treasure is at the end of one path of this many moves.
        seeds: how many seas at once, each with its own meaning of left and right.
        steps: in each sea, after which it is over even without the treasure.
        out: a folder for the picture.
    """
    settings = Demo(size=size, seeds=seeds, steps=steps)
    console = Console()
    console.print(
        f"Deep Sea {size} x {size}: one path of {size} moves earns 1, each step on it costs {0.01 / size:.4f}."
    )
    trainers = {agent: settings.trainer(agent) for agent in AGENTS}
    trainings = {agent: training(trainer) for agent, trainer in trainers.items()}
    learnings: dict[str, Learning] = {}
    with display_for(console, f"{AGENTS['e-az']}, {seeds} seeds") as display:
        first = begin(trainings)
        learnings["e-az"] = _watch(
            first["e-az"], trainings["e-az"], display, settings, steps, until_solved=True
        )
    last = learnings["e-az"][-1].env_steps
    with display_for(console, f"{AGENTS['az']}, {seeds} seeds, for as many steps") as display:
        learnings["az"] = _watch(first["az"], trainings["az"], display, settings, last, until_solved=False)
    console.print(_table(settings, learnings))
    picture = draw(learnings, out / "deep-sea.png")
    console.print(_verdict(settings, learnings), highlight=False)
    console.print(f"Learning curves, and what each has seen and is unsure of: {picture}")


def _watch(
    first: Snapshot,
    rest: Iterator[Snapshot],
    display: Display,
    settings: Demo,
    last: int,
    *,
    until_solved: bool,
) -> Learning:
    """Shows an agent learn until it has made `last` steps, or all seeds have solved the task."""
    seen, clock, began = [first], Clock(), time.monotonic()
    seeds = range(settings.seeds)
    latest: LatestMetrics = {}
    while True:
        now = seen[-1]
        latest = with_lines(latest, to_lines(seeds, now.progress, time.monotonic() - began))
        display.show(clock.progress(now.env_steps, last, latest))
        if now.env_steps >= last or (until_solved and now.solved):
            return seen
        seen.append(next(rest))


def _table(settings: Demo, learnings: dict[str, Learning]) -> Table:
    table = Table(box=box.SIMPLE)
    for column in ("sea", "agent", "cells seen", "first treasure", "solved", "last return"):
        table.add_column(column, justify="left" if column == "agent" else "right")
    cells = int(reachable(settings.size).sum())
    for seed in range(settings.seeds):
        for agent, learning in learnings.items():
            metrics = learning[-1].progress.metrics
            table.add_row(
                str(seed),
                AGENTS[agent],
                f"{metrics['states_discovered'][seed]:.0f} of {cells}",
                _step(treasure_steps(learning)[seed]),
                _step(solved_steps(learning)[seed]),
                f"{metrics['return'][seed]:.3f}",
            )
    return table


def _step(step: float) -> str:
    return f"{step:,.0f}" if np.isfinite(step) else "never"


def _verdict(settings: Demo, learnings: dict[str, Learning]) -> str:
    steps = learnings["az"][-1].env_steps
    epistemic, plain = (_finds(treasure_steps(learnings[agent])) for agent in ("e-az", "az"))
    return (
        f"{AGENTS['e-az']}, whose search carries its uncertainty, found the treasure {epistemic}. "
        f"{AGENTS['az']}, the same without it, found it {plain} within {steps:,} steps. "
        f"Moves drawn by chance find it once in {2**settings.size:,} episodes."
    )


def _finds(steps: Float[np.ndarray, "S"]) -> str:
    found = steps[np.isfinite(steps)]
    seas = f"in {len(found)} of {len(steps)} seas"
    return f"{seas}, after {found.mean():,.0f} steps on average" if len(found) else seas


COMMANDS = demo
