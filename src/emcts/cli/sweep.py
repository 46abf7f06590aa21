"""`emcts sweep`: many runs, from a file or a grid."""

import dataclasses
import functools
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, UseAppendAction

from emcts.agents import catalogue as installed_agents
from emcts.cli.execution import train_specs
from emcts.cli.settings import parse_settings, refuse_misspelt
from emcts.envs.references import is_reference, parse_arguments
from emcts.experiments.executors.executor import ExecutorOptions, LoadCatalogue
from emcts.experiments.setting_paths import TIME_LIMIT
from emcts.experiments.sweeps.file import SUFFIX, read_sweep, values_in
from emcts.experiments.sweeps.grid import Grid, Sweep, run_specs, slug
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.config import flat, plain
from emcts.runs.folder import file_name, status
from emcts.runs.logging.metrics import readable
from emcts.training.catalogue import Catalogue


@dataclass(frozen=True)
class SweepOptions:
    """Trains all runs of a file or a grid, from their last checkpoints, and prints a table."""

    what: Positional[str]
    """A sweep file, NAME.toml, or an environment with --agent and --grid."""
    agent: str | None = None
    """The agent of a grid, such as e-az, or several, e-az,az."""
    preset: str | None = None
    """The preset of a grid. The default preset if not given."""
    grid: UseAppendAction[tuple[str, ...]] = ()
    """A setting and its values, such as beta=0.1,1,10. Give it several times for all combinations."""
    env: tuple[str, ...] = ()
    """Arguments of a grid's environment, such as size=12."""
    time_limit: int | None = None
    """The steps after which episodes of a reference are truncated, in a grid."""
    seeds: int | None = None
    """The number of seeds of each row, from 0 on. If not given: the file's number, or 4."""
    steps: int | None = None
    """The steps of each seed. More steps later continue the same runs."""
    seeds_per_run: int | None = None
    """The number of seeds that train side by side in one run; 4 on CPUs and 20 on GPUs if not given."""
    plan: bool = False
    """Only show what would run, how long it takes and how much disk it needs."""
    measure: bool = False
    """With --plan: first train each row briefly to measure its speed; on a CPU about a minute per row."""
    out: Path | None = None
    """The folder of the runs. If not given: runs/sweep-NAME."""
    executor: Annotated[ExecutorOptions, tyro.conf.arg(name="")] = field(default_factory=ExecutorOptions)

    def sweep(self, catalogue: Catalogue, settings: Mapping[str, object] | None = None) -> Sweep:
        """Returns the sweep of the file or the grid, with the numbers and settings of the command line."""
        numbers = {name: getattr(self, name) for name in ("seeds", "steps", "seeds_per_run")}
        given = {name: number for name, number in numbers.items() if number is not None}
        for name, number in given.items():
            if number < 1:
                raise ValueError(f"--{name.replace('_', '-')} {number}: give at least 1")
        sweep = (
            self._from_file() if self.what.endswith(SUFFIX) else self._from_grid(catalogue, settings or {})
        )
        return Sweep(sweep.name, tuple(dataclasses.replace(grid, **given) for grid in sweep.grids))

    def _from_file(self) -> Sweep:
        for name in ("agent", "preset", "grid", "env", "time_limit"):
            if getattr(self, name):
                raise ValueError(
                    f"--{name.replace('_', '-')} is for a grid on the command line: write it into {self.what} instead"
                )
        return read_sweep(Path(self.what))

    def _from_grid(self, catalogue: Catalogue, settings: Mapping[str, object]) -> Sweep:
        if self.what not in catalogue.environments and Path(self.what).is_file():
            raise ValueError(f"{self.what}: the name of a sweep file ends in {SUFFIX}")
        agents = catalogue.agents(self.what)
        if self.agent is None:
            raise ValueError(f"which agent? Add --agent, one of {', '.join(agents)}")
        values = dict(_assignment(text) for text in self.grid)
        if len(values) < len(self.grid):
            raise ValueError("--grid names a setting twice: give all its values at once")
        chosen = self.agent.split(",")
        given = dict(settings)
        given |= {f"env.{name}": value for name, value in parse_arguments(self.env).items()}
        if self.time_limit is not None:
            given[TIME_LIMIT] = self.time_limit
        grids = [Grid("", self.what, agent, self.preset, settings=given, values=values) for agent in chosen]
        return Sweep("-".join([file_name(self.what), *chosen, *map(slug, values)]), tuple(grids))


def main(arguments: Sequence[str]) -> None:
    catalogue = installed_agents.installed()
    options, rest = tyro.cli(SweepOptions, prog="emcts sweep", args=arguments, return_unknown_args=True)
    settings = _settings(options, rest, catalogue)
    command = shlex.join(["emcts", "sweep", *arguments])
    console = Console(width=None if sys.stdout.isatty() else 160)
    sweep = options.sweep(catalogue, settings)
    load = _loader({grid.environment for grid in sweep.grids if is_reference(grid.environment)})
    specs = run_specs(sweep.grids, load())
    out = options.out or Path("runs") / f"sweep-{sweep.name}"
    result = train_specs(
        specs,
        out,
        sweep.name,
        options.executor,
        load,
        console,
        command,
        only_plan=options.plan,
        measure=options.measure,
    )
    if result is None:
        return
    console.print(_results(specs, out))
    console.print(
        f"runs in {out}: `emcts runs {out}` lists them, `emcts plot {out}` draws them", markup=False
    )
    if result.exit_code:
        raise SystemExit(result.exit_code)


def _settings(options: SweepOptions, arguments: Sequence[str], catalogue: Catalogue) -> dict[str, object]:
    """Returns the settings among the arguments of a grid, as `emcts train` takes them, by dotted path."""
    if not arguments:
        return {}
    if options.what.endswith(SUFFIX):
        raise ValueError(f"{' '.join(arguments)}: write settings into {options.what}, under [settings]")
    if options.agent is None:
        refuse_misspelt(arguments, "--agent")
    agents = (options.agent or next(iter(catalogue.agents(options.what)))).split(",")
    before = catalogue.settings(options.what, agents[0], options.preset)
    _, after = parse_settings(NoOptions(), before, options.what, arguments, "emcts sweep")
    old, new = dict(flat(plain(before))), dict(flat(plain(after)))
    return {path: value for path, value in new.items() if value != old.get(path)}


@dataclass(frozen=True)
class NoOptions:
    """No options besides the settings."""


def _loader(references: Iterable[str]) -> LoadCatalogue:
    """Returns how this and other processes get the catalogue: modules are also looked for in this folder."""
    named = tuple(sorted(references))
    if not named:
        return installed_agents.installed
    return functools.partial(installed_agents.installed, named, os.getcwd())


def _assignment(text: str) -> tuple[str, list[object]]:
    name, equals, values = text.partition("=")
    if not name or not equals:
        raise ValueError(f"--grid {text}: expected a setting and its values, such as beta=0.1,1,10")
    return name.strip().replace("-", "_"), values_in(values)


def _results(specs: Sequence[RunSpec], out: Path) -> Table:
    """Returns a table with a row for each spec, over the seeds of its runs."""
    table = Table(box=box.SIMPLE)
    for column in ("run", "seeds", "steps", "return", "first reward", "solved", "state"):
        table.add_column(column, justify="left" if column in ("run", "state") else "right")
    for spec in specs:
        folders = spec.folders(out)
        summaries = [folder.summary() for folder in folders]
        seeds = [seed for summary in summaries for seed in summary.get("seeds", [])]
        returns = [seed["final_return"] for seed in seeds if seed["final_return"] is not None]
        first = [seed["first_reward_step"] for seed in seeds if seed["first_reward_step"] is not None]
        solved = [n for summary in summaries if (n := summary.get("seeds_solved")) is not None]
        states = dict.fromkeys(status(folder).state for folder in folders)
        table.add_row(
            spec.name,
            str(len(seeds)),
            f"{max((seed['env_steps'] for seed in seeds), default=0):,}",
            f"{readable(float(np.mean(returns))):.3g}" if returns else "-",
            f"{np.mean(first):,.0f} ({len(first)} of {len(seeds)})" if first else "-",
            f"{sum(solved)} of {len(seeds)}" if solved else "-",
            ", ".join(states) or "not begun",
        )
    return table
