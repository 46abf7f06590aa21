"""A run on several devices, and of several processes: what `emcts train` and `emcts resume` have in common."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from emcts.runs import team
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.folder import Folder
from emcts.training.devices import Layout

SECONDS_TO_MISS = 30  # a process that is silent for so long is taken for dead
FOUND_BY_ITSELF = "Slurm, Open MPI and Kubernetes"


@dataclass(frozen=True)
class Together:
    """Where to run."""

    devices: str = ""
    """SEEDSxDATA: 4x2 puts the seeds on 4 groups, and spreads each seed over 2 devices. If not given, all that fit."""
    distributed: bool = False
    """Train with other processes, on this machine or on others. Give each the same command."""
    coordinator: str | None = None
    """HOST:PORT of process 0. Not needed where it is found: under Slurm, Open MPI and Kubernetes."""
    processes: int | None = None
    """How many there are. Not needed there either."""
    process: int | None = None
    """Which of them this is, from 0 on. Not needed there either."""

    def placed(self, trainer: Any) -> Any:
        """The trainer on the devices that were asked for."""
        return trainer.on(Layout.read(self.devices)) if self.devices else trainer


def join(arguments: Sequence[str]) -> None:
    """Meets the other processes, if there are to be any. Comes before all else: JAX counts its devices only once."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--coordinator")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--process", type=int)
    given, _ = parser.parse_known_args(list(arguments))
    where = (given.coordinator, given.processes, given.process)
    if not given.distributed:
        if where != (None, None, None):
            raise ValueError("--coordinator, --processes and --process are for --distributed: add it")
        return
    if None in where and where != (None, None, None):
        raise ValueError("give all of --coordinator, --processes and --process, or none where they are found")
    try:
        jax.distributed.initialize(
            given.coordinator,
            given.processes,
            given.process,
            heartbeat_timeout_seconds=SECONDS_TO_MISS,
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"the processes could not meet ({_first_line(error)}): give --coordinator HOST:PORT, --processes N and "
            f"--process I; only {FOUND_BY_ITSELF} tell them by themselves"
        ) from None


@contextmanager
def others_may_die(folder: Folder) -> Iterator[None]:
    """Ends this process with a clear message when another one of the run is gone."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if team.is_alone():
            raise
        print(f"emcts: {_gone(folder, error)}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)  # an orderly end would wait for those that are gone


def shared_folder(create: Any, path: Path) -> Folder:
    """Made by the process that leads, and opened by the others."""
    if team.leads():
        create(path)
    team.wait("the folder of the run")
    return Folder.open(path)


def _gone(folder: Folder, error: Exception) -> str:
    steps = Checkpoints(folder.checkpoints).steps()
    where = f"from step {steps[-1]:,}" if steps else "from the beginning"
    return (
        f"another process of this run died, or cannot be reached ({_first_line(error)}). "
        f"`emcts resume {folder.path}` goes on {where}, with any number of processes"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
