"""`emcts reproduce`: a figure or table of the paper, from its sweep to its picture."""

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from tyro.conf import Positional

from emcts.agents import catalogue as installed_agents
from emcts.cli.where import Where, train_rows
from emcts.experiments import (
    figure_1,
    figure_2_left,
    figure_2_middle,
    figure_2_right,
    figure_3,
    figure_4,
    figure_5,
    table_1,
)
from emcts.experiments.executors import Load
from emcts.experiments.experiment import Experiment
from emcts.experiments.results import Cell, Results, Table
from emcts.experiments.sweep import Row
from emcts.registry import lookup
from emcts.runs.config import TOTAL
from emcts.runs.folder import Folder
from emcts.training.catalogue import Catalogue

MODULES = (
    figure_1,
    figure_2_left,
    figure_2_middle,
    figure_2_right,
    figure_3,
    figure_4,
    table_1,
    figure_5,
)
EXPERIMENTS: Mapping[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}


@dataclass(frozen=True)
class Options:
    """Trains what a figure or table needs, goes on where it was stopped, and writes tables and a picture."""

    name: Positional[str]
    """figure-1, figure-2-left, figure-2-middle, figure-2-right, figure-3, figure-4, table-1 or figure-5."""
    smoke: bool = False
    """The same path in about a minute, with tiny settings and few rows."""
    plan: bool = False
    """Only say what would be run, how long it takes and how much disk it needs."""
    measure: bool = False
    """With --plan: first train each row for a moment, to see how fast it is; on a CPU about a minute a row."""
    seeds: int | None = None
    """So many of each row, instead of the paper's number."""
    first_seed: int = 1000
    """Seeds count from here on. Settings were chosen on seeds 0 to 99, so results are of others."""
    agents: str = ""
    """Run only these, such as e-az,az-ube. Runs of others that are there already are analysed too."""
    rows: str = "*"
    """Run only rows with such names: "deep-sea-10-*,*-bdqn". --plan lists the names."""
    steps: int | None = None
    """Of each seed, instead of the paper's number. More steps later go on with the same runs."""
    paper_settings: bool = False
    """The presets of the paper, instead of those that worked best here."""
    out: Path | None = None
    """A folder for the runs. If not given: runs/reproduce, runs/reproduce-paper or runs/smoke."""
    results: Path | None = None
    """A folder for tables and pictures. If not given: results; for a smoke test, in the folder of its runs."""
    from_results: bool = False
    """Draw from the tables in the results folder, and run nothing."""
    from_runs: tuple[Path, ...] = ()
    """Analyse these runs, and run nothing."""
    where: Annotated[Where, tyro.conf.arg(name="")] = field(default_factory=Where)

    @property
    def chosen_agents(self) -> tuple[str, ...]:
        return tuple(agent for agent in self.agents.split(",") if agent)

    def wants(self, row: Row) -> bool:
        of_agent = not self.agents or row.agent in self.chosen_agents
        return of_agent and any(fnmatchcase(row.name, pattern) for pattern in self.rows.split(","))

    @property
    def runs(self) -> Path:
        kind = "smoke" if self.smoke else "reproduce-paper" if self.paper_settings else "reproduce"
        return self.out or Path("runs") / kind

    def results_of(self, experiment: Experiment) -> Results:
        usual = self.runs / "results" if self.smoke else Path("results")
        return Results((self.results or usual) / experiment.name)

    def experiment(self, catalogue: Catalogue) -> Experiment:
        chosen = lookup(EXPERIMENTS, self.name, "figure or table")
        for agent in self.chosen_agents:
            lookup(dict.fromkeys(row.agent for row in chosen.rows), agent, "agent of this sweep")
        if self.paper_settings:
            chosen = chosen.with_paper_settings()
        return chosen.made_small(catalogue, self.chosen_agents) if self.smoke else chosen

    def rows_of(self, experiment: Experiment) -> list[Row]:
        rows = [row for row in experiment.rows if self.wants(row)]
        if not rows:
            raise ValueError(f"no row of {experiment.name} is meant: --plan alone lists them")
        if self.first_seed < 0:
            raise ValueError(f"--first-seed {self.first_seed}: give 0 or more")
        rows = [replace(row, first_seed=self.first_seed) for row in rows]
        if self.seeds is not None:
            rows = [row.with_seeds(self.seeds) for row in rows]
        if self.steps is not None:
            rows = [row.changed(**{TOTAL: self.steps}) for row in rows]
        return rows


def main(arguments: Sequence[str]) -> None:
    options = tyro.cli(Options, prog="emcts reproduce", args=arguments)
    reproduce(options, shlex.join(["emcts", "reproduce", *arguments]), installed_agents.installed)


def reproduce(options: Options, command: str, load: Load) -> None:
    """From the sweep, from given runs, or from the tables alone, to the picture. Runs that failed leave with 1."""
    console = Console(width=None if sys.stdout.isatty() else 180)
    catalogue = load()
    experiment = options.experiment(catalogue)
    results = options.results_of(experiment)
    if options.from_results:
        _show(experiment, results, console)
        return
    failed = False
    if options.from_runs:
        evidence = experiment.evidence_of([Folder.open(path) for path in options.from_runs])
    else:
        rows, title = options.rows_of(experiment), f"{experiment.name}: {experiment.title}"
        outcome = train_rows(
            rows,
            options.runs,
            title,
            options.where,
            load,
            console,
            command,
            only_plan=options.plan,
            measure=options.measure,
        )
        if outcome is None:
            return
        failed = bool(outcome.problems)
        evidence = experiment.evidence(options.runs)
    experiment.write(evidence, results, command, catalogue)
    for run in results.made()["runs"]:
        if run["differs"]:
            told = f"warning: {run['run']} has other settings than {run['row']}: {', '.join(run['differs'])}"
            console.print(told, markup=False, highlight=False)
    _show(experiment, results, console)
    if failed:
        raise SystemExit(1)


def _show(experiment: Experiment, folder: Results, console: Console) -> None:
    picture = experiment.draw_from(folder)
    tables = folder.read()
    for name, columns in experiment.shown.items():
        if name in tables:
            console.print(_printed(f"{experiment.title}: {name}", tables[name], columns))
    console.print(f"tables in {folder.folder}, picture {picture}", markup=False, highlight=False)


def _printed(title: str, table: Table, columns: Sequence[str]) -> RichTable:
    shown = RichTable(box=box.SIMPLE, title=title, title_justify="left")
    columns = [name for name in columns or table[0] if name in table[0]]
    for name in columns:
        shown.add_column(name.replace("_", " "), no_wrap=name == "label")
    for line in table:
        shown.add_row(*(_text(line[name]) for name in columns))
    return shown


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        if 1e7 <= abs(cell) < math.inf:
            return f"{cell / 1e6:,.1f}M"
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return str(cell)
