"""Files that survive a crash: replaced as a whole or not at all, and JSON lines."""

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

LineT = TypeVar("LineT", bound=Mapping[str, Any])

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(OSError):
    """No space is left for a file of a run. Files that were complete before are intact."""


def write_atomically(file: Path, content: bytes | str) -> Path:
    """Replaces the content of a file."""
    data = content.encode() if isinstance(content, str) else content
    return replace_atomically(file, lambda temporary: temporary.write_bytes(data))


def replace_atomically(file: Path, make: Callable[[Path], object]) -> Path:
    """Lets `make` write a temporary file in the same folder, then renames it to `file`."""
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


@dataclass(frozen=True)
class JsonLines(Generic[LineT]):
    """A file of one JSON object per line, each with its `env_steps`.

    A last line without a line feed was cut short by a crash, and is ignored.
    """

    file: Path

    def append(self, lines: Iterable[LineT]) -> None:
        """Adds lines, and waits until they are on the disk."""
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        if not text:
            return
        with self.file.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[LineT]:
        if not self.file.exists():
            return []
        complete = self.file.read_bytes().rpartition(b"\n")[0]
        return [self._parse(number, line) for number, line in enumerate(complete.splitlines(), 1)]

    def truncate(self, env_steps: int) -> list[LineT]:
        """Removes the lines after a step, which a resumed run writes again, and returns the others."""
        kept = [line for line in self.read() if line["env_steps"] <= env_steps]
        if self.file.exists():
            write_atomically(self.file, "".join(json.dumps(line) + "\n" for line in kept))
        return kept

    def _parse(self, number: int, line: bytes) -> LineT:
        try:
            return json.loads(line)
        except ValueError:
            raise ValueError(
                f"{self.file}, line {number} is not JSON: the file was changed or damaged; remove that line"
            ) from None
