"""`emcts reproduce`: a figure or table, from its sweep to its drawing."""

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from tyro.conf import Positional

from emcts.agents import catalogue as installed_agents
from emcts.cli.execution import train_specs
from emcts.envs.references import is_reference
from emcts.experiments.analysis.tables import Cell, Results, Table, stored_results
from emcts.experiments.beyond import EXPERIMENTS as BEYOND
from emcts.experiments.executors.executor import ExecutorOptions, LoadCatalogue
from emcts.experiments.paper import EXPERIMENTS
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.setting_paths import STEPS
from emcts.experiments.sweeps.plan import stored_speeds
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.registry import lookup
from emcts.runs.folder import Folder
from emcts.runs.logging.metrics import readable
from emcts.training.catalogue import Catalogue


@dataclass(frozen=True)
class ReproduceOptions:
    """Trains the runs of a figure or table, from their last checkpoints, and writes its tables and its drawing."""

    name: Annotated[Positional[str], tyro.conf.arg(help=f"One of {', '.join((*EXPERIMENTS, *BEYOND))}.")]
    smoke: bool = False
    """Run everything in about a minute, with tiny settings and few rows."""
    plan: bool = False
    """Only show what would run, how long it takes and how much disk it needs."""
    measure: bool = False
    """With --plan: first train each row briefly to measure its speed; on a CPU about a minute per row."""
    seeds: int | None = None
    """The number of seeds of each row, instead of the paper's."""
    first_seed: int = 1000
    """The first seed. Settings were chosen on seeds 0 to 99, so results use others."""
    agents: str = ""
    """Run only these agents, such as e-az,az-ube. Existing runs of others are analysed too."""
    rows: str = "*"
    """Run only rows whose names match: "deep-sea-10-*,*-bdqn". --plan lists the names."""
    steps: int | None = None
    """The steps of each seed, instead of the paper's. More steps later continue the same runs."""
    paper_settings: bool = False
    """Use the presets of the paper, instead of those that worked best here."""
    out: Path | None = None
    """The folder of the runs. If not given: runs/reproduce, runs/reproduce-paper or runs/smoke."""
    results: Path | None = None
    """The folder of tables and drawings. If not given: results; for a smoke test, in the folder of its runs."""
    from_results: bool = False
    """Draw from the tables in the results folder, and run nothing."""
    from_runs: tuple[Path, ...] = ()
    """Analyse these runs, and run nothing."""
    executor: Annotated[ExecutorOptions, tyro.conf.arg(name="")] = field(default_factory=ExecutorOptions)

    @property
    def chosen_agents(self) -> tuple[str, ...]:
        return tuple(agent for agent in self.agents.split(",") if agent)

    def selects(self, spec: RunSpec) -> bool:
        of_agent = not self.agents or spec.agent in self.chosen_agents
        return of_agent and any(fnmatchcase(spec.name, pattern) for pattern in self.rows.split(","))

    @property
    def runs(self) -> Path:
        kind = "smoke" if self.smoke else "reproduce-paper" if self.paper_settings else "reproduce"
        return self.out or Path("runs") / kind

    def results_of(self, experiment: Experiment) -> Results:
        usual = self.runs / "results" if self.smoke else Path("results")
        return Results((self.results or usual) / experiment.name)

    def stored_results(self, experiment: Experiment) -> Results:
        """Returns the tables to draw from: the named or usual folder, or else those that come with the package."""
        here = self.results_of(experiment)
        stored = Results(stored_results() / experiment.name)
        return (
            stored if self.results is None and not here.folder.is_dir() and stored.folder.is_dir() else here
        )

    def experiment(self, catalogue: Catalogue) -> Experiment:
        chosen = lookup({**EXPERIMENTS, **BEYOND}, self.name, "figure or table")
        for agent in self.chosen_agents:
            lookup(dict.fromkeys(spec.agent for spec in chosen.specs), agent, "agent of this sweep")
        if self.paper_settings:
            chosen = chosen.with_paper_settings()
        return chosen.for_smoke_test(catalogue, self.chosen_agents) if self.smoke else chosen

    def specs_of(self, experiment: Experiment) -> list[RunSpec]:
        specs = [spec for spec in experiment.specs if self.selects(spec)]
        if not specs:
            raise ValueError(f"no row of {experiment.name} is selected: --plan alone lists them")
        if self.first_seed < 0:
            raise ValueError(f"--first-seed {self.first_seed}: give 0 or more")
        specs = [replace(spec, first_seed=self.first_seed) for spec in specs]
        if self.seeds is not None:
            specs = [spec.with_seeds(self.seeds) for spec in specs]
        if self.steps is not None:
            specs = [spec.with_changes({STEPS: self.steps}) for spec in specs]
        return specs


def main(arguments: Sequence[str]) -> None:
    options = tyro.cli(ReproduceOptions, prog="emcts reproduce", args=arguments)
    reproduce(options, shlex.join(["emcts", "reproduce", *arguments]), _loader(options.name))


def _loader(name: str) -> LoadCatalogue:
    """Returns a function that loads the catalogue, with the environments of an experiment that are code of its own."""
    chosen = {**EXPERIMENTS, **BEYOND}.get(name)
    specs = () if chosen is None else chosen.specs
    named = tuple(sorted({spec.environment for spec in specs if is_reference(spec.environment)}))
    return partial(installed_agents.installed, named) if named else installed_agents.installed


def reproduce(options: ReproduceOptions, command: str, load: LoadCatalogue) -> None:
    """Trains and analyses, or analyses given runs, or only draws. Exits with 1 if a run failed."""
    console = Console(width=None if sys.stdout.isatty() else 180)
    catalogue = load()
    experiment = options.experiment(catalogue)
    results = options.results_of(experiment)
    if options.from_results:
        stored = options.stored_results(experiment)
        _show(experiment, stored, console, results.folder)
        return
    failed = False
    if options.from_runs:
        groups = experiment.group([Folder.open(path) for path in options.from_runs])
    else:
        result = train_specs(
            options.specs_of(experiment),
            options.runs,
            f"{experiment.name}: {experiment.title}",
            options.executor,
            load,
            console,
            command,
            only_plan=options.plan,
            measure=options.measure,
            # Stored rows of the same names have other settings than these.
            stored=() if options.smoke or options.paper_settings else stored_speeds(stored_results()),
        )
        if result is None:
            return
        failed = bool(result.problems)
        groups = experiment.runs_in(options.runs)
    experiment.write(groups, results, command, catalogue)
    for run in results.provenance()["runs"]:
        if run["differs"]:
            text = f"warning: {run['run']} has other settings than {run['row']}: {', '.join(run['differs'])}"
            console.print(text, markup=False, highlight=False)
    _show(experiment, results, console)
    if failed:
        raise SystemExit(1)


def _show(experiment: Experiment, folder: Results, console: Console, out: Path | None = None) -> None:
    drawing = experiment.draw_from(folder, out)
    tables = folder.read()
    for name, columns in experiment.shown.items():
        if tables.get(name):
            console.print(_printed(f"{experiment.title}: {name}", tables[name], columns))
    console.print(f"tables in {folder.folder}, figure {drawing}", markup=False, highlight=False)


def _printed(title: str, table: Table, columns: Sequence[str]) -> RichTable:
    shown = RichTable(box=box.SIMPLE, title=title, title_justify="left")
    columns = [name for name in columns or table[0] if name in table[0]]
    for name in columns:
        shown.add_column(Text(name.replace("_", " ")), no_wrap=name == "label")
    for row in table:
        shown.add_row(*(Text(_text(row[name])) for name in columns))
    return shown


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        if 1e7 <= abs(cell) < math.inf:
            return f"{cell / 1e6:,.1f}M"
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{readable(cell):.3g}"
    return str(cell)
