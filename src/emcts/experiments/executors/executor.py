"""What trains the runs of a sweep: the protocol of an executor, its options and its result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from rich.console import Console

from emcts.experiments.sweeps.job import Job
from emcts.experiments.sweeps.plan import PlannedRun
from emcts.experiments.sweeps.progress import SweepProgress
from emcts.registry import lookup
from emcts.runs.logging.loggers import DEFAULT_LOGGERS
from emcts.training.catalogue import Catalogue

EVENTS = {"found": "first_reward_step", "solved": "solved_step", "regret": "regret_step"}
"""The metrics that hold the steps of events, by the names that the command line has for them."""

LoadCatalogue = Callable[[], Catalogue]
"""Returns the catalogue. Another process can call it by its name, where a catalogue may not be picklable."""


@dataclass(frozen=True)
class ExecutorOptions:
    """Where the runs are trained."""

    on: str = "local"
    """local: one after the other in this process. ray: side by side, on this machine or a cluster."""
    address: str | None = None
    """The Ray cluster: auto, HOST:PORT or ray://HOST:PORT. If not given, Ray starts on this machine for the sweep."""
    runs_per_gpu: int | None = None
    """So many runs share a GPU, each with its part of the memory. 1 if not given."""
    cpus_per_run: int | None = None
    """The number of CPUs that each run takes of its machine. 1 if not given."""
    loggers: tuple[str, ...] = DEFAULT_LOGGERS
    """Where each run logs its metrics besides metrics.jsonl: tensorboard, wandb."""
    until: str | None = None
    """End a run early, at the first evaluation by which all its seeds have found the goal (found), solved the task
    (solved) or reached an average regret below 90% (regret). Without this the same command trains the rest."""

    @property
    def last_event(self) -> str | None:
        """The metric that holds the step of the event after which a run ends; None to train all steps."""
        return None if self.until is None else lookup(EVENTS, self.until, "event for --until")


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended: the problems of runs, by folder, and the exit code of a signal that stopped it."""

    problems: Mapping[str, str] = field(default_factory=dict)
    stopped: int | None = None

    @property
    def exit_code(self) -> int:
        return int(bool(self.problems)) if self.stopped is None else self.stopped


@dataclass(frozen=True)
class SweepRequest:
    """The runs to train, how they are trained, and where progress is shown. `until` is `ExecutorOptions.last_event`."""

    planned: Sequence[PlannedRun]
    load: LoadCatalogue
    console: Console
    command: str
    loggers: Sequence[str] = DEFAULT_LOGGERS
    until: str | None = None

    @property
    def jobs(self) -> list[Job]:
        return [one.job for one in self.planned]

    def is_over(self, job: Job) -> bool:
        """Returns whether a run has nothing left to train."""
        return job.is_over or (self.until is not None and job.has_had(self.until))

    def progress(self) -> SweepProgress:
        return SweepProgress.begin(self.jobs, [one.steps_per_second for one in self.planned])

    def broken_before(self) -> dict[str, str]:
        """Returns the problem of each run that is not tried again, as the same settings would break it again."""
        problem = "it broke in an earlier sweep: remove it to train it again"
        return {str(job.path): problem for job in self.jobs if job.is_broken}

    def refuse_other_settings(self) -> None:
        """Checks, before the first run is trained, that every existing run has the settings of its spec."""
        catalogue = self.load()
        for job in self.jobs:
            if job.has_begun and not self.is_over(job):
                job.folder(catalogue, self.command)


@runtime_checkable
class Executor(Protocol):
    """Trains every run that is not over, each from its last checkpoint."""

    def device(self) -> tuple[str, str]:
        """Returns the device that a run gets: its kind, `cpu` or `gpu`, and its name as runs store it."""

    def run(self, request: SweepRequest) -> SweepResult:
        """Trains the runs. A broken run does not stop the others; a signal stops all, and the same call resumes."""
