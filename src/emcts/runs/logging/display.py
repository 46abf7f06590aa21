"""The display of a run while it trains: a live table on a terminal, lines at intervals elsewhere."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from emcts.runs import process_group
from emcts.runs.logging.metrics import LatestMetrics, Value, largest, mean

OutputT = TypeVar("OutputT", bound="Output")

LINE_SECONDS = 5.0
RATE_CHUNKS = 10  # over which the speed is measured
OPTIONAL = {"states": "states_discovered", "table full": "table_occupancy", "uncertainty": "uncertainty"}
"""Columns that are shown only if their metric was reported."""


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, and how fast. Speeds are None until a chunk without compilation was timed."""

    env_steps: int
    total_env_steps: int
    latest: LatestMetrics
    steps_per_second: float | None  # of all seeds together
    seconds_left: float | None

    @property
    def share(self) -> float:
        return min(self.env_steps / max(self.total_env_steps, 1), 1.0)

    def cells(self) -> dict[str, str]:
        """Returns names and values to show, as means over seeds."""
        seeds = len(self.latest)
        reached = [line["first_reward_step"] for line in self.latest.values() if "first_reward_step" in line]
        solved = sum("solved_step" in line for line in self.latest.values())
        shown = {
            "steps": f"{self.env_steps:,} of {self.total_env_steps:,}",
            "return": _number(mean(self.latest, "return")),
            "first reward": f"{np.mean(reached):,.0f} ({len(reached)} of {seeds})" if reached else "-",
            "solved": f"{solved} of {seeds}",
            "states": _number(mean(self.latest, "states_discovered")),
            "table full": _share(largest(self.latest, "table_occupancy")),
            "uncertainty": _number(mean(self.latest, "uncertainty")),
            "steps/s": _number(self.steps_per_second),
            "left": duration(self.seconds_left),
        }
        missing = {name for name, metric in OPTIONAL.items() if mean(self.latest, metric) is None}
        return {name: text for name, text in shown.items() if name not in missing}

    def line(self) -> str:
        return " | ".join(f"{name} {text}" for name, text in self.cells().items())


@dataclass
class Clock:
    """Computes the speed and the time left from finished chunks. The first chunk compiles, and is not counted."""

    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RATE_CHUNKS + 1))

    def progress(self, env_steps: int, total: int, latest: LatestMetrics) -> RunProgress:
        self.marks.append((time.monotonic(), env_steps))
        (began, first), (now, last) = self.marks[0], self.marks[-1]
        if now <= began or last <= first:
            return RunProgress(env_steps, total, latest, None, None)
        speed = (last - first) / (now - began)
        return RunProgress(env_steps, total, latest, speed * len(latest), max(total - env_steps, 0) / speed)


class Output:
    """Where a command prints messages, opened and closed as a context. This one prints nothing."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def message(self, text: str) -> None:
        """Prints a message."""

    def __enter__(self: OutputT) -> OutputT:
        self.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class LiveOutput(Output):
    """Shows something that stays in place on a terminal; messages scroll above it."""

    def __init__(self, console: Console, first: str, refresh_per_second: int = 4) -> None:
        self.live = Live(Text(first), console=console, refresh_per_second=refresh_per_second)

    def open(self) -> None:
        self.live.start()

    def close(self) -> None:
        self.live.stop()

    def message(self, text: str) -> None:
        self.live.console.print(text, markup=False, highlight=False)

    def update(self, shown: RenderableType) -> None:
        self.live.update(shown, refresh=True)


class Display(Output):
    """Shows the progress of a run. This one shows nothing: for a process that is not the leader of its group."""

    def show(self, progress: RunProgress) -> None: ...


class LineDisplay(Display):
    """Prints lines, at most one in some seconds, and always the last: for files and pipes."""

    def __init__(self, write: Callable[[str], None], seconds: float = LINE_SECONDS) -> None:
        self.write, self.seconds = write, seconds
        self.shown_at = -np.inf
        self.pending: RunProgress | None = None

    def show(self, progress: RunProgress) -> None:
        self.pending = progress
        if time.monotonic() - self.shown_at >= self.seconds:
            self.close()

    def message(self, text: str) -> None:
        self.close()
        self.write(text)

    def close(self) -> None:
        """Prints the line that is pending."""
        if self.pending is not None:
            self.write(self.pending.line())
            self.pending, self.shown_at = None, time.monotonic()


class LiveDisplay(LiveOutput, Display):
    """Shows a table and a progress bar in place."""

    def __init__(self, console: Console, title: str) -> None:
        super().__init__(console, f"{title}: compiling ...")
        self.title = title

    def show(self, progress: RunProgress) -> None:
        table = Table(title=self.title, title_justify="left")
        for name in progress.cells():
            table.add_column(name, justify="right")
        table.add_row(*progress.cells().values())
        self.update(Group(table, ProgressBar(total=1.0, completed=progress.share, width=60)))


def display_for(console: Console, title: str) -> Display:
    """Returns a live display on a terminal, else one of lines that begin with the title; none without the lead."""
    if not process_group.is_leader():
        return Display()
    if console.is_terminal:
        return LiveDisplay(console, title)
    write = line_writer(console)
    write(title)
    return LineDisplay(write)


def line_writer(console: Console) -> Callable[[str], None]:
    """Returns a function that prints one line as it is."""
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float | None, unknown: str = "-") -> str:
    """Formats a time as hours, minutes and seconds."""
    if seconds is None:
        return unknown
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _share(value: Value | None) -> str:
    return "-" if value is None else f"{value:.1%}"
