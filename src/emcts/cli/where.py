"""Where the runs of a sweep are trained, as the command line says it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import jax
from rich.console import Console

from emcts.cli.plan_table import plan_table
from emcts.experiments.executors import Executor, Here, Load, Outcome
from emcts.experiments.plan import plan_of
from emcts.experiments.rates import timed
from emcts.experiments.ray_executor import check_ray, on_ray
from emcts.experiments.share import Share
from emcts.experiments.sweep import Job, Row, jobs
from emcts.registry import lookup
from emcts.training.catalogue import Catalogue


@dataclass(frozen=True)
class Where:
    """Where the runs are trained."""

    on: str = "here"
    """here: one after the other in this process. ray: side by side, on this machine or a cluster."""
    address: str | None = None
    """Of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT. If not given, Ray starts on this machine for the sweep."""
    runs_per_gpu: int | None = None
    """So many runs share a GPU, each with its part of the memory. 1 if not given."""
    cpus_per_run: int | None = None
    """Each run takes so many CPUs of its machine. 1 if not given."""

    def executor(self) -> AbstractContextManager[Executor]:
        return lookup(EXECUTORS, self.on, "place for --on")(self)


def _here(where: Where) -> AbstractContextManager[Executor]:
    for name in ("address", "runs_per_gpu", "cpus_per_run"):
        if (given := getattr(where, name)) is not None:
            raise ValueError(f"--{name.replace('_', '-')} {given} is for Ray alone: add --on ray")
    return nullcontext(Here())


def _ray(where: Where) -> AbstractContextManager[Executor]:
    check_ray()
    # This process hands out the runs and computes next to nothing: the memory of a GPU is for them.
    jax.config.update("jax_platforms", "cpu")
    return on_ray(where.address, Share(where.runs_per_gpu, where.cpus_per_run))


EXECUTORS: dict[str, Callable[[Where], AbstractContextManager[Executor]]] = {"here": _here, "ray": _ray}


def train_rows(
    rows: Sequence[Row],
    out: Path,
    title: str,
    where: Where,
    load: Load,
    console: Console,
    command: str,
    *,
    only_plan: bool,
    measure: bool = False,
) -> Outcome | None:
    """Shows the plan and, unless that is all, trains what is not over. A signal leaves with its exit code."""
    if measure and not (only_plan and where.on == "here"):
        raise ValueError("--measure is for a plan of this machine: add --plan, and leave out --on")
    catalogue = load()
    with where.executor() as executor:
        kind, device = executor.device()
        timing = _timing(catalogue, console) if measure else None
        planned = plan_of(jobs(rows, out, catalogue, kind), catalogue, device, timed=timing)
        console.print(plan_table(f"{title}, on {device}", planned))
        if only_plan:
            if not measure and any(one.seconds is None for one in planned):
                console.print("unknown: not measured on such a machine yet; --plan --measure times it")
            return None
        outcome = executor.run(planned, load, console, command)
    for run, problem in outcome.problems.items():
        console.print(f"{run}: {problem}", markup=False, highlight=False, soft_wrap=True)
    if outcome.stopped is not None:
        console.print("the sweep goes on with the same command", markup=False)
        raise SystemExit(outcome.stopped)
    return outcome


def _timing(catalogue: Catalogue, console: Console) -> Callable[[Job], float]:
    def say_and_time(job: Job) -> float:
        console.print(f"timing {job.row.name} ...", markup=False, highlight=False)
        return timed(job, catalogue)

    return say_and_time
