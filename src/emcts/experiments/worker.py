"""What a worker process does for a sweep: trains one run, quietly, and tells how it ended."""

import os
import signal
import time
import traceback
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from emcts.experiments.executors import Load
from emcts.experiments.plan import this_device
from emcts.experiments.sweep import Job
from emcts.runs.drive import drive
from emcts.runs.folder import Folder
from emcts.runs.logging.display import Display
from emcts.runs.provenance import commit

STOPPED_BY_SIGTERM = 128 + signal.SIGTERM
LOCK_SECONDS = 180.0  # a file server may take so long to notice that a machine is gone
SEEING_SECONDS = 10.0  # and so long to show a new file to another machine


@dataclass(frozen=True)
class Told:
    """How a run ended: as `drive` says it, or `failed`, by an error that is no fault of the training."""

    state: str
    message: str
    said: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """A worker's view of a folder: what it read there, if anything, and whether it may write."""

    content: str | None
    writable: bool
    version: str


class Terminated(Exception):
    """Somebody took the worker away while it trained: the run was saved, and goes on elsewhere."""


class Quiet(Display):
    """A display for nobody, which keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def train(job: Job, load: Load, command: str) -> Told:
    """Makes or opens the run, and trains it from where it stands to its end.

    Errors come back as text, for not every error can travel. A SIGTERM is not ours but the machine's.
    """
    display = Quiet()
    try:
        catalogue = load()
        folder = job.folder(catalogue, command)
        wait_for_lock(folder, LOCK_SECONDS)
        ending = drive(job.trainer(catalogue, folder), folder, display, command)
    except (ValueError, OSError) as error:
        return Told("failed", str(error), tuple(display.said))
    except Exception:
        return Told("failed", traceback.format_exc(), tuple(display.said))
    if ending.exit_code == STOPPED_BY_SIGTERM:
        raise Terminated(ending.message)
    *said, message = display.said
    return Told(ending.state, message, tuple(said))


def see(sign: Path) -> Seen:
    """Whether a file that another process has just written is there."""
    patience = time.monotonic() + SEEING_SECONDS
    while not sign.exists() and time.monotonic() < patience:
        time.sleep(0.2)
    content = sign.read_text() if sign.exists() else None
    return Seen(content, os.access(sign.parent, os.W_OK), version())


def device_name() -> str:
    return this_device()[1]


def version() -> str:
    """Of emcts, with its commit where it runs from a checkout."""
    try:
        number = metadata.version("emcts")
    except metadata.PackageNotFoundError:
        number = "not installed"
    return f"{number} ({commit()})"


def wait_for_lock(folder: Folder, seconds: float) -> None:
    """A worker that died on another machine may hold its lock for a while; `drive` complains if it stays."""
    patience = time.monotonic() + seconds
    while folder.is_locked() and time.monotonic() < patience:
        time.sleep(1.0)
