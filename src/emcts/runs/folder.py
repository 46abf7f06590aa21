"""The folder of a run: what is where, who may write, and what it says of itself."""

import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from emcts.runs import atomic
from emcts.runs.config import Config
from emcts.runs.lines import Lines

CONFIG = "config.json"
OWN = (CONFIG, "metrics.jsonl", "finds.jsonl", "summary.json", "maps.npz", "figure.png", "evaluation.json")
OWN_FOLDERS = ("checkpoints", "programs", "board")


@dataclass(frozen=True)
class Folder:
    """The paths of one run. `config.json` makes a folder a run: it is written first, and in one piece."""

    path: Path

    @classmethod
    def create(cls, path: Path, config: Config, provenance: Mapping[str, Any]) -> "Folder":
        """A new run. Refuses a folder that holds a run, or anything that a run would write over."""
        taken = [name for name in (*OWN, *OWN_FOLDERS) if (path / name).exists()]
        if CONFIG in taken:
            raise ValueError(
                f"{path} holds a run already: go on with `emcts resume {path}`, or choose another --out"
            )
        if taken:
            raise ValueError(f"{path} holds {taken[0]}, which a run would write over: choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder.write_config(config, provenance)
        return folder

    @classmethod
    def open(cls, path: Path) -> "Folder":
        if not (path / CONFIG).is_file():
            raise ValueError(
                f"{path} is no run, for it has no {CONFIG}: `emcts runs` lists the runs there are"
            )
        return cls(path)

    @property
    def metrics(self) -> Lines:
        return Lines(self.path / "metrics.jsonl")

    @property
    def finds(self) -> Lines:
        return Lines(self.path / "finds.jsonl")

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def config(self) -> Config:
        return Config.from_json(self._read(CONFIG))

    def provenance(self) -> dict[str, Any]:
        """Where the run was begun."""
        stored = self._read(CONFIG)
        return {name: stored[name] for name in stored if name not in Config.__dataclass_fields__}

    def summary(self) -> dict[str, Any]:
        """What is known of the seeds so far; empty before the first checkpoint."""
        return self._read("summary.json") if (self.path / "summary.json").exists() else {}

    def write_config(self, config: Config, provenance: Mapping[str, Any]) -> None:
        self.write(CONFIG, {**config.to_json(), **provenance})

    def write(self, name: str, content: Mapping[str, Any]) -> Path:
        return atomic.write(self.path / name, json.dumps(content, indent=2) + "\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time trains a run. The lock goes with the process, however that ends."""
        with (self.path / ".lock").open("w") as file:
            if not _locked(file, fcntl.LOCK_EX):
                raise ValueError(f"another process is training {self.path}: stop that one first")
            yield

    def is_locked(self) -> bool:
        """Whether a process is training it now."""
        if not (self.path / ".lock").exists():
            return False
        with (self.path / ".lock").open() as file:
            return not _locked(file, fcntl.LOCK_SH)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((self.path / name).read_text())
        except ValueError:
            raise ValueError(f"{self.path / name} is not JSON: it was changed or damaged") from None


def _locked(file: IO[str], kind: int) -> bool:
    """Takes the lock if it is free. Somebody who only looks holds it for an instant, hence the second try."""
    for wait in (0.0, 0.2):
        time.sleep(wait)
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def next_free(parent: Path, environment: str, agent: str) -> Path:
    """A name for a run that nothing has yet: the environment, the agent and a number."""
    numbers = (parent / f"{environment}-{agent}-{number}" for number in range(1, 1_000_000))
    return next(path for path in numbers if not path.exists())
