"""JSON lines that only grow, except that a resumed run cuts away what it will do again."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emcts.runs import atomic

Line = dict[str, Any]


@dataclass(frozen=True)
class Lines:
    """One JSON object a line. A last line without its end was torn by a crash, and does not count."""

    file: Path

    def append(self, lines: Iterable[Line]) -> None:
        """Adds lines, and waits until they are on the disk."""
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        if not text:
            return
        with self.file.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[Line]:
        if not self.file.exists():
            return []
        whole = self.file.read_bytes().rpartition(b"\n")[0]
        return [self._parse(number, line) for number, line in enumerate(whole.splitlines(), 1)]

    def cut(self, env_steps: int) -> list[Line]:
        """Drops the lines after a step, and gives those that stay."""
        kept = [line for line in self.read() if line["env_steps"] <= env_steps]
        if self.file.exists():
            atomic.write(self.file, "".join(json.dumps(line) + "\n" for line in kept))
        return kept

    def _parse(self, number: int, line: bytes) -> Line:
        try:
            return json.loads(line)
        except ValueError:
            raise ValueError(
                f"{self.file}, line {number} is not JSON: the file was changed or damaged; remove that line"
            ) from None
