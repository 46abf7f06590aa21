"""The runs of a sweep as tasks of Ray: side by side, on this machine or on a cluster."""

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from emcts.experiments.executors import Load, Outcome, already_broken, refuse_other_settings
from emcts.experiments.plan import Planned, this_device
from emcts.experiments.progress import Tally
from emcts.experiments.share import Share
from emcts.experiments.sweep import Job
from emcts.experiments.watching import Watch, Watched, watch_on
from emcts.experiments.worker import Seen, Terminated, Told, device_name, see, train, version
from emcts.runs.process_group import Interruption

RETRIES = 3  # of a run whose worker dies
LOOK_SECONDS = 1.0  # between two looks at the folders
ANSWER_SECONDS = 120.0  # for a worker to start and answer
KNOCK_SECONDS = 10.0  # for a cluster to take a connection
STORE_BYTES = 80 * 2**20  # about the least that Ray takes: only names and sentences pass through it


@contextmanager
def on_ray(address: str | None, share: Share) -> Iterator["RayExecutor"]:
    """Joins the cluster of that address and leaves it afterwards; without one, starts Ray here and stops it."""
    ray = _connect(address)
    try:
        machines = [machine["Resources"] for machine in _machines(ray)]
        gpus = any(one.get("GPU", 0) > 0 for one in machines)
        yield RayExecutor(ray, share, share.resources(machines, gpus), gpus, is_cluster=address is not None)
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class RayExecutor:
    """While Ray runs. Each run is a task in a process of its own, and goes on in another if that dies."""

    ray: Any
    share: Share
    resources: dict[str, Any]
    has_gpus: bool
    is_cluster: bool

    def device(self) -> tuple[str, str]:
        """Asks a worker, unless it is this machine's CPU: only there one knows what JAX finds."""
        if not self.is_cluster and not self.has_gpus:
            return this_device()
        kind = "gpu" if self.has_gpus else "cpu"
        answer = self._task(device_name).remote()
        if not self.ray.wait([answer], timeout=ANSWER_SECONDS)[0]:
            self.ray.cancel(answer, force=True)
            return kind, "a cluster that is busy"
        name = self._answer(answer, "the cluster")
        if self.has_gpus and name.startswith("CPU"):
            raise ValueError(
                "Ray gave a worker a GPU, but JAX finds none there: install JAX's CUDA extra beside emcts"
            )
        return kind, name

    def run(self, planned: Sequence[Planned], load: Load, console: Console, command: str) -> Outcome:
        jobs = [one.job for one in planned]
        tally = Tally.of(jobs, [one.steps_per_second for one in planned])
        problems = already_broken(jobs)
        refuse_other_settings(jobs, load(), command)
        left = [Watched(number, job) for number, job in enumerate(jobs) if not job.is_over]
        if not left:
            return Outcome(problems)
        if self.is_cluster:
            self.check_folder(left[0].job.path.parent)
        task = self._task(train, max_retries=RETRIES, retry_exceptions=[Terminated])
        with Interruption() as interruption, watch_on(console) as watch:
            watch.say(f"{len(left)} runs on Ray, side by side as far as there is room")
            tasks = {task.remote(_anywhere(run.job), load, command): run for run in left}
            problems |= self._wait(tasks, tally, interruption, watch)
        return Outcome(problems, None if interruption.signal is None else interruption.exit_code)

    def check_folder(self, folder: Path) -> None:
        """Complains of a machine that does not share the folder, or has another emcts."""
        folder.mkdir(parents=True, exist_ok=True)
        sign = folder.absolute() / f".seen-{secrets.token_hex(8)}"
        sign.write_text(sign.name)
        affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        try:
            answers = {
                machine["NodeManagerHostname"]: self.ray.remote(see)
                .options(num_cpus=0, scheduling_strategy=affinity(machine["NodeID"], soft=False))
                .remote(sign)
                for machine in _machines(self.ray)
                if machine["Resources"].get("GPU" if self.has_gpus else "CPU", 0) > 0
            }
            for host, answer in answers.items():
                refuse_stranger(host, self._answer(answer, host), sign)
        finally:
            sign.unlink()

    def _task(self, function: Callable[..., Any], **options: Any) -> Any:
        environment = {"env_vars": self.share.variables()}
        # A process for each run: what JAX holds of a GPU goes with it.
        return self.ray.remote(**self.resources, max_calls=1, runtime_env=environment, **options)(function)

    def _answer(self, answer: Any, host: str) -> Any:
        try:
            return self.ray.get(answer, timeout=ANSWER_SECONDS)
        except self.ray.exceptions.GetTimeoutError:
            raise ValueError(f"no worker on {host} answers within {ANSWER_SECONDS:.0f} seconds") from None
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ValueError(
                f"a worker on {host} cannot work for this sweep: install the same emcts there ({reason})"
            ) from error

    def _wait(
        self, tasks: dict[Any, Watched], tally: Tally, interruption: Interruption, watch: Watch
    ) -> dict[str, str]:
        """Until all have ended; gives the problems of those that ended badly."""
        problems: dict[str, str] = {}
        asked_to_stop = False
        while tasks:
            ready, _ = self.ray.wait(list(tasks), timeout=LOOK_SECONDS)
            for one in ready:
                problems |= _settle(tasks.pop(one), self._told(one), tally, interruption, watch)
            if interruption.signal is not None and not asked_to_stop:
                asked_to_stop = True
                for one in tasks:
                    self.ray.cancel(one)  # those that train finish their chunk and save, as at a Ctrl-C
            running = [run for run in tasks.values() if run.begun]
            for run in running:
                if run.changed_hands():
                    watch.say(
                        f"{run.job.path.name}: its worker is gone; another goes on from its last checkpoint"
                    )
                run.look()
                run.count(tally)
            tally.side_by_side = max(len(running), 1)
            watch.show(tally, running)
        return problems

    def _told(self, task: Any) -> Told:
        try:
            return self.ray.get(task)
        except self.ray.exceptions.TaskCancelledError:
            return Told("stopped", "was not begun", ())
        except self.ray.exceptions.RayError as error:
            return Told("failed", f"lost its worker {RETRIES + 1} times, at last so: {error}", ())


def refuse_stranger(host: str, seen: Seen, sign: Path) -> None:
    """A worker that could not go on with the runs of others."""
    if seen.content != sign.name:
        raise ValueError(
            f"{host} does not see {sign.parent}: all machines need one file system for the runs; choose an --out on it"
        )
    if not seen.writable:
        raise ValueError(f"{host} sees {sign.parent}, but may not write there: choose another --out")
    if seen.version != version():
        raise ValueError(
            f"{host} has emcts {seen.version}, this machine {version()}: install the same on both"
        )


def check_ray() -> None:
    """Complains where Ray is not installed."""
    if find_spec("ray") is None:
        raise ValueError('--on ray needs the package ray: pip install "emcts[ray]"')


def _connect(address: str | None) -> Any:
    check_ray()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address is not None:
        _refuse_silence(address)
    elif "ray" not in sys.modules:  # Ray reads these when it is imported, and would lock itself out later
        # Without a secret, whoever reaches the machine could have this Ray run anything.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray = import_module("ray")
    mine = {"include_dashboard": False, "object_store_memory": STORE_BYTES} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="critical", **mine)
    except (OSError, RuntimeError, ImportError, ValueError) as error:
        place = "on this machine" if address is None else f"at --address {address}"
        raise ValueError(f"Ray cannot be used {place}: {error}") from error
    return ray


def _refuse_silence(address: str) -> None:
    """Ray itself would knock for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
    except OSError as error:
        raise ValueError(
            f"nobody answers at --address {address} ({error}): start Ray there, `ray start --head`, or leave "
            "--address away to have it started here"
        ) from None


def _machines(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _settle(
    run: Watched, told: Told, tally: Tally, interruption: Interruption, watch: Watch
) -> dict[str, str]:
    """Enters how a run ended, says it, and gives the problem if it is one."""
    for text in (*told.said, told.message):
        watch.say(f"{run.job.path.name}: {text}")
    run.look()
    run.count(tally)
    if told.state in ("finished", "broken"):
        tally.done[run.number] = run.job.work
    expected = told.state == "finished" or (told.state == "stopped" and interruption.signal is not None)
    return {} if expected else {str(run.job.path): told.message}


def _anywhere(job: Job) -> Job:
    """With a path that means the same in a process that was started elsewhere."""
    return replace(job, path=job.path.absolute())
