"""The table of loggers: services that receive the metrics of a run besides its own files."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from emcts.registry import lookup
from emcts.runs.folder import Folder
from emcts.runs.logging.metrics import MetricsLine
from emcts.runs.logging.tensorboard import TensorBoard
from emcts.runs.logging.wandb import WeightsAndBiases


@runtime_checkable
class Logger(Protocol):
    """Receives the lines of `metrics.jsonl` as they are written."""

    def write(self, lines: Iterable[MetricsLine]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class LoggerEntry:
    """How to open a logger for a run that starts or resumes at a number of env steps, and the package that it needs.

    A resumed run logs again what it had logged after that step.
    """

    open: Callable[[Folder, int], Logger]
    package: str
    install: str = "emcts"  # what pip installs to get the package


LOGGERS: dict[str, LoggerEntry] = {
    "tensorboard": LoggerEntry(TensorBoard, "tensorboardX"),
    "wandb": LoggerEntry(WeightsAndBiases, "wandb", "emcts[wandb]"),
}
DEFAULT_LOGGERS = ("tensorboard",)


def check_loggers(names: Sequence[str]) -> None:
    """Raises an error if a name is unknown or its package is not installed. Call it before a run is created."""
    for name in names:
        entry = lookup(LOGGERS, name, "logger")
        if find_spec(entry.package) is None:
            raise ValueError(
                f'the logger {name} needs the package {entry.package}: pip install "{entry.install}"'
            )


def open_loggers(names: Sequence[str], folder: Folder, env_steps: int) -> list[Logger]:
    """Opens loggers for a run that starts or resumes at a step."""
    check_loggers(names)
    return [LOGGERS[name].open(folder, env_steps) for name in names]
