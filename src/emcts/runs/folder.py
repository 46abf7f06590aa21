"""The folder of a run: its files, the lock of the process that trains it, and its status."""

import fcntl
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from emcts.envs.references import is_reference, parse_reference
from emcts.runs.config import Config
from emcts.runs.files import JsonLines, write_atomically
from emcts.runs.logging.artifacts import ArtifactLine
from emcts.runs.logging.metrics import MetricsLine
from emcts.runs.provenance import Provenance
from emcts.runs.summary import RunSummary

CONFIG = "config.json"
FILES = (
    CONFIG,
    "metrics.jsonl",
    "artifacts.jsonl",
    "summary.json",
    "maps.npz",
    "figure.png",
    "evaluation.json",
)
FOLDERS = ("checkpoints", "artifacts", "tensorboard")


@dataclass(frozen=True)
class Folder:
    """The files of one run. A folder with a `config.json` is a run: this file is written first, and atomically."""

    path: Path

    @classmethod
    def create(cls, path: Path, config: Config, provenance: Mapping[str, object]) -> "Folder":
        """Creates a new run. A folder that has a run, or a file that a run would overwrite, is an error."""
        taken = [name for name in (*FILES, *FOLDERS) if (path / name).exists()]
        if CONFIG in taken:
            raise ValueError(
                f"{path} holds a run already: continue it with `emcts resume {path}`, or choose another --out"
            )
        if taken:
            raise ValueError(f"{path} holds {taken[0]}, which a run would overwrite: choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder.write_config(config, provenance)
        return folder

    @classmethod
    def open(cls, path: Path) -> "Folder":
        if not (path / CONFIG).is_file():
            raise ValueError(f"{path} is not a run, since it has no {CONFIG}: `emcts runs` lists the runs")
        return cls(path)

    @property
    def metrics(self) -> JsonLines[MetricsLine]:
        return JsonLines(self.path / "metrics.jsonl")

    @property
    def artifacts(self) -> JsonLines[ArtifactLine]:
        return JsonLines(self.path / "artifacts.jsonl")

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def config(self) -> Config:
        return Config.from_json(self._read(CONFIG))

    def provenance(self) -> Provenance:
        """Returns the command, code and machine that the run was started with."""
        stored = self._read(CONFIG)
        for name in Config.__dataclass_fields__:
            stored.pop(name, None)
        return stored

    @property
    def resume_command(self) -> str:
        """The command that continues the run: code that it names is run only if the user names it too."""
        environment = self.config().environment
        code = is_reference(environment) and not parse_reference(environment).is_trusted
        return f"emcts resume {self.path}" + (f" --env-from {environment}" if code else "")

    def summary(self) -> RunSummary:
        """Returns the results as of the last checkpoint; empty before the first."""
        return self._read("summary.json") if (self.path / "summary.json").exists() else {}

    def write_config(self, config: Config, provenance: Mapping[str, object]) -> None:
        self.write(CONFIG, {**config.to_json(), **provenance})

    def write(self, name: str, content: Mapping[str, object]) -> Path:
        return write_atomically(self.path / name, json.dumps(content, indent=2) + "\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the run for the process that trains it. The lock ends with the process, however that ends."""
        with (self.path / ".lock").open("w") as file:
            if not _locked(file, fcntl.LOCK_EX):
                raise ValueError(f"another process is training {self.path}: stop that one first")
            yield

    def is_locked(self) -> bool:
        """Returns whether a process is training the run now."""
        if not (self.path / ".lock").exists():
            return False
        with (self.path / ".lock").open() as file:
            return not _locked(file, fcntl.LOCK_SH)

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text())
        except ValueError:
            raise ValueError(f"{self.path / name} is not JSON: it was changed or damaged") from None


def _locked(file: IO[str], kind: int) -> bool:
    """Takes the lock if it is free. A process that only asks holds it for an instant, hence the second try."""
    for wait in (0.0, 0.2):
        time.sleep(wait)
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def next_free(parent: Path, environment: str, agent: str) -> Path:
    """Returns a path for a new run that does not exist yet: the environment, the agent and a number."""
    name = file_name(environment)
    numbers = (parent / f"{name}-{agent}-{number}" for number in range(1, 1_000_000))
    return next(path for path in numbers if not path.exists())


def file_name(text: str) -> str:
    """Returns a text as part of a file's name: a reference may have colons and slashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def find_runs(parent: Path) -> list[Folder]:
    """Returns the runs in a folder, and the folder itself if it is one, by name."""
    if not parent.is_dir():
        raise ValueError(f"there is no folder {parent}: name the folder of the runs")
    return [Folder.open(file.parent) for file in sorted([*parent.glob(CONFIG), *parent.glob(f"*/{CONFIG}")])]


@dataclass(frozen=True)
class Status:
    """The state of a run as of its last checkpoint: running, finished, stopped or broken."""

    path: Path
    config: Config
    env_steps: int
    total_env_steps: int | None
    mean_return: float | None
    seeds_solved: int
    state: str


def status(folder: Folder) -> Status:
    """Reads the status of a run from its files alone."""
    config, summary = folder.config(), folder.summary()
    env_steps = max((seed["env_steps"] for seed in summary.get("seeds", [])), default=0)
    total = config.total_env_steps or summary.get("total_env_steps")
    return Status(
        path=folder.path,
        config=config,
        env_steps=env_steps,
        total_env_steps=total,
        mean_return=summary.get("mean_final_return"),
        seeds_solved=summary.get("seeds_solved", 0),
        state=_state(folder, summary.get("state"), total is not None and env_steps >= total),
    )


def _state(folder: Folder, written: str | None, complete: bool) -> str:
    """Decides by the lock and the steps: the summary of a killed run says `running`, of an extended one `finished`."""
    if folder.is_locked():
        return "running"
    if written == "broken":
        return "broken"
    return "finished" if complete else "stopped"
