"""Monitoring of runs that other processes train, through the files of their folders."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from emcts.experiments.sweeps.job import Job
from emcts.experiments.sweeps.progress import SweepProgress
from emcts.runs.logging.display import Clock, LiveOutput, Output, RunProgress, line_writer
from emcts.runs.logging.metrics import LatestMetrics, MetricsLine, with_lines
from emcts.runs.stored_json import JsonLines

LINE_SECONDS = 30.0


@dataclass
class MonitoredRun:
    """A run that another process trains, by its index in the sweep."""

    index: int
    job: Job
    latest: LatestMetrics = field(default_factory=dict)
    progress: RunProgress | None = None

    def __post_init__(self) -> None:
        self._lock_at_start = self._lock = _modified(self.job.path / ".lock")
        self._clock = Clock()
        self._inode, self._offset = -1, 0

    @property
    def has_begun(self) -> bool:
        """Whether a process has locked the run since monitoring began."""
        return _modified(self.job.path / ".lock") != self._lock_at_start

    def has_new_worker(self) -> bool:
        """Returns whether a second process has locked the run since the last call."""
        before, self._lock = self._lock, _modified(self.job.path / ".lock")
        return before not in (self._lock_at_start, self._lock)

    def read(self) -> None:
        """Reads new metrics. A run that resumes from a checkpoint begins another file."""
        lines: JsonLines[MetricsLine] = JsonLines(self.job.path / "metrics.jsonl", MetricsLine)
        try:
            with lines.file.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode != self._inode:
                    self.latest, self._clock, self._inode, self._offset = {}, Clock(), inode, 0
                file.seek(self._offset)
                complete, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        self._offset += len(complete) + len(end)
        if complete:
            self.latest = with_lines(self.latest, lines.parse(complete))
            steps = max(int(line["env_steps"]) for line in self.latest.values())
            self.progress = self._clock.progress(steps, self.job.total_env_steps, self.latest)

    def update(self, sweep: SweepProgress) -> None:
        """Adds the metrics that were read to the progress of the sweep."""
        if self.progress is not None:
            sweep.update(self.index, len(self.job.seeds), self.progress)

    def cells(self) -> dict[str, str]:
        return {"steps": "compiling ..."} if self.progress is None else self.progress.cells()


class Monitor(Output):
    """Shows the progress of a sweep and of its runs. This one shows nothing."""

    def show(self, progress: SweepProgress, running: Sequence[MonitoredRun]) -> None: ...


@dataclass
class LineMonitor(Monitor):
    """Prints a line for the sweep and one for each run at intervals: for files and pipes."""

    write: Callable[[str], None]
    seconds: float = LINE_SECONDS
    shown_at: float = field(default_factory=time.monotonic)

    def show(self, progress: SweepProgress, running: Sequence[MonitoredRun]) -> None:
        if time.monotonic() - self.shown_at < self.seconds:
            return
        self.shown_at = time.monotonic()
        self.write(progress.line)
        for run in running:
            cells = " | ".join(f"{name} {text}" for name, text in run.cells().items())
            self.write(f"  {run.job.path.name}: {cells}")

    def message(self, text: str) -> None:
        self.write(text)


class LiveMonitor(LiveOutput, Monitor):
    """Shows a table that stays in place, with a row for each run; messages scroll by above it."""

    def show(self, progress: SweepProgress, running: Sequence[MonitoredRun]) -> None:
        table = Table()
        table.add_column("run")
        columns = ("steps", "return", "first reward", "solved", "steps/s", "left")
        for column in columns:
            table.add_column(column, justify="right")
        for run in running:
            cells = run.cells()
            table.add_row(run.job.path.name, *(cells.get(column, "") for column in columns))
        self.update(Group(table, Text(progress.line)))


def monitor_for(console: Console) -> Monitor:
    """Returns a live table on a terminal, elsewhere lines."""
    if console.is_terminal:
        return LiveMonitor(console, "starting ...", refresh_per_second=2)
    return LineMonitor(line_writer(console))


def _modified(file: Path) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None
