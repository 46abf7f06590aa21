"""Options of `emcts train` and `emcts resume` for several devices and several processes."""

import argparse
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import jax

from emcts.runs import process_group
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.folder import Folder
from emcts.training.devices import DeviceLayout
from emcts.training.progress import Trainer

HEARTBEAT_SECONDS = 30  # a process that is silent for this long counts as dead
BIND = "JAX_COORDINATOR_BIND_ADDRESS"  # by which a user says where to listen instead
DETECTED = "Slurm, Open MPI and Kubernetes"


@runtime_checkable
class PlaceableTrainer(Trainer, Protocol):
    """A trainer that runs on a given layout of devices."""

    def on(self, layout: DeviceLayout) -> Trainer: ...


@dataclass(frozen=True)
class DistributedOptions:
    """The devices and processes to train on."""

    devices: str = ""
    """SEEDSxDATA: 4x2 splits the seeds over 4 groups of 2 devices, and each seed over its 2. Default: all that fit."""
    distributed: bool = False
    """Train with other processes, on this machine or on others. Give each the same command."""
    coordinator: str | None = None
    """HOST:PORT of process 0. Detected under Slurm, Open MPI and Kubernetes."""
    processes: int | None = None
    """Number of processes. Detected likewise."""
    process: int | None = None
    """Number of this process, from 0 on. Detected likewise."""

    def place(self, trainer: Trainer) -> Trainer:
        """Returns the trainer on the devices of the options."""
        if not self.devices:
            return trainer
        if not isinstance(trainer, PlaceableTrainer):
            raise ValueError(
                f"--devices {self.devices}: this agent cannot be placed on devices, leave it out"
            )
        return trainer.on(DeviceLayout.parse(self.devices))


def join_process_group(arguments: Sequence[str]) -> None:
    """Connects to the other processes with --distributed. Call it first: JAX counts its devices only once."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--coordinator")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--process", type=int)
    given, _ = parser.parse_known_args(list(arguments))
    where = (given.coordinator, given.processes, given.process)
    if not given.distributed:
        if where != (None, None, None):
            raise ValueError("--coordinator, --processes and --process need --distributed: add it")
        return
    if None in where and where != (None, None, None):
        raise ValueError(
            "give all of --coordinator, --processes and --process, or none to have them detected"
        )
    bound = None
    if given.coordinator is not None and given.process == 0 and BIND not in os.environ:
        bound = bind_address(given.coordinator)
    try:
        jax.distributed.initialize(
            given.coordinator,
            given.processes,
            given.process,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            coordinator_bind_address=bound,
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"the processes could not connect ({_first_line(error)}): give --coordinator HOST:PORT, --processes N "
            f"and --process I; they are detected only under {DETECTED}"
        ) from None


def bind_address(coordinator: str) -> str:
    """Returns where process 0 listens: on the given address alone, where JAX would listen on all of the machine."""
    host, _, port = coordinator.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"--coordinator {coordinator}: give HOST:PORT, such as 10.0.0.1:12345")
    try:
        address = str(socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise ValueError(f"--coordinator {coordinator}: {host} has no address here ({error})") from None
    if ipaddress.ip_address(address).is_loopback and host not in (address, "localhost"):
        raise ValueError(
            f"--coordinator {coordinator}: {host} is {address} on this machine, which others cannot reach; give the "
            f"address of the network between the machines, or {address}:{port} if there are no others"
        )
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


# What XLA's errors begin with. While a number is read back from a device, they may come as `ValueError`.
STATUS = re.compile(
    r"(ABORTED|CANCELLED|DEADLINE_EXCEEDED|FAILED_PRECONDITION|INTERNAL|UNAVAILABLE|UNKNOWN): "
)


@contextmanager
def explain_lost_process(folder: Folder) -> Iterator[None]:
    """Exits with a clear message when another process of the run has died."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        is_input = isinstance(error, ValueError) and not STATUS.match(str(error))
        if process_group.is_single() or is_input:
            raise
        print(f"emcts: {_lost(folder, error)}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)  # a regular exit would wait for the lost process


def create_shared_folder(create: Callable[[], Folder]) -> Folder:
    """Creates the folder of a run in the leader, and opens it in every process."""
    path = str(create().path) if process_group.is_leader() else ""
    return Folder.open(Path(process_group.broadcast_text(path)))


def _lost(folder: Folder, error: Exception) -> str:
    steps = Checkpoints(folder.checkpoints).steps()
    where = f"from step {steps[-1]:,}" if steps else "from the beginning"
    return (
        f"another process of this run died, or cannot be reached ({_first_line(error)}). "
        f"`{folder.resume_command}` continues {where}, with any number of processes"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
