"""The part of a sweep that runs in a worker process: trains one run and returns how it ended."""

import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from emcts.experiments.executors.executor import LoadCatalogue
from emcts.experiments.sweeps.job import Job
from emcts.experiments.sweeps.plan import this_device
from emcts.runs.drive import drive
from emcts.runs.folder import Folder
from emcts.runs.logging.display import Display
from emcts.runs.logging.loggers import DEFAULT_LOGGERS
from emcts.runs.logging.metrics import LatestMetrics, have_had
from emcts.runs.provenance import commit

SIGTERM_EXIT = 128 + signal.SIGTERM
LOCK_SECONDS = 180.0  # a file server may take so long to notice that a machine is gone
VISIBLE_SECONDS = 10.0  # and so long to show a new file to another machine


@dataclass(frozen=True)
class WorkerResult:
    """How a run ended: the state of `drive`, or `failed` by an error outside of training, and its messages."""

    state: str
    message: str
    messages: tuple[str, ...]


@dataclass(frozen=True)
class WorkerReport:
    """What a worker finds of a probe file: its content, if it is visible, and whether its folder is writable."""

    content: str | None
    writable: bool
    version: str


class Terminated(Exception):
    """The worker got a SIGTERM while it trained: the run was saved, and another worker resumes it."""


class MessageDisplay(Display):
    """Shows nothing, and keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def train(
    job: Job,
    load: LoadCatalogue,
    command: str,
    loggers: Sequence[str] = DEFAULT_LOGGERS,
    until: str | None = None,
) -> WorkerResult:
    """Creates or opens the run, and trains it from its last checkpoint to its end, or to an event of all seeds.

    Errors are returned as text, since not every error can be pickled. A SIGTERM comes from the machine, not the user.
    """
    display = MessageDisplay()
    try:
        catalogue = load()
        folder = job.folder(catalogue, command)
        wait_for_lock(folder, LOCK_SECONDS)
        stop = stop_after(until)
        result = drive(job.trainer(catalogue, folder), folder, display, command, loggers, stop)
    except (ValueError, OSError) as error:
        return WorkerResult("failed", str(error), tuple(display.messages))
    except Exception:
        return WorkerResult("failed", traceback.format_exc(), tuple(display.messages))
    if result.exit_code == SIGTERM_EXIT:
        raise Terminated(result.message)
    *messages, message = display.messages
    return WorkerResult(result.state, message, tuple(messages))


def stop_after(event: str | None) -> Callable[[LatestMetrics], bool] | None:
    """Returns the function that tells `drive` to stop once all seeds have had an event, named by its metric."""
    return None if event is None else partial(have_had, event=event)


def report(probe: Path) -> WorkerReport:
    """Waits a while for a file that another process has just written, and reports it."""
    deadline = time.monotonic() + VISIBLE_SECONDS
    while not probe.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    content = probe.read_text() if probe.exists() else None
    return WorkerReport(content, os.access(probe.parent, os.W_OK), version())


def device_name() -> str:
    return this_device()[1]


def version() -> str:
    """Returns the version of emcts, with its commit where it runs from a checkout."""
    try:
        number = metadata.version("emcts")
    except metadata.PackageNotFoundError:
        number = "not installed"
    return f"{number} ({commit()})"


def wait_for_lock(folder: Folder, seconds: float) -> None:
    """Waits for the lock of a worker that died on another machine; `drive` raises an error if it stays."""
    deadline = time.monotonic() + seconds
    while folder.is_locked() and time.monotonic() < deadline:
        time.sleep(1.0)
