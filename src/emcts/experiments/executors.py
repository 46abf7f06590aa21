"""Who trains the runs of a sweep: this process, one after the other, or others, side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from rich.console import Console

from emcts.experiments.plan import Planned, this_device
from emcts.experiments.progress import SweepDisplay, Tally
from emcts.experiments.sweep import Job
from emcts.runs.drive import drive
from emcts.runs.logging.display import display_for
from emcts.training.catalogue import Catalogue

Load = Callable[[], Catalogue]
"""Gets the catalogue: by its name it can be called in another process, to which a catalogue itself may not travel."""


@dataclass(frozen=True)
class Outcome:
    """How a sweep ended: what is wrong, by the folders of the runs, and the exit code of a signal that stopped it."""

    problems: Mapping[str, str] = field(default_factory=dict)
    stopped: int | None = None

    @property
    def exit_code(self) -> int:
        return int(bool(self.problems)) if self.stopped is None else self.stopped


@runtime_checkable
class Executor(Protocol):
    """Trains every run that is not over, each from where it stands."""

    def device(self) -> tuple[str, str]:
        """That a run gets: its kind, as sweeps know it, and its name, as runs write it down."""

    def run(self, planned: Sequence[Planned], load: Load, console: Console, command: str) -> Outcome:
        """A run that breaks does not stop the others; a signal stops all, and the same call goes on."""


class Here:
    """In this process, one after the other."""

    def device(self) -> tuple[str, str]:
        return this_device()

    def run(self, planned: Sequence[Planned], load: Load, console: Console, command: str) -> Outcome:
        jobs = [one.job for one in planned]
        tally = Tally.of(jobs, [one.steps_per_second for one in planned])
        catalogue = load()
        problems = already_broken(jobs)
        refuse_other_settings(jobs, catalogue, command)
        for number, job in enumerate(jobs):
            if job.is_over:
                continue
            folder = job.folder(catalogue, command)
            title = f"run {number + 1} of {len(jobs)}: {job.row.label}, {len(job.seeds)} seeds, in {job.path}"
            display = SweepDisplay(tally, number, jobs, title, display_for(console, title))
            ending = drive(job.trainer(catalogue, folder), folder, display, command)
            if ending.state == "stopped":
                return Outcome(problems, ending.exit_code)
            if ending.state == "broken":
                problems[str(job.path)] = ending.message
            tally.done[number] = job.work
            console.print(tally.line, markup=False, highlight=False)
        return Outcome(problems)


def already_broken(jobs: Iterable[Job]) -> dict[str, str]:
    """Runs that are not tried again, for the same settings would only break them again."""
    told = "it broke in an earlier sweep: remove it to have it trained anew"
    return {str(job.path): told for job in jobs if job.is_broken}


def refuse_other_settings(jobs: Iterable[Job], catalogue: Catalogue, command: str) -> None:
    """Before the first of them is trained: a run that was begun goes on with its settings, or not at all."""
    for job in jobs:
        if job.begun and not job.is_over:
            job.folder(catalogue, command)
