"""The local executor: one run after the other, in this process."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console

from emcts.experiments.executors.executor import (
    Executor,
    ExecutorOptions,
    LoadCatalogue,
    SweepResult,
    broken_before,
    refuse_other_settings,
)
from emcts.experiments.sweeps.plan import PlannedRun, this_device
from emcts.experiments.sweeps.progress import SweepDisplay, SweepProgress
from emcts.runs.drive import drive
from emcts.runs.logging.display import display_for
from emcts.runs.logging.loggers import DEFAULT_LOGGERS


class LocalExecutor:
    """Trains runs one after the other in this process."""

    def device(self) -> tuple[str, str]:
        return this_device()

    def run(
        self,
        planned: Sequence[PlannedRun],
        load: LoadCatalogue,
        console: Console,
        command: str,
        loggers: Sequence[str] = DEFAULT_LOGGERS,
    ) -> SweepResult:
        jobs = [one.job for one in planned]
        progress = SweepProgress.begin(jobs, [one.steps_per_second for one in planned])
        catalogue = load()
        problems = broken_before(jobs)
        refuse_other_settings(jobs, catalogue, command)
        for index, job in enumerate(jobs):
            if job.is_over:
                continue
            folder = job.folder(catalogue, command)
            title = f"run {index + 1} of {len(jobs)}: {job.spec.label}, {len(job.seeds)} seeds, in {job.path}"
            display = SweepDisplay(progress, index, jobs, title, display_for(console, title))
            result = drive(job.trainer(catalogue, folder), folder, display, command, loggers)
            if result.state == "stopped":
                return SweepResult(problems, result.exit_code)
            if result.state == "broken":
                problems[str(job.path)] = result.message
            progress.done[index] = job.work
            console.print(progress.line, markup=False, highlight=False)
        return SweepResult(problems)


def make_local(options: ExecutorOptions) -> AbstractContextManager[Executor]:
    """Returns the local executor, which takes no further options."""
    for name in ("address", "runs_per_gpu", "cpus_per_run"):
        if (given := getattr(options, name)) is not None:
            raise ValueError(f"--{name.replace('_', '-')} {given} is for Ray alone: add --on ray")
    return nullcontext(LocalExecutor())
