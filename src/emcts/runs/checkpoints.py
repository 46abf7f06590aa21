"""Checkpoints: complete training states in a folder, verified when they are read.

A checkpoint is a folder `step-<env steps>` with the arrays, written by orbax, and `manifest.json`, which describes the
arrays and has the checksum of every file, and of itself. Arrays are written without their blocks of zeros: most of a
replay is empty for long. A checkpoint is written under another name and renamed when it is complete. Whatever goes
wrong when one is read is damage, after which an older one is read. Where several processes train a run, each writes
the shards of its devices, and the leader does everything else. One that is written in the middle of a chunk of training
has the arrays of the chunk too, so that the chunk can be continued.
"""

import json
import logging
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NotRequired, TypedDict

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from emcts.runs import process_group
from emcts.runs.config import RunIdentity
from emcts.runs.files import DiskFull, is_full_disk, make_folder, remove, sync, write_atomically
from emcts.runs.leaves import Leaf, arrays_of, describe, from_host, refuse_mismatch
from emcts.runs.stored_json import check, from_json, read_bounded, to_json
from emcts.runs.zero_blocks import Packed, pack, unpack

PARTIAL = ".partial-"
STEP = re.compile(r"step-([0-9]{12,18})")
BLOCK = 1 << 20
MAX_MANIFEST_BYTES = 1 << 26
STATE, CHUNK = "state", "chunk"  # the beginnings of the names of arrays
SPARE = 1.1  # of the bytes of the arrays, for what orbax writes around them


ToStore = jax.Array | np.ndarray | Packed


class Damaged(ValueError):
    """The files of a checkpoint are not those that were written."""


class StoredLeaf(TypedDict):
    """A `Leaf` in JSON. An array of which only some blocks are stored has their number."""

    path: str
    shape: list[int]
    dtype: str
    key_type: str | None
    blocks: NotRequired[int]


class Manifest(TypedDict):
    """Describes a checkpoint. `files` has the size and checksum of each file."""

    env_steps: int
    score: float | None
    identity: RunIdentity | None
    leaves: list[StoredLeaf]
    files: dict[str, list[int]]


class SealedManifest(TypedDict):
    """The content of `manifest.json`: the manifest and its own checksum."""

    checksum: int
    manifest: Manifest


@dataclass(frozen=True)
class Template:
    """The expected structure of what is read, as a tree or its shapes. `shardings` place the arrays."""

    like: PyTree
    shardings: PyTree | None = None


@dataclass(frozen=True)
class Restored:
    """A state from a checkpoint, and the problem of each damaged checkpoint that was tried before.

    `chunk` is the chunk that had begun; None if none had.
    """

    state: PyTree
    env_steps: int
    damaged: tuple[str, ...]
    chunk: PyTree | None = None


@dataclass(frozen=True)
class StoredArrays:
    """Some arrays of a state, by their names without the `state` they begin with."""

    env_steps: int
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Checkpoints:
    """Keeps the last `keep` checkpoints, and the one of highest score."""

    folder: Path
    keep: int = 2

    def steps(self) -> list[int]:
        """Returns the env steps of the checkpoints in order, damaged or not."""
        names = (STEP.fullmatch(path.name) for path in self.folder.glob("step-*"))
        return sorted(int(name[1]) for name in names if name and name[0] == self.path(int(name[1])).name)

    def path(self, env_steps: int) -> Path:
        return self.folder / f"step-{env_steps:012}"

    def save(
        self,
        state: PyTree,
        env_steps: int,
        score: float | None = None,
        identity: RunIdentity | None = None,
        chunk: PyTree | None = None,
    ) -> Path:
        """Adds a checkpoint, then removes all but the last ones and the best. Without a score it is never the best.

        `chunk` is what has begun of a chunk of training, if one has.
        """
        path = self._write(self.path(env_steps), state, env_steps, score, identity, chunk)
        if process_group.is_leader():
            self._prune(env_steps)
        return path

    def save_broken(self, state: PyTree, env_steps: int) -> Path:
        """Saves a state for inspection, which `restore` ignores."""
        return self._write(self.folder / f"broken-{env_steps:012}", state, env_steps, None, None)

    def restore(
        self,
        like: PyTree,
        *,
        best: bool = False,
        shardings: PyTree | None = None,
        chunk: Callable[[], Template] | None = None,
    ) -> Restored | None:
        """Returns the newest intact state, or the best; None if none was ever saved.

        `like` is a state or its shapes: the expected structure. After a damaged checkpoint the next older one is tried;
        an intact checkpoint of other shapes is an error. `shardings` place the arrays, wherever they were before.
        A chunk is read as well if its template is given, which is made only where it is needed.
        """
        steps = self.steps()[::-1]
        if best:
            steps.sort(key=self._score, reverse=True)
        damaged: list[str] = []
        for env_steps in steps:
            try:
                state, begun = _read(self.path(env_steps), Template(like, shardings), chunk)
            except Damaged as problem:
                damaged.append(str(problem))
                continue
            return Restored(state, env_steps, tuple(damaged), begun)
        if damaged:
            raise ValueError(
                f"no checkpoint in {self.folder} can be read: {'; '.join(damaged)}. Copy one back from a backup, "
                "or start another run with the settings in config.json"
            )
        return None

    def arrays(self, parts: tuple[str, ...]) -> StoredArrays | None:
        """Returns the arrays of the newest intact state whose names begin with one of the parts; None if there is none.

        Nothing is compared with a state: whoever reads them checks names, shapes and types.
        """
        for env_steps in self.steps()[::-1]:
            try:
                found = _read_some(self.path(env_steps), tuple(STATE + part for part in parts))
            except Damaged:
                continue
            return StoredArrays(env_steps, found)
        return None

    def identity(self) -> RunIdentity | None:
        """Returns the run that the newest checkpoint with a readable manifest belongs to."""
        for env_steps in self.steps()[::-1]:
            try:
                return _manifest(self.path(env_steps))["identity"]
            except Damaged:
                continue
        return None

    def _write(
        self,
        path: Path,
        state: PyTree,
        env_steps: int,
        score: float | None,
        identity: RunIdentity | None,
        chunk: PyTree | None = None,
    ) -> Path:
        leaves = [*describe(state, STATE), *describe(chunk, CHUNK)]
        arrays = list(map(_to_store, leaves, arrays_of((state, chunk))))
        partial = self.folder / f"{PARTIAL}{path.name}"
        if process_group.is_leader():
            make_folder(self.folder.parent, self.folder.name)
            self._clear_partial()
            _check_space(self.folder, sum(map(_nbytes, arrays)))
            partial.mkdir()
        process_group.wait_for_all(f"begin {path.name}")
        try:
            _write_arrays(partial / "arrays", arrays)
            if process_group.is_leader():
                manifest: Manifest = {
                    "env_steps": env_steps,
                    "score": score,
                    "identity": identity,
                    "leaves": list(map(_stored, leaves, arrays)),
                    "files": _sums(partial),
                }
                write_atomically(partial / "manifest.json", _sealed(manifest))
                if path.exists() or path.is_symlink():  # damaged, else the run would have continued after it
                    os.replace(path, self.folder / f"{PARTIAL}old-{path.name}")
                os.replace(partial, path)
                sync(self.folder)
            process_group.wait_for_all(f"end {path.name}")
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if is_full_disk(error):
                raise DiskFull(f"no space left for a checkpoint in {self.folder}") from error
            raise
        if process_group.is_leader():
            self._clear_partial()
        return path

    def _prune(self, newest: int) -> None:
        """Also removes checkpoints after the newest: they are damaged, else the run would have continued after them."""
        steps = [step for step in self.steps() if step <= newest]
        best = max(steps, key=lambda step: (self._score(step), step))
        for step in set(self.steps()) - {*steps[-self.keep :], best}:
            # Renamed first, so that an interrupted removal does not look like a damaged checkpoint.
            gone = self.folder / f"{PARTIAL}old-{self.path(step).name}"
            os.replace(self.path(step), gone)
            remove(gone)

    def _score(self, env_steps: int) -> float:
        try:
            score = _manifest(self.path(env_steps))["score"]
        except Damaged:
            return -np.inf
        return -np.inf if score is None else score

    def _clear_partial(self) -> None:
        for left_over in self.folder.glob(f"{PARTIAL}*"):
            remove(left_over)


def read(path: Path, like: PyTree, shardings: PyTree | None = None) -> PyTree:
    """Returns the state of the checkpoint in a folder of any name."""
    return _read(path, Template(like, shardings), None)[0]


def _read(path: Path, state: Template, chunk: Callable[[], Template] | None) -> tuple[PyTree, PyTree | None]:
    with _damage(path):
        manifest = _manifest(path)
        _check_sums(path, manifest["files"])
        leaves = [
            Leaf(leaf["path"], tuple(leaf["shape"]), leaf["dtype"], leaf["key_type"])
            for leaf in manifest["leaves"]
        ]
    begun = [leaf for leaf in leaves if leaf.path.startswith(CHUNK)]
    wanted = {STATE: (state, [leaf for leaf in leaves if leaf not in begun])}
    if begun and chunk is not None:
        wanted[CHUNK] = (chunk(), begun)
    for name, (template, found) in wanted.items():
        refuse_mismatch(found, template.like, name)
    with _damage(path):
        read = _read_arrays(path / "arrays", manifest["leaves"])
        arrays = dict(zip((leaf.path for leaf in leaves), read, strict=True))
        trees = {
            name: from_host(template.like, found, [arrays[leaf.path] for leaf in found], template.shardings)
            for name, (template, found) in wanted.items()
        }
    return trees[STATE], trees.get(CHUNK)


def _read_some(path: Path, beginnings: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Reads all arrays, since orbax reads a tree as a whole, and keeps some."""
    with _damage(path):
        manifest = _manifest(path)
        _check_sums(path, manifest["files"])
        leaves = manifest["leaves"]
        arrays = zip(leaves, _read_arrays(path / "arrays", leaves), strict=True)
        return {
            leaf["path"].removeprefix(STATE): array
            for leaf, array in arrays
            if leaf["path"].startswith(beginnings)
        }


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Makes every error damage: JSON, orbax, tensorstore and the file system raise many kinds."""
    try:
        yield
    except (Damaged, MemoryError):
        raise
    except Exception as error:
        raise Damaged(f"{path.name} cannot be read ({type(error).__name__})") from error


def _manifest(path: Path) -> Manifest:
    """Reads a manifest. One of a version that wrote no checksum is read too."""
    try:
        stored = from_json(read_bounded(path / "manifest.json", MAX_MANIFEST_BYTES))
        if isinstance(stored, dict) and "leaves" in stored:
            check(stored, Manifest)
            return stored  # type: ignore[return-value]
        check(stored, SealedManifest)
        if stored["checksum"] != _checksum(stored["manifest"]):
            raise ValueError("does not match its checksum")
    except ValueError as error:
        raise Damaged(f"manifest.json of {path.name} {error}") from error
    except OSError as error:
        raise Damaged(f"manifest.json of {path.name} cannot be read ({error.strerror})") from error
    return stored["manifest"]


def _sealed(manifest: Manifest) -> str:
    # As it is read back: a number that is not finite becomes null.
    content = json.loads(to_json(manifest))
    return to_json({"checksum": _checksum(content), "manifest": content})


def _checksum(manifest: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def _stored(leaf: Leaf, array: ToStore) -> StoredLeaf:
    stored: StoredLeaf = {
        "path": leaf.path,
        "shape": list(leaf.shape),
        "dtype": leaf.dtype,
        "key_type": leaf.key_type,
    }
    if isinstance(array, Packed):
        stored["blocks"] = len(array.places)
    return stored


def _to_store(leaf: Leaf, array: jax.Array | np.ndarray) -> ToStore:
    """Returns an array on the host, packed if it has many zeros; where several processes have parts of it, as it is."""
    if not process_group.is_single() or leaf.key_type is not None:
        return array
    on_host = np.asarray(array)
    packed = pack(on_host)
    return on_host if packed is None else packed


def _nbytes(array: ToStore) -> int:
    return array.blocks.nbytes + array.places.nbytes if isinstance(array, Packed) else array.nbytes


def _check_space(folder: Path, wanted: int) -> None:
    """Raises an error before orbax starts, whose threads print tracebacks where they run out of space."""
    free = shutil.disk_usage(folder).free
    if free < wanted * SPARE:
        raise DiskFull(
            f"no space left for a checkpoint in {folder}: it takes {wanted / 1e6:,.0f} MB, {free / 1e6:,.0f} are free"
        )


def _write_arrays(path: Path, arrays: Sequence[ToStore]) -> None:
    named: dict[str, jax.Array | np.ndarray] = {}
    for index, array in enumerate(arrays):
        if isinstance(array, Packed):
            named |= {f"{index:05}-blocks": array.blocks, f"{index:05}-places": array.places}
        else:
            named[f"{index:05}"] = array
    # Orbax refuses arrays without elements; the manifest has their shapes.
    named = {name: array for name, array in named.items() if array.size}
    with _orbax() as checkpointer:
        checkpointer.save(path.absolute(), args=ocp.args.PyTreeSave(named))


def _read_arrays(path: Path, leaves: Sequence[StoredLeaf]) -> list[np.ndarray]:
    names = [name for index, leaf in enumerate(leaves) for name in _names(index, leaf)]
    named = dict.fromkeys(names, ocp.RestoreArgs(np.ndarray))
    with _orbax() as checkpointer:
        stored = checkpointer.restore(path.absolute(), args=ocp.args.PyTreeRestore(restore_args=named))
    return [
        _read_array(leaf, [np.asarray(stored[name]) for name in _names(index, leaf)])
        for index, leaf in enumerate(leaves)
    ]


def _names(index: int, leaf: StoredLeaf) -> list[str]:
    """Returns the arrays that orbax has of a leaf."""
    if "blocks" in leaf:
        return [f"{index:05}-blocks", f"{index:05}-places"] if leaf["blocks"] else []
    return [f"{index:05}"] if all(leaf["shape"]) else []


def _read_array(leaf: StoredLeaf, parts: Sequence[np.ndarray]) -> np.ndarray:
    shape = tuple(leaf["shape"])
    if not parts:
        return np.zeros(shape, leaf["dtype"])
    return unpack(Packed(*parts), shape, leaf["dtype"]) if "blocks" in leaf else parts[0]


@contextmanager
def _orbax() -> Iterator[ocp.Checkpointer]:
    """Opens orbax without compression, which takes most of the time of a save, and without its log.

    For an error that it also raises, it logs pages, which would break the display.
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
    """Returns the size and CRC-32 of every file, by its path in the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): [file.stat().st_size, _crc(file)] for file in files}


def _check_sums(folder: Path, wanted: Mapping[str, list[int]]) -> None:
    for name, (size, crc) in wanted.items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise Damaged(f"the manifest of {folder.name} names a file outside of it")
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
