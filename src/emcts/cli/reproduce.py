"""`emcts reproduce`: a figure or table of the paper, from its sweep to its picture."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import tyro
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from tyro.conf import Positional

from emcts.cli import catalogue as names
from emcts.cli.catalogue import Catalogue, known
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
from emcts.experiments.experiment import Experiment
from emcts.experiments.plan import Planned, plan_of, this_device
from emcts.experiments.progress import SweepDisplay, Tally, duration
from emcts.experiments.results import Cell, Results, Table
from emcts.experiments.sweep import Job, Row, jobs
from emcts.runs.config import TOTAL
from emcts.runs.display import display_for
from emcts.runs.drive import drive
from emcts.runs.folder import Folder

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
    seeds: int | None = None
    """So many of each row, instead of the paper's number."""
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
        chosen = EXPERIMENTS[known("figure or table", self.name, EXPERIMENTS)]
        for agent in self.chosen_agents:
            known("agent of this sweep", agent, dict.fromkeys(row.agent for row in chosen.rows))
        if self.paper_settings:
            chosen = chosen.with_paper_settings()
        return chosen.made_small(catalogue, self.chosen_agents) if self.smoke else chosen

    def jobs(self, experiment: Experiment, catalogue: Catalogue, kind: str) -> list[Job]:
        rows = [row for row in experiment.rows if self.wants(row)]
        if not rows:
            raise ValueError(f"no row of {experiment.name} is meant: --plan alone lists them")
        if self.seeds is not None:
            rows = [row.with_seeds(self.seeds) for row in rows]
        if self.steps is not None:
            rows = [row.changed(**{TOTAL: self.steps}) for row in rows]
        return jobs(rows, self.runs, catalogue, kind)


def main(arguments: Sequence[str]) -> None:
    options = tyro.cli(Options, prog="emcts reproduce", args=arguments)
    reproduce(options, shlex.join(["emcts", "reproduce", *arguments]), names.installed())


def reproduce(options: Options, command: str, catalogue: Catalogue) -> None:
    """From the sweep, from given runs, or from the tables alone, to the picture."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    experiment = options.experiment(catalogue)
    results = options.results_of(experiment)
    if options.from_results:
        _show(experiment, results, console)
        return
    if options.from_runs:
        evidence = experiment.evidence_of([Folder.open(path) for path in options.from_runs])
    else:
        kind, device = this_device()
        planned = plan_of(options.jobs(experiment, catalogue, kind), catalogue, device)
        console.print(_plan_table(experiment, planned, device))
        if options.plan:
            return
        _run(planned, catalogue, console, command)
        evidence = experiment.evidence(options.runs)
    experiment.write(evidence, results, command, catalogue)
    for run in results.made()["runs"]:
        if run["differs"]:
            told = f"warning: {run['run']} has other settings than {run['row']}: {', '.join(run['differs'])}"
            console.print(told, markup=False, highlight=False)
    _show(experiment, results, console)


def _run(planned: Sequence[Planned], catalogue: Catalogue, console: Console, command: str) -> None:
    """Every run that is not over, one after the other. A signal stops the sweep; the same command goes on."""
    todo = [one.job for one in planned]
    tally = Tally.of(todo, [one.steps_per_second for one in planned])
    for number, job in enumerate(todo):
        if job.is_over:
            continue
        folder = job.folder(catalogue, command)
        title = f"run {number + 1} of {len(todo)}: {job.row.label}, {len(job.seeds)} seeds, in {job.path}"
        display = SweepDisplay(tally, number, todo, title, display_for(console, title))
        ending = drive(job.trainer(catalogue, folder), folder, display, command)
        if ending.state == "stopped":
            console.print("the sweep goes on with the same command", markup=False)
            raise SystemExit(ending.exit_code)
        tally.done[number] = job.work
        console.print(tally.line, markup=False, highlight=False)


def _show(experiment: Experiment, folder: Results, console: Console) -> None:
    picture = experiment.draw_from(folder)
    tables = folder.read()
    for name, columns in experiment.shown.items():
        if name in tables:
            console.print(_printed(f"{experiment.title}: {name}", tables[name], columns))
    console.print(f"tables in {folder.folder}, picture {picture}", markup=False, highlight=False)


def _plan_table(experiment: Experiment, planned: Sequence[Planned], device: str) -> RichTable:
    """A line for each row, whose runs differ in their seeds alone."""
    title = f"{experiment.name}: {experiment.title}, on {device}"
    table = RichTable(box=box.SIMPLE, title=title, title_justify="left")
    for column in ("row", "runs", "seeds", "steps each", "steps left", "steps/s", "time", "disk"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for name in dict.fromkeys(one.job.row.name for one in planned):
        runs = [one for one in planned if one.job.row.name == name]
        speed = runs[-1].steps_per_second
        table.add_row(
            name,
            str(len(runs)),
            str(sum(len(one.job.seeds) for one in runs)),
            f"{runs[0].job.total_env_steps:,}",
            f"{sum(one.steps_left for one in runs):,}",
            "unknown" if speed is None else f"{speed:,.0f}",
            *_time_and_disk(runs),
        )
    left = f"{sum(one.steps_left for one in planned):,}"
    table.add_row("all", str(len(planned)), "", "", left, "", *_time_and_disk(planned))
    return table


def _time_and_disk(planned: Sequence[Planned]) -> tuple[str, str]:
    times = [one.seconds for one in planned if one.seconds is not None]
    whole = "" if len(times) == len(planned) else " and more"
    disk = f"{sum(one.disk_bytes for one in planned) / 2**20:,.0f} MiB"
    return (f"{duration(sum(times))}{whole}" if times else "unknown"), disk


def _printed(title: str, table: Table, columns: Sequence[str]) -> RichTable:
    shown = RichTable(box=box.SIMPLE, title=title, title_justify="left")
    columns = [name for name in columns or table[0] if name in table[0]]
    for name in columns:
        shown.add_column(name.replace("_", " "))
    for line in table:
        shown.add_row(*(_text(line[name]) for name in columns))
    return shown


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return str(cell)
