"""A sweep whose runs other processes train, as the folders of the runs tell it."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, runtime_checkable

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from emcts.experiments.progress import Tally
from emcts.experiments.sweep import Job
from emcts.runs.logging.display import Clock, RunProgress
from emcts.runs.logging.metrics import LatestMetrics, with_lines

LINE_SECONDS = 30.0


@dataclass
class Watched:
    """One run of a sweep, of which it is the one of that number."""

    number: int
    job: Job
    latest: LatestMetrics = field(default_factory=dict)
    standing: RunProgress | None = None

    def __post_init__(self) -> None:
        self._locked_before = self._locked = _changed(self.job.path / ".lock")
        self._clock = Clock()
        self._file, self._read = -1, 0

    @property
    def begun(self) -> bool:
        """Whether a process has taken it since this watch began."""
        return _changed(self.job.path / ".lock") != self._locked_before

    def changed_hands(self) -> bool:
        """Whether another process has taken it from one that had, since this was last asked."""
        before, self._locked = self._locked, _changed(self.job.path / ".lock")
        return before not in (self._locked_before, self._locked)

    def look(self) -> None:
        """Reads the metrics that are new. A run that goes on from a checkpoint begins another file."""
        try:
            with (self.job.path / "metrics.jsonl").open("rb") as file:
                number = os.fstat(file.fileno()).st_ino
                if number != self._file:
                    self.latest, self._clock, self._file, self._read = {}, Clock(), number, 0
                file.seek(self._read)
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        self._read += len(whole) + len(end)
        if whole:
            self.latest = with_lines(self.latest, [json.loads(line) for line in whole.splitlines()])
            steps = max(int(line["env_steps"]) for line in self.latest.values())
            self.standing = self._clock.progress(steps, self.job.total_env_steps, self.latest)

    def count(self, tally: Tally) -> None:
        """Enters what was read."""
        if self.standing is None:
            return
        tally.done[self.number] = min(self.standing.env_steps * len(self.job.seeds), self.job.work)
        if self.standing.steps_per_second is not None:
            tally.rates[self.number] = self.standing.steps_per_second


@runtime_checkable
class Watch(Protocol):
    """Shows how a sweep stands, and says what happens besides. Used as a context."""

    def __enter__(self) -> "Watch": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def show(self, tally: Tally, running: Sequence[Watched]) -> None: ...

    def say(self, text: str) -> None: ...


@dataclass
class LineWatch:
    """Now and then a line for the sweep, and one for each run: for files and pipes."""

    write: Callable[[str], None]
    seconds: float = LINE_SECONDS
    shown_at: float = field(default_factory=time.monotonic)

    def __enter__(self) -> "LineWatch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def show(self, tally: Tally, running: Sequence[Watched]) -> None:
        if time.monotonic() - self.shown_at < self.seconds:
            return
        self.shown_at = time.monotonic()
        self.write(tally.line)
        for run in running:
            cells = run.standing.cells() if run.standing else {"compiling": "..."}
            self.write(
                f"  {run.job.path.name}: " + " | ".join(f"{name} {text}" for name, text in cells.items())
            )

    def say(self, text: str) -> None:
        self.write(text)


class LiveWatch:
    """A table that stays in place, with a line for each run; what is said scrolls by above it."""

    def __init__(self, console: Console) -> None:
        self.live = Live(Text("starting ..."), console=console, refresh_per_second=2)

    def __enter__(self) -> "LiveWatch":
        self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.live.stop()

    def show(self, tally: Tally, running: Sequence[Watched]) -> None:
        table = Table()
        table.add_column("run")
        columns = ("steps", "return", "first reward", "solved", "steps/s", "left")
        for column in columns:
            table.add_column(column, justify="right")
        for run in running:
            cells = run.standing.cells() if run.standing else {"steps": "compiling ..."}
            table.add_row(run.job.path.name, *(cells.get(column, "") for column in columns))
        self.live.update(Group(table, Text(tally.line)), refresh=True)

    def say(self, text: str) -> None:
        self.live.console.print(text, markup=False, highlight=False)


def watch_on(console: Console) -> Watch:
    """Live on a terminal, elsewhere lines."""
    if console.is_terminal:
        return LiveWatch(console)
    return LineWatch(lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True))


def _changed(file: Path) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None
