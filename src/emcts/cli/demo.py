"""`emcts demo`: trains E-AZ and AZ on Deep Sea; then a table, a figure, a sentence, and a page of E-AZ's searches."""

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from emcts.agents import catalogue as installed_agents
from emcts.api import load
from emcts.experiments.demo import LABELS, Demo, draw, latest_metrics, steps_to_goal
from emcts.experiments.sweeps.job import Job
from emcts.inspect.episode import Episode
from emcts.inspect.session import Session
from emcts.runs.drive import drive
from emcts.runs.files import write_atomically
from emcts.runs.folder import Folder
from emcts.runs.logging.display import display_for
from emcts.runs.logging.metrics import LatestMetrics, is_solved, readable

DURATION = "two to three minutes on two CPU cores"


def demo(*, size: int = 20, seeds: int = 4, steps: int = 6000, out: Path = Path("demo")) -> None:
    """Trains E-AZ until it solves Deep Sea on all seeds, then AZ for as many steps.

    With the defaults this takes two to three minutes on two CPU cores.

    Args:
        size: rows and columns of Deep Sea; one path of this many actions leads to the goal.
        seeds: how many seeds train side by side, each with its own mapping of actions to left and right.
        steps: of each seed, at most.
        out: a folder for the two runs, the figure and the page. The same command continues a demo that was stopped.
    """
    settings, console = Demo(size=size, seeds=seeds, steps=steps), Console()
    command = shlex.join(
        ["emcts", "demo", *f"--size {size} --seeds {seeds} --steps {steps}".split(), "--out", str(out)]
    )
    console.print(
        f"Deep Sea {size} x {size}: one path of {size} actions earns 1, each step on it costs {0.01 / size:.4f}."
        + (f" This takes {DURATION}." if settings == Demo() else "")
    )
    title = f"{LABELS['e-az']}, {seeds} seeds"
    epistemic = _train(settings.job("e-az", out, steps), title, console, command, is_solved)
    trained = max(int(metrics["env_steps"]) for metrics in latest_metrics(epistemic).values())
    title = f"{LABELS['az']}, {seeds} seeds, for as many steps"
    plain = _train(settings.job("az", out, trained), title, console, command, None)
    console.print(_table(settings, {"e-az": epistemic, "az": plain}))
    figure = draw([epistemic, plain], out / "deep-sea.png")
    console.print(_verdict(settings, epistemic, plain, trained), highlight=False)
    console.print(f"Learning curves, both agents' state visits and E-AZ's uncertainty: {figure}")
    console.print(f"What E-AZ's search thinks, move by move, for your browser: {_page(epistemic, out)}")


def _page(run: Folder, out: Path) -> Path:
    """Writes the page of an episode in which the trained agent explores."""
    agent = load(run.path)
    episode = Episode.play(Session(agent, explore=True))
    title = f"{LABELS['e-az']} on Deep Sea"
    page = episode.page(title, f"seed {agent.seed}, step {agent.env_steps:,}")
    return write_atomically(out / "inspect.html", page)


def _train(
    job: Job, title: str, console: Console, command: str, stop: Callable[[LatestMetrics], bool] | None
) -> Folder:
    catalogue = installed_agents.installed()
    folder = job.folder(catalogue, command)
    result = drive(job.trainer(catalogue, folder), folder, display_for(console, title), command, stop=stop)
    if result.exit_code:
        raise SystemExit(result.exit_code)
    return folder


def _table(settings: Demo, folders: dict[str, Folder]) -> Table:
    table = Table(box=box.SIMPLE)
    for column in ("seed", "agent", "states discovered", "first goal", "solved", "last return"):
        table.add_column(column, justify="left" if column == "agent" else "right")
    states = settings.size * (settings.size + 1) // 2
    latest = {agent: latest_metrics(folder) for agent, folder in folders.items()}
    for seed in range(settings.seeds):
        for agent in folders:
            metrics = latest[agent][seed]
            table.add_row(
                str(seed),
                LABELS[agent],
                f"{metrics['states_discovered']:.0f} of {states}",
                *(_step(metrics.get(name)) for name in ("first_reward_step", "solved_step")),
                f"{readable(round(metrics['return'], 3)):.3f}",
            )
    return table


def _step(step: float | None) -> str:
    return "never" if step is None else f"{step:,.0f}"


def _verdict(settings: Demo, epistemic: Folder, plain: Folder, trained: int) -> str:
    with_uncertainty, without = (_found(steps_to_goal(one), settings.seeds) for one in (epistemic, plain))
    return (
        f"{LABELS['e-az']}, whose search propagates uncertainty, found the goal {with_uncertainty}. "
        f"{LABELS['az']}, the same without uncertainty, found it {without} within {trained:,} steps. "
        f"Random actions find it once in {2**settings.size:,} episodes."
    )


def _found(steps: list[float], seeds: int) -> str:
    found = f"on {len(steps)} of {seeds} seeds"
    return f"{found}, after {np.mean(steps):,.0f} steps on average" if steps else found


COMMANDS = demo
