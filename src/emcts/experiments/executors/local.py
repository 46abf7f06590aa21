"""The local executor: one run after the other, in this process."""

from contextlib import AbstractContextManager, nullcontext

from emcts.experiments.executors.executor import Executor, ExecutorOptions, SweepRequest, SweepResult
from emcts.experiments.executors.worker import stop_after
from emcts.experiments.sweeps.plan import this_device
from emcts.experiments.sweeps.progress import SweepDisplay
from emcts.runs.drive import drive
from emcts.runs.logging.display import display_for


class LocalExecutor:
    """Trains runs one after the other in this process."""

    def device(self) -> tuple[str, str]:
        return this_device()

    def run(self, request: SweepRequest) -> SweepResult:
        jobs, progress, problems = request.jobs, request.progress(), request.broken_before()
        request.refuse_other_settings()
        catalogue, console, command = request.load(), request.console, request.command
        for index, job in enumerate(jobs):
            if request.is_over(job):
                continue
            folder = job.folder(catalogue, command)
            title = f"run {index + 1} of {len(jobs)}: {job.spec.label}, {len(job.seeds)} seeds, in {job.path}"
            display = SweepDisplay(progress, index, jobs, title, display_for(console, title))
            stop = stop_after(request.until)
            result = drive(job.trainer(catalogue, folder), folder, display, command, request.loggers, stop)
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
