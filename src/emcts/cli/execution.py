"""Plans and trains the runs of a sweep, for the commands `sweep` and `reproduce`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from emcts.experiments.executors import make_executor
from emcts.experiments.executors.executor import (
    Executor,
    ExecutorOptions,
    LoadCatalogue,
    SweepRequest,
    SweepResult,
)
from emcts.experiments.sweeps.job import Job, jobs
from emcts.experiments.sweeps.plan import PlannedRun, StoredSpeed, measure_speed, plan
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.logging.display import duration


def train_specs(
    specs: Sequence[RunSpec],
    out: Path,
    title: str,
    options: ExecutorOptions,
    load: LoadCatalogue,
    console: Console,
    command: str,
    *,
    only_plan: bool,
    measure: bool = False,
    stored: Sequence[StoredSpeed] = (),
) -> SweepResult | None:
    """Shows the plan and, unless that is all, trains what is not over. A signal exits with its exit code.

    `stored` are speeds of runs of the specs on any machine; those of such a machine are used.
    """
    if measure and not (only_plan and options.on == ExecutorOptions.on):
        raise ValueError("--measure is for a plan of this machine: add --plan, and leave out --on")
    catalogue = load()

    def measured(job: Job) -> float:
        console.print(f"timing {job.spec.name} ...", markup=False, highlight=False)
        return measure_speed(job, catalogue)

    until = options.last_event
    with make_executor(options) as executor:
        kind, device = executor.device()
        found = jobs(specs, out, catalogue, kind)
        planned = plan(found, catalogue, device, measure=measured if measure else None, stored=stored)
        console.print(_plan_table(f"{title}, on {device}", planned))
        if only_plan:
            for note in _notes(planned, device):
                console.print(note, markup=False, highlight=False, soft_wrap=True)
            return None
        request = SweepRequest([], load, console, command, options.loggers, until)
        result = _in_order(executor, planned, request)
    for run, problem in result.problems.items():
        console.print(f"{run}: {problem}", markup=False, highlight=False, soft_wrap=True)
    if result.stopped is not None:
        console.print("the same command continues the sweep", markup=False)
        raise SystemExit(result.stopped)
    return result


def _in_order(executor: Executor, planned: Sequence[PlannedRun], request: SweepRequest) -> SweepResult:
    """Trains the runs that act before those that learn from the replays of others."""
    result = SweepResult()
    for offline in (False, True):
        chosen = [one for one in planned if (one.job.spec.offline is not None) == offline]
        if chosen and result.stopped is None:
            part = executor.run(replace(request, planned=chosen))
            result = SweepResult({**result.problems, **part.problems}, part.stopped)
    return result


def _plan_table(title: str, planned: Sequence[PlannedRun]) -> Table:
    """Returns a table with a row for each spec, whose runs differ in their seeds alone."""
    table = Table(box=box.SIMPLE, title=title, title_justify="left")
    for column in ("row", "runs", "seeds", "steps each", "steps left", "steps/s", "time", "disk"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for name in dict.fromkeys(one.job.spec.name for one in planned):
        runs = [one for one in planned if one.job.spec.name == name]
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


def _notes(planned: Sequence[PlannedRun], device: str) -> list[str]:
    """Returns where the speeds come from, a line for each source."""
    notes = []
    for source in dict.fromkeys(one.source for one in planned if one.steps_left):
        rows = list(dict.fromkeys(one.job.spec.name for one in planned if one.source == source))
        which = "all rows" if len(rows) == len({one.job.spec.name for one in planned}) else ", ".join(rows)
        if source is None:
            notes.append(
                f"unknown: no speed is known for such a machine ({device}): {which}; --plan --measure times it"
            )
        else:
            notes.append(f"steps/s {source.format(device=device)}: {which}")
    return notes


def _time_and_disk(planned: Sequence[PlannedRun]) -> tuple[str, str]:
    """Returns the sums over runs, one after the other."""
    times = [one.seconds for one in planned if one.seconds is not None]
    more = "" if len(times) == len(planned) else " and more"
    disk = f"{sum(one.disk_bytes for one in planned) / 2**20:,.0f} MiB"
    return (f"{duration(sum(times))}{more}" if times else "unknown"), disk
