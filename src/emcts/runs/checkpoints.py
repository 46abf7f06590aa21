"""Checkpoints: whole training states in a folder, checked when they are read.

A checkpoint is a folder `step-<env steps>` with the arrays, written by orbax, and `manifest.json`, which says what the
arrays are and what every file sums to. It is written under another name and renamed when it is complete. Where several
processes train a run, each writes the parts of its devices, and the one that leads does all the rest.
"""

import json
import logging
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from emcts.runs import atomic, team
from emcts.runs.leaves import Leaf, describe, from_host, numbers, refuse_mismatch

PARTIAL = ".partial-"
BLOCK = 1 << 20
SPARE = 1.1  # of the bytes of the arrays, for what orbax writes around them


class Damaged(ValueError):
    """A checkpoint whose files are not what was written."""


@dataclass(frozen=True)
class Restored:
    """A state from a checkpoint, and what is wrong with each that should have come before it."""

    state: PyTree
    env_steps: int
    damaged: tuple[str, ...]


@dataclass(frozen=True)
class Checkpoints:
    """Keeps the last `keep` checkpoints, and the one of highest score."""

    folder: Path
    keep: int = 3

    def steps(self) -> list[int]:
        """The env steps of the checkpoints, damaged or not, in order."""
        names = (path.name.removeprefix("step-") for path in self.folder.glob("step-*"))
        return sorted(int(name) for name in names if name.isdigit())

    def path(self, env_steps: int) -> Path:
        return self.folder / f"step-{env_steps:012}"

    def save(
        self,
        state: PyTree,
        env_steps: int,
        score: float | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> Path:
        """Adds a checkpoint, then removes those that are neither among the last nor the best."""
        path = self._write(self.path(env_steps), state, env_steps, score, notes or {})
        if team.leads():
            self._prune(env_steps)
        return path

    def save_broken(self, state: PyTree, env_steps: int) -> Path:
        """A state to look at, that `restore` leaves alone."""
        return self._write(self.folder / f"broken-{env_steps:012}", state, env_steps, None, {})

    def restore(
        self, like: PyTree, *, best: bool = False, shardings: PyTree | None = None
    ) -> Restored | None:
        """The newest good state, or the best; None if none was ever saved.

        `like` is a state or its shapes, and says what to expect. Damage leads to the next older one; a sound
        checkpoint of other shapes is an error. `shardings` say where the arrays shall be, wherever they were before.
        """
        steps = self.steps()[::-1]
        if best:
            steps.sort(key=self._score, reverse=True)
        damaged: list[str] = []
        for env_steps in steps:
            try:
                state = read(self.path(env_steps), like, shardings)
            except Damaged as problem:
                damaged.append(str(problem))
                continue
            return Restored(state, env_steps, tuple(damaged))
        if damaged:
            raise ValueError(
                f"no checkpoint in {self.folder} can be read: {'; '.join(damaged)}. Bring one back from a copy, "
                "or start another run with the settings in config.json"
            )
        return None

    def notes(self) -> Mapping[str, Any] | None:
        """What was noted with the newest checkpoint that says so."""
        for env_steps in self.steps()[::-1]:
            try:
                return _manifest(self.path(env_steps))["notes"]
            except Damaged:
                continue
        return None

    def _write(
        self, path: Path, state: PyTree, env_steps: int, score: float | None, notes: Mapping[str, Any]
    ) -> Path:
        leaves, arrays = describe(state), numbers(state)
        partial = self.folder / f"{PARTIAL}{path.name}"
        if team.leads():
            self.folder.mkdir(exist_ok=True)
            self._clear_partial()
            _check_space(self.folder, sum(array.nbytes for array in arrays))
            partial.mkdir()
        team.wait(f"begin {path.name}")
        try:
            _write_arrays(partial / "arrays", arrays)
            if team.leads():
                manifest = {
                    "env_steps": env_steps,
                    "score": score,
                    "notes": notes,
                    "leaves": [asdict(leaf) for leaf in leaves],
                    "files": _sums(partial),
                }
                atomic.write(partial / "manifest.json", json.dumps(manifest))
                if path.exists():  # it was read as damaged, or the run would not be here again
                    os.replace(path, self.folder / f"{PARTIAL}old-{path.name}")
                os.replace(partial, path)
                atomic.sync(self.folder)
            team.wait(f"end {path.name}")
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if atomic.is_full_disk(error):
                raise atomic.DiskFull(f"no space left for a checkpoint in {self.folder}") from error
            raise
        if team.leads():
            self._clear_partial()
        return path

    def _prune(self, newest: int) -> None:
        """Later ones than the newest go too: they were damaged, or the run would have gone on from there."""
        steps = [step for step in self.steps() if step <= newest]
        best = max(steps, key=lambda step: (self._score(step), step))
        for step in set(self.steps()) - {*steps[-self.keep :], best}:
            # Renamed first: a removal that is cut short must not look like a damaged checkpoint.
            gone = self.folder / f"{PARTIAL}old-{self.path(step).name}"
            os.replace(self.path(step), gone)
            shutil.rmtree(gone)

    def _score(self, env_steps: int) -> float:
        try:
            score = _manifest(self.path(env_steps))["score"]
        except Damaged:
            return -np.inf
        return -np.inf if score is None else score

    def _clear_partial(self) -> None:
        for left_over in self.folder.glob(f"{PARTIAL}*"):
            shutil.rmtree(left_over)


def read(path: Path, like: PyTree, shardings: PyTree | None = None) -> PyTree:
    """The state of one checkpoint, of whatever name."""
    manifest = _manifest(path)
    _check_sums(path, manifest["files"])
    leaves = [Leaf(**{**leaf, "shape": tuple(leaf["shape"])}) for leaf in manifest["leaves"]]
    refuse_mismatch(leaves, like)
    try:
        arrays = _read_arrays(path / "arrays", leaves)
    except Exception as error:  # orbax and tensorstore raise many kinds
        raise Damaged(f"{path.name} cannot be read ({type(error).__name__})") from error
    return from_host(like, leaves, arrays, shardings)


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        return {name: manifest[name] for name in ("env_steps", "score", "notes", "leaves", "files")}
    except (OSError, ValueError, KeyError, TypeError):
        raise Damaged(f"{path.name} has no readable manifest.json") from None


def _check_space(folder: Path, wanted: int) -> None:
    """Before orbax begins: where it runs out of space, threads of its own print their tracebacks."""
    free = shutil.disk_usage(folder).free
    if free < wanted * SPARE:
        raise atomic.DiskFull(
            f"no space left for a checkpoint in {folder}: it takes {wanted / 1e6:,.0f} MB, {free / 1e6:,.0f} are free"
        )


def _write_arrays(path: Path, arrays: list[Any]) -> None:
    # Orbax refuses arrays without elements; their shape in the manifest says all of them.
    named = {f"{index:05}": array for index, array in enumerate(arrays) if array.size}
    with _orbax() as checkpointer:
        checkpointer.save(path.absolute(), args=ocp.args.PyTreeSave(named))


def _read_arrays(path: Path, leaves: list[Leaf]) -> list[np.ndarray]:
    named = {
        f"{index:05}": ocp.RestoreArgs(np.ndarray) for index, leaf in enumerate(leaves) if all(leaf.shape)
    }
    with _orbax() as checkpointer:
        stored = checkpointer.restore(path.absolute(), args=ocp.args.PyTreeRestore(restore_args=named))
    return [
        np.asarray(stored[f"{index:05}"]) if all(leaf.shape) else np.zeros(leaf.shape, leaf.dtype)
        for index, leaf in enumerate(leaves)
    ]


@contextmanager
def _orbax() -> Iterator[ocp.Checkpointer]:
    """Without compression, which takes most of the time of a save, and without its log.

    For an error that it raises too, the log has pages, which would run across the display.
    """
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_compression=False)) as checkpointer:
            yield checkpointer
    finally:
        logger.setLevel(level)


def _sums(folder: Path) -> dict[str, list[int]]:
    """Size and CRC-32 of every file, by its path in the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): [file.stat().st_size, _crc(file)] for file in files}


def _check_sums(folder: Path, wanted: Mapping[str, list[int]]) -> None:
    for name, (size, crc) in wanted.items():
        file = folder / name
        if not file.is_file():
            raise Damaged(f"{folder.name} lacks {name}")
        if file.stat().st_size != size:
            raise Damaged(f"{name} of {folder.name} has {file.stat().st_size:,} bytes, not {size:,}")
        if _crc(file) != crc:
            raise Damaged(f"{name} of {folder.name} does not match its checksum")


def _crc(file: Path) -> int:
    crc = 0
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            crc = zlib.crc32(block, crc)
    return crc
