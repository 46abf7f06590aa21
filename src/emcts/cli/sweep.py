"""`emcts sweep`: many runs of one's own, from a file or a grid."""

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, UseAppendAction

from emcts.agents import catalogue as installed_agents
from emcts.cli.where import Where, train_rows
from emcts.experiments.grid import Spec, Sweep, rows_of
from emcts.experiments.setting_values import values_in
from emcts.experiments.sweep import Row, folders_of
from emcts.experiments.sweep_file import SUFFIX, read_sweep
from emcts.registry import lookup
from emcts.runs.folder import status
from emcts.training.catalogue import Catalogue


@dataclass(frozen=True)
class Options:
    """Trains all runs of a file or a grid, goes on where it was stopped, and ends with a table."""

    what: Positional[str]
    """A sweep file, NAME.toml, or an environment, whose agent and grid are options."""
    agent: str | None = None
    """Of a grid: such as e-az, or several, e-az,az."""
    preset: str | None = None
    """Of a grid: the settings to begin with. The default preset if not given."""
    grid: UseAppendAction[tuple[str, ...]] = ()
    """A setting and its values, beta=0.1,1,10. Give it several times for all combinations."""
    seeds: int | None = None
    """So many of each row, from 0 on. What the file says, or 4, if not given."""
    steps: int | None = None
    """Of each seed. More steps later go on with the same runs."""
    seeds_per_run: int | None = None
    """So many seeds train side by side in one run; 4 on CPUs and 20 on GPUs if not given."""
    plan: bool = False
    """Only say what would be run, how long it takes and how much disk it needs."""
    measure: bool = False
    """With --plan: first train each row for a moment, to see how fast it is; on a CPU about a minute a row."""
    out: Path | None = None
    """A folder for the runs. If not given: runs/sweep-NAME."""
    where: Annotated[Where, tyro.conf.arg(name="")] = field(default_factory=Where)

    def sweep(self, catalogue: Catalogue) -> Sweep:
        """As the file or the grid says it, with the numbers of the command line."""
        numbers = {name: getattr(self, name) for name in ("seeds", "steps", "seeds_per_run")}
        given = {name: number for name, number in numbers.items() if number is not None}
        for name, number in given.items():
            if number < 1:
                raise ValueError(f"--{name.replace('_', '-')} {number}: give at least 1")
        sweep = self._from_file() if self.what.endswith(SUFFIX) else self._from_grid(catalogue)
        return Sweep(sweep.name, tuple(dataclasses.replace(spec, **given) for spec in sweep.specs))

    def _from_file(self) -> Sweep:
        for name in ("agent", "preset", "grid"):
            if getattr(self, name):
                raise ValueError(
                    f"--{name} is for a grid on the command line: write it into {self.what} instead"
                )
        return read_sweep(Path(self.what))

    def _from_grid(self, catalogue: Catalogue) -> Sweep:
        if self.what not in catalogue.environments and Path(self.what).is_file():
            raise ValueError(f"{self.what}: the name of a sweep file ends in {SUFFIX}")
        lookup(catalogue.environments, self.what, "environment")
        if self.agent is None:
            raise ValueError(f"which agent? Add --agent, one of {', '.join(catalogue.agents(self.what))}")
        grid = dict(_assignment(text) for text in self.grid)
        if len(grid) < len(self.grid):
            raise ValueError("--grid names a setting twice: give all its values at once")
        agents = self.agent.split(",")
        specs = [Spec("", self.what, agent, self.preset, grid=grid) for agent in agents]
        return Sweep("-".join([self.what, *agents, *grid]).replace("_", "-"), tuple(specs))


def main(arguments: Sequence[str]) -> None:
    options = tyro.cli(Options, prog="emcts sweep", args=arguments)
    command = shlex.join(["emcts", "sweep", *arguments])
    console = Console(width=None if sys.stdout.isatty() else 160)
    catalogue = installed_agents.installed()
    sweep = options.sweep(catalogue)
    rows = rows_of(sweep.specs, catalogue)
    out = options.out or Path("runs") / f"sweep-{sweep.name}"
    outcome = train_rows(
        rows,
        out,
        sweep.name,
        options.where,
        installed_agents.installed,
        console,
        command,
        only_plan=options.plan,
        measure=options.measure,
    )
    if outcome is None:
        return
    console.print(_results(rows, out))
    console.print(f"runs in {out}: `emcts runs {out}` lists them, `emcts plot` draws them", markup=False)
    if outcome.exit_code:
        raise SystemExit(outcome.exit_code)


def _assignment(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    if not name or not equals:
        raise ValueError(f"--grid {text}: expected a setting and its values, such as beta=0.1,1,10")
    return name.strip().replace("-", "_"), values_in(values)


def _results(rows: Sequence[Row], out: Path) -> Table:
    """A line for each row, over the seeds of its runs."""
    table = Table(box=box.SIMPLE)
    for column in ("run", "seeds", "steps", "return", "first reward", "solved", "state"):
        table.add_column(column, justify="left" if column in ("run", "state") else "right")
    for row in rows:
        folders = folders_of(row, out)
        seeds = [seed for folder in folders for seed in folder.summary().get("seeds", [])]
        returns = [seed["final_return"] for seed in seeds if seed["final_return"] is not None]
        first = [seed["first_reward_step"] for seed in seeds if seed["first_reward_step"] is not None]
        solved = sum(seed["solved_step"] is not None for seed in seeds)
        states = dict.fromkeys(status(folder).state for folder in folders)
        table.add_row(
            row.name,
            str(len(seeds)),
            f"{max((seed['env_steps'] for seed in seeds), default=0):,}",
            f"{np.mean(returns):.3g}" if returns else "-",
            f"{np.mean(first):,.0f} ({len(first)} of {len(seeds)})" if first else "-",
            f"{solved} of {len(seeds)}",
            ", ".join(states) or "not begun",
        )
    return table
