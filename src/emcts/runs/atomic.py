"""Files that are there in full or not at all, whatever moment the process is killed at."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(OSError):
    """No space left for a file of a run. Nothing that was complete before is harmed."""


def write(file: Path, content: bytes | str) -> Path:
    """Puts the content in place of what the file held."""
    data = content.encode() if isinstance(content, str) else content
    return replace(file, lambda temporary: temporary.write_bytes(data))


def replace(file: Path, make: Callable[[Path], object]) -> Path:
    """Lets `make` write a temporary file beside it, which then takes its name."""
    temporary = file.with_name(f".{file.name}.partial")
    try:
        make(temporary)
        sync(temporary)
        os.replace(temporary, file)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if is_full_disk(error):
            raise DiskFull(f"no space left to write {file}") from error
        raise
    sync(file.parent)
    return file


def sync(path: Path) -> None:
    """Waits until a file or the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_full_disk(error: BaseException) -> bool:
    """Whether there was no space, also where a library tells it as text alone."""
    if isinstance(error, OSError):
        return isinstance(error, DiskFull) or error.errno in FULL
    told = re.search(r"os_error_code='(\d+)'", str(error))
    return told is not None and int(told[1]) in FULL
