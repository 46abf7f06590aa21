"""Files that survive a crash and a stranger: replaced as a whole or not at all, and never written through a link.

A run's folder may come from someone else. What the user named is followed wherever it leads; inside it, a symbolic
link where a file or folder of the run belongs is refused, or replaced itself, but its target is never touched.
"""

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)  # of file systems without hard links
PARTIAL = ".partial"


class DiskFull(OSError):
    """No space is left for a file of a run. Files that were complete before are intact."""


def write_atomically(file: Path, content: bytes | str) -> Path:
    """Replaces the content of a file."""
    return replace_atomically(file, lambda stream: stream.write(_bytes(content)))


def replace_atomically(file: Path, make: Callable[[IO[bytes]], object]) -> Path:
    """Lets `make` write a temporary file in the same folder, then renames it to `file`."""
    return _place(file, make, os.replace)


def create_exclusively(file: Path, content: bytes | str) -> Path:
    """Creates a file with its whole content; of several processes one succeeds, the others get FileExistsError."""
    return _place(file, lambda stream: stream.write(_bytes(content)), _link)


def append(file: Path, content: bytes | str) -> None:
    """Adds to the end of a file, and waits until it is on the disk."""
    with os.fdopen(open_regular(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "wb") as stream:
        stream.write(_bytes(content))
        stream.flush()
        os.fsync(stream.fileno())


def open_regular(file: Path, flags: int) -> int:
    """Opens a regular file that is no link, and returns its descriptor. Nothing is truncated."""
    try:
        # A named pipe would block until someone opens its other end.
        descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(
            f"{file} is a symbolic link, which a run does not write through: remove it"
        ) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise ValueError(f"{file} is not a regular file: remove it")


def make_folder(parent: Path, *names: str) -> Path:
    """Makes folders inside a folder, one in the other. A link in the place of one is refused."""
    for name in names:
        parent = parent / name
        if parent.is_symlink():
            raise ValueError(f"{parent} is a symbolic link, which a run does not write through: remove it")
        parent.mkdir(exist_ok=True)
    return parent


def remove(path: Path) -> None:
    """Removes a file, a folder with all that is in it, or a link but not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Removes the temporary files that killed processes left in a folder."""
    for left_over in folder.glob(f".*{PARTIAL}"):
        remove(left_over)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_full_disk(error: BaseException) -> bool:
    """Returns whether an error means that no space is left, also where a library has the code in its text only."""
    if isinstance(error, OSError):
        return isinstance(error, DiskFull) or error.errno in FULL
    code = re.search(r"os_error_code='(\d+)'", str(error))
    return code is not None and int(code[1]) in FULL


def _place(file: Path, make: Callable[[IO[bytes]], object], move: Callable[[Path, Path], object]) -> Path:
    # A name of its own: two processes may write the same file, and nobody can have put a link there.
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(6)}{PARTIAL}")
    descriptor = open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            make(stream)
            stream.flush()
            os.fsync(stream.fileno())
        move(temporary, file)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if is_full_disk(error):
            raise DiskFull(f"no space left to write {file}") from error
        raise
    sync(file.parent)
    return file


def _link(temporary: Path, file: Path) -> None:
    try:
        os.link(temporary, file, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.close(open_regular(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL))  # claims the name
        os.replace(temporary, file)
    temporary.unlink(missing_ok=True)


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
