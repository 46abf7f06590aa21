"""The cache of compiled programs: a second command with the same settings spares most of the compilation.

It is in the user's cache folder. `EMCTS_CACHE=0` turns it off, and `JAX_COMPILATION_CACHE_DIR` names another folder.
"""

import hashlib
import os
import platform
import stat
from contextlib import suppress
from pathlib import Path

import jax

SWITCH, OF_JAX = "EMCTS_CACHE", "JAX_COMPILATION_CACHE_DIR"
FROM_SECONDS = 1.0  # of a compilation that is stored
MOST_BYTES = 2**30  # of the folder, when a command starts


def use_compilation_cache() -> Path | None:
    """Turns the cache on for this process and those that it starts. Returns its folder; None if there is none."""
    if os.environ.get(SWITCH, "1") == "0" or OF_JAX in os.environ:
        return None
    folder = cache_folder() / _machine()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_oldest(folder, MOST_BYTES)
    except OSError:  # no home, or one that cannot be written: compile anew
        return None
    if not _is_private(folder):
        return None
    os.environ[OF_JAX] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(FROM_SECONDS))
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", FROM_SECONDS)
    return folder


def cache_folder() -> Path:
    """Returns the folder of this package below the user's cache folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "emcts"


def _machine() -> str:
    """Programs are compiled for one kind of processor, and a home may be shared by several."""
    described = [platform.machine(), platform.processor(), jax.__version__]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        described += [line for line in lines if line.startswith(("flags", "Features"))][:1]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]


def _is_private(folder: Path) -> bool:
    """Whether nobody else can write there: what is in the folder is run."""
    found = folder.lstat()
    owned = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISDIR(found.st_mode) and owned and not found.st_mode & 0o022


def _remove_oldest(folder: Path, most_bytes: int) -> None:
    """Keeps the files that were used last."""
    files = [(file.stat(), file) for file in folder.iterdir() if file.is_file()]
    total = sum(found.st_size for found, _ in files)
    for found, file in sorted(files, key=lambda one: max(one[0].st_mtime, one[0].st_atime)):
        if total <= most_bytes:
            break
        with suppress(FileNotFoundError):  # another command removed it
            file.unlink()
        total -= found.st_size
