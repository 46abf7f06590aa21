"""The folder of a run: its files, the lock of the process that trains it, and its status."""

import fcntl
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emcts.envs.references import is_untrusted
from emcts.runs.config import Config
from emcts.runs.files import create_exclusively, open_regular, remove, write_atomically
from emcts.runs.logging.artifacts import ArtifactLine
from emcts.runs.logging.metrics import MetricsLine
from emcts.runs.provenance import Provenance
from emcts.runs.stored_json import JsonLines, read_json, to_json
from emcts.runs.summary import RunSummary

CONFIG = "config.json"
RUNS = Path("runs")
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
        """Creates a new run. A folder that has a run, or a file that a run would overwrite, is an error.

        Of several processes that create a run in the same folder, one succeeds.
        """
        taken = [name for name in (*FILES, *FOLDERS) if os.path.lexists(path / name)]
        if taken and taken[0] != CONFIG:
            raise ValueError(f"{path} holds {taken[0]}, which a run would overwrite: choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        try:
            create_exclusively(path / CONFIG, _config_text(config, provenance))
        except FileExistsError:
            raise ValueError(
                f"{path} holds a run already: continue it with `{cls(path)._resume_hint()}`, or choose another --out"
            ) from None
        return cls(path)

    @classmethod
    def create_in(cls, out: Path | None, config: Config, provenance: Mapping[str, object]) -> "Folder":
        """Creates a new run in a folder, or in the next free one of `runs`."""
        return (
            cls.create_next(RUNS, config, provenance) if out is None else cls.create(out, config, provenance)
        )

    @classmethod
    def create_next(cls, parent: Path, config: Config, provenance: Mapping[str, object]) -> "Folder":
        """Creates a new run in a folder of its own: its name is the environment, the agent and the next number."""
        name = file_name(config.environment)
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1_000_000):
            path = parent / f"{name}-{config.agent}-{number}"
            try:
                path.mkdir()  # at most one process makes it
            except FileExistsError:
                continue
            return cls.create(path, config, provenance)
        raise ValueError(f"{parent} has a million runs of this name: choose an --out")

    @classmethod
    def open(cls, path: Path) -> "Folder":
        if not (path / CONFIG).is_file():
            raise ValueError(f"{path} is not a run, since it has no {CONFIG}: `emcts runs` lists the runs")
        return cls(path)

    @property
    def metrics(self) -> JsonLines[MetricsLine]:
        return JsonLines(self.path / "metrics.jsonl", MetricsLine)

    @property
    def artifacts(self) -> JsonLines[ArtifactLine]:
        return JsonLines(self.path / "artifacts.jsonl", ArtifactLine)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def config(self) -> Config:
        stored = self._read_config()
        try:
            return Config.from_json(stored)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None

    def provenance(self) -> Provenance:
        """Returns the command, code and machine that the run was started with."""
        stored: Any = self._read_config()
        for name in Config.__dataclass_fields__:
            stored.pop(name, None)
        return stored

    @property
    def resume_command(self) -> str:
        """The command that continues the run: code that it names is run only if the user names it too."""
        environment = self.config().environment
        code = f" --env-from {shlex.quote(environment)}" if is_untrusted(environment) else ""
        return f"emcts resume {shlex.quote(str(self.path))}{code}"

    def _resume_hint(self) -> str:
        """Returns the same for a run whose configuration another process is writing, or that is damaged."""
        try:
            return self.resume_command
        except ValueError:
            return f"emcts resume {shlex.quote(str(self.path))}"

    def summary(self) -> RunSummary:
        """Returns the results as of the last checkpoint; empty before the first."""
        file = self.path / "summary.json"
        return read_json(file, RunSummary) if file.exists() else {}

    def write_config(self, config: Config, provenance: Mapping[str, object]) -> None:
        write_atomically(self.path / CONFIG, _config_text(config, provenance))

    def write(self, name: str, content: Mapping[str, object]) -> Path:
        """Writes a file of JSON; numbers that are not finite become null."""
        return write_atomically(self.path / name, to_json(content, indent=2) + "\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the run for the process that trains it. The lock ends with the process, however that ends."""
        descriptor = open_regular(self.path / ".lock", os.O_RDWR | os.O_CREAT)
        try:
            if not _locked(descriptor, fcntl.LOCK_EX):
                raise ValueError(f"another process is training {self.path}: stop that one first")
            os.utime(descriptor)  # by which others notice that a process has begun
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """Removes a new run if an error ends it before it has trained anything: it would block the next command."""
        try:
            yield
        except Exception:
            trained = self.checkpoints.exists() or (self.path / "metrics.jsonl").exists()
            if not trained and not self.is_locked():
                for name in (*FILES, *FOLDERS, ".lock"):
                    remove(self.path / name)
                if not any(self.path.iterdir()):
                    self.path.rmdir()
            raise

    def discard_untrained(self) -> bool:
        """Removes the run if nothing was saved or reported, and nothing else lies in its folder. Call with the lock."""
        own = {CONFIG, ".lock", "summary.json", "figure.png", "metrics.jsonl", "checkpoints", "tensorboard"}
        kept = [self.path / "metrics.jsonl", *self.checkpoints.glob("*")]
        if {entry.name for entry in self.path.iterdir()} - own or any(
            one.is_dir() or (one.is_file() and one.stat().st_size) for one in kept
        ):
            return False
        for name in own:
            remove(self.path / name)
        self.path.rmdir()
        return True

    def is_locked(self) -> bool:
        """Returns whether a process is training the run now."""
        if not (self.path / ".lock").is_file():
            return False
        descriptor = os.open(self.path / ".lock", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def _read_config(self) -> dict[str, Any]:
        return read_json(self.path / CONFIG, dict[str, object])


def _config_text(config: Config, provenance: Mapping[str, object]) -> str:
    return to_json({**config.to_json(), **provenance}, indent=2) + "\n"


def _locked(descriptor: int, kind: int) -> bool:
    """Takes the lock if it is free. A process that only asks holds it for an instant, hence the second try."""
    for wait in (0.0, 0.2):
        time.sleep(wait)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def file_name(text: str) -> str:
    """Returns a text as part of a file's name: a reference may have colons and slashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def find_runs(parent: Path) -> list[Folder]:
    """Returns the runs in a folder, and the folder itself if it is one, by name."""
    if not parent.is_dir():
        raise ValueError(f"there is no folder {parent}: name the folder of the runs")
    return [Folder(file.parent) for file in sorted([*parent.glob(CONFIG), *parent.glob(f"*/{CONFIG}")])]


@dataclass(frozen=True)
class Status:
    """The state of a run as of its last checkpoint: running, finished, stopped or broken."""

    path: Path
    config: Config
    env_steps: int
    total_env_steps: int | None
    mean_return: float | None
    seeds_solved: int | None
    state: str


def status(folder: Folder) -> Status:
    """Reads the status of a run from its files alone."""
    config, summary = folder.config(), folder.summary()
    env_steps = max((seed["env_steps"] for seed in summary.get("seeds", [])), default=0)
    mean = summary.get("mean_final_return")
    total = config.total_env_steps or summary.get("total_env_steps")
    return Status(
        path=folder.path,
        config=config,
        env_steps=env_steps,
        total_env_steps=total,
        mean_return=None if mean is None else float(mean),
        seeds_solved=summary.get("seeds_solved"),
        state=_state(folder, summary.get("state"), total is not None and env_steps >= total),
    )


def _state(folder: Folder, written: str | None, complete: bool) -> str:
    """Decides by the lock and the steps: the summary of a killed run says `running`, of an extended one `finished`."""
    if folder.is_locked():
        return "running"
    if written == "broken":
        return "broken"
    return "finished" if complete else "stopped"
