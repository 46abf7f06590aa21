"""The Ray executor: runs side by side as tasks of Ray, on this machine or on a cluster."""

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax

from emcts.experiments.executors.executor import Executor, ExecutorOptions, SweepRequest, SweepResult
from emcts.experiments.executors.monitor import Monitor, MonitoredRun, monitor_for
from emcts.experiments.executors.resources import Resources
from emcts.experiments.executors.worker import (
    Terminated,
    WorkerReport,
    WorkerResult,
    device_name,
    report,
    train,
    version,
)
from emcts.experiments.sweeps.job import Job
from emcts.experiments.sweeps.plan import this_device
from emcts.experiments.sweeps.progress import SweepProgress
from emcts.runs.process_group import Interruption

RETRIES = 3  # of a run whose worker dies
POLL_SECONDS = 1.0  # between two reads of the folders
ANSWER_SECONDS = 120.0  # for a worker to start and answer
CONNECT_SECONDS = 10.0  # for a cluster to accept a connection
STORE_BYTES = 80 * 2**20  # about Ray's minimum: only names and messages pass through it

# Ray is imported when it is used, and has no types here.
Ray = Any
ObjectRef = Any


def make_ray(options: ExecutorOptions) -> AbstractContextManager[Executor]:
    """Returns an executor on the cluster that the options name, or on a Ray that is started here."""
    check_ray()
    # This process only hands out runs: the memory of a GPU is for the workers.
    jax.config.update("jax_platforms", "cpu")
    return on_ray(options.address, Resources(options.runs_per_gpu, options.cpus_per_run))


@contextmanager
def on_ray(address: str | None, resources: Resources) -> Iterator["RayExecutor"]:
    """Joins the cluster at an address and leaves it afterwards; without an address, starts and stops a Ray here."""
    ray = _connect(address)
    try:
        machines = [machine["Resources"] for machine in _machines(ray)]
        gpus = any(one.get("GPU", 0) > 0 for one in machines)
        options = resources.ray_options(machines, gpus)
        yield RayExecutor(ray, resources, options, gpus, is_cluster=address is not None)
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class RayExecutor:
    """Trains each run as a task in a process of its own, and resumes it in another process if that one dies."""

    ray: Ray
    resources: Resources
    task_options: dict[str, int | float]
    has_gpus: bool
    is_cluster: bool

    def device(self) -> tuple[str, str]:
        """Asks a worker, which knows the devices that JAX finds there, unless it is this machine's CPU."""
        if not self.is_cluster and not self.has_gpus:
            return this_device()
        kind = "gpu" if self.has_gpus else "cpu"
        answer = self._task(device_name).remote()
        if not self.ray.wait([answer], timeout=ANSWER_SECONDS)[0]:
            self.ray.cancel(answer, force=True)
            return kind, "a cluster that is busy"
        name = str(self._answer(answer, "the cluster"))
        if self.has_gpus and name.startswith("CPU"):
            raise ValueError(
                "Ray gave a worker a GPU, but JAX finds none there: install JAX's CUDA extra beside emcts"
            )
        return kind, name

    def run(self, request: SweepRequest) -> SweepResult:
        jobs, progress, problems = request.jobs, request.progress(), request.broken_before()
        request.refuse_other_settings()
        left = [MonitoredRun(index, job) for index, job in enumerate(jobs) if not request.is_over(job)]
        if not left:
            return SweepResult(problems)
        if self.is_cluster:
            self.check_folder(left[0].job.path.parent)
        task = self._task(train, max_retries=RETRIES, retry_exceptions=[Terminated])
        monitor = monitor_for(request.console)
        with Interruption() as interruption, monitor:
            monitor.message(f"{len(left)} runs on Ray, side by side as far as resources allow")
            shared = (request.load, request.command, request.loggers, request.until)
            tasks = {task.remote(_with_absolute_path(run.job), *shared): run for run in left}
            problems |= self._wait(tasks, progress, interruption, monitor)
        return SweepResult(problems, None if interruption.signal is None else interruption.exit_code)

    def check_folder(self, folder: Path) -> None:
        """Refuses a machine that does not share the folder, or has another version of emcts."""
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder.absolute() / f".probe-{secrets.token_hex(8)}"
        probe.write_text(probe.name)
        affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        try:
            answers = {
                machine["NodeManagerHostname"]: self.ray.remote(report)
                .options(num_cpus=0, scheduling_strategy=affinity(machine["NodeID"], soft=False))
                .remote(probe)
                for machine in _machines(self.ray)
                if machine["Resources"].get("GPU" if self.has_gpus else "CPU", 0) > 0
            }
            for host, answer in answers.items():
                check_report(host, self._answer(answer, host), probe)
        finally:
            probe.unlink()

    def _task(self, function: Callable[..., object], **options: object) -> Ray:
        env_vars = {"env_vars": self.resources.env_vars()}
        # A process for each run, so that JAX frees its GPU memory at the end.
        return self.ray.remote(**self.task_options, max_calls=1, runtime_env=env_vars, **options)(function)

    def _answer(self, answer: ObjectRef, host: str) -> Any:
        try:
            return self.ray.get(answer, timeout=ANSWER_SECONDS)
        except self.ray.exceptions.GetTimeoutError:
            raise ValueError(f"no worker on {host} answers within {ANSWER_SECONDS:.0f} seconds") from None
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ValueError(
                f"a worker on {host} cannot train for this sweep: install the same emcts there ({reason})"
            ) from error

    def _wait(
        self,
        tasks: dict[ObjectRef, MonitoredRun],
        progress: SweepProgress,
        interruption: Interruption,
        monitor: Monitor,
    ) -> dict[str, str]:
        """Waits until all tasks have ended, and returns the problems of those that failed."""
        problems: dict[str, str] = {}
        asked_to_stop = False
        while tasks:
            ready, _ = self.ray.wait(list(tasks), timeout=POLL_SECONDS)
            for one in ready:
                problems |= _finish(tasks.pop(one), self._result(one), progress, interruption, monitor)
            if interruption.signal is not None and not asked_to_stop:
                asked_to_stop = True
                for one in tasks:
                    self.ray.cancel(one)  # a run that trains finishes its piece and saves, as after a Ctrl-C
            running = [run for run in tasks.values() if run.has_begun]
            for run in running:
                if run.has_new_worker():
                    name = run.job.path.name
                    monitor.message(f"{name}: its worker died; another resumes from its last checkpoint")
                run.read()
                run.update(progress)
            progress.concurrent = max(len(running), 1)
            monitor.show(progress, running)
        return problems

    def _result(self, task: ObjectRef) -> WorkerResult:
        try:
            return self.ray.get(task)
        except self.ray.exceptions.TaskCancelledError:
            return WorkerResult("stopped", "was not begun", ())
        except self.ray.exceptions.RayError as error:
            message = f"lost its worker {RETRIES + 1} times, the last time by: {error}"
            return WorkerResult("failed", message, ())


def check_report(host: str, found: WorkerReport, probe: Path) -> None:
    """Refuses a worker that could not resume the runs of other workers."""
    if found.content != probe.name:
        raise ValueError(
            f"{host} does not see {probe.parent}: all machines need one file system for the runs; choose an --out on it"
        )
    if not found.writable:
        raise ValueError(f"{host} sees {probe.parent}, but may not write there: choose another --out")
    if found.version != version():
        raise ValueError(
            f"{host} has emcts {found.version}, this machine {version()}: install the same on both"
        )


def check_ray() -> None:
    """Raises an error if Ray is not installed."""
    if find_spec("ray") is None:
        raise ValueError('--on ray needs the package ray: pip install "emcts[ray]"')


def _connect(address: str | None) -> Ray:
    check_ray()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address is not None:
        _check_address(address)
    elif "ray" not in sys.modules:  # Ray reads these variables when it is imported
        # Without a token, anyone who reaches the machine could run anything on this Ray.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray = import_module("ray")
    local = {"include_dashboard": False, "object_store_memory": STORE_BYTES} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="critical", **local)
    except (OSError, RuntimeError, ImportError, ValueError) as error:
        place = "on this machine" if address is None else f"at --address {address}"
        raise ValueError(f"Ray cannot be used {place}: {error}") from error
    return ray


def _check_address(address: str) -> None:
    """Refuses an address where nothing answers; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ValueError(
            f"nothing answers at --address {address} ({error}): start Ray there with `ray start --head`, or leave "
            "--address out to start Ray here"
        ) from None


def _machines(ray: Ray) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _finish(
    run: MonitoredRun,
    result: WorkerResult,
    progress: SweepProgress,
    interruption: Interruption,
    monitor: Monitor,
) -> dict[str, str]:
    """Prints how a run ended, adds it to the progress, and returns its problem if it has one."""
    for text in (*result.messages, result.message):
        monitor.message(f"{run.job.path.name}: {text}")
    run.read()
    run.update(progress)
    if result.state in ("finished", "broken"):
        progress.done[run.index] = run.job.work
    expected = result.state == "finished" or (result.state == "stopped" and interruption.signal is not None)
    return {} if expected else {str(run.job.path): result.message}


def _with_absolute_path(job: Job) -> Job:
    """Returns a job whose path is valid in a process with another working directory."""
    return replace(job, path=job.path.absolute())
