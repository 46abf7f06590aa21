"""The display of a run while it trains: a live table on a terminal, lines at intervals elsewhere."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from emcts.runs import process_group
from emcts.runs.logging.metrics import LatestMetrics, Value, largest, mean, readable, seeds_solved

OutputT = TypeVar("OutputT", bound="Output")

LINE_SECONDS = 5.0  # at least between two lines after chunks
QUIET_SECONDS = 30.0  # at most between two lines
SLOW_SECONDS = 5.0  # what takes longer is named on a terminal
COMPILING = "compiling"  # what an activity begins with that comes once in a run, before it trains
RATE_CHUNKS = 10  # over which the speed is measured
OPTIONAL = {"states": "states_discovered", "table full": "table_occupancy", "uncertainty": "uncertainty"}
"""Columns that are shown only if their metric was reported."""


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, and how fast. Speeds are None until something was timed, without compilation."""

    env_steps: int
    total_env_steps: int
    latest: LatestMetrics
    steps_per_second: float | None  # of all seeds together
    seconds_left: float | None
    in_chunk: bool = False  # after a piece of a chunk: the metrics are those of the chunk before

    @property
    def share(self) -> float:
        return min(self.env_steps / max(self.total_env_steps, 1), 1.0)

    def cells(self) -> dict[str, str]:
        """Returns names and values to show, as means over seeds."""
        seeds = len(self.latest)
        reached = [line["first_reward_step"] for line in self.latest.values() if "first_reward_step" in line]
        solved = seeds_solved(self.latest)
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
        missing |= {"solved"} if solved is None else set()
        return {name: text for name, text in shown.items() if name not in missing}

    def line(self) -> str:
        return " | ".join(f"{name} {text}" for name, text in self.cells().items())


@dataclass
class Clock:
    """Computes the speed and the time left, over the last chunks. The time before the first mark is not counted."""

    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RATE_CHUNKS + 1))

    def start(self, env_steps: int) -> None:
        """Marks the step at which training begins, after compilation."""
        self.marks.append((time.monotonic(), env_steps))

    def progress(
        self, env_steps: int, total: int, latest: LatestMetrics, in_chunk: bool = False
    ) -> RunProgress:
        now = time.monotonic()
        began, first = self.marks[0] if self.marks else (now, env_steps)
        if not in_chunk:
            self.marks.append((now, env_steps))
        if now <= began or env_steps <= first:
            return RunProgress(env_steps, total, latest, None, None, in_chunk)
        speed = (env_steps - first) / (now - began)
        left = max(total - env_steps, 0) / speed
        return RunProgress(env_steps, total, latest, speed * len(latest), left, in_chunk)


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


@dataclass(frozen=True)
class Activity:
    """Something that takes a while, and during which nothing else can be shown."""

    doing: str
    began: float = field(default_factory=lambda: time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def line(self) -> str:
        return f"{self.doing} {elapsed(self.seconds)}"


class Display(Output):
    """Shows the progress of a run. This one shows nothing: for a process that is not the leader of its group."""

    def show(self, progress: RunProgress) -> None: ...

    def busy(self, doing: str, done: str | None = None) -> AbstractContextManager[None]:
        """Shows for how long something has taken. With `done`, its beginning and end are told too."""
        return nullcontext()

    def stopping(self, text: str) -> None:
        """Shows until the end that the run stops. Called from another thread than the rest."""


class LineDisplay(Display):
    """Prints lines: for files and pipes.

    At most one in `seconds` after chunks, one in `quiet_seconds` in between or while nothing ends, and always the last.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        seconds: float = LINE_SECONDS,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self.print, self.seconds, self.quiet_seconds = write, seconds, quiet_seconds
        self.shown_at = -np.inf
        self.pending: RunProgress | None = None
        self.activity: Activity | None = None
        self._ended = threading.Event()

    def open(self) -> None:
        self._ended.clear()
        threading.Thread(target=self._break_silence, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._flush()

    def show(self, progress: RunProgress) -> None:
        self.pending = progress
        if time.monotonic() - self.shown_at >= (self.quiet_seconds if progress.in_chunk else self.seconds):
            self._flush()

    def message(self, text: str) -> None:
        self._flush()
        self.print(text)

    @contextmanager
    def busy(self, doing: str, done: str | None = None) -> Iterator[None]:
        if done is not None:
            self.message(f"{doing} ...")
        self.activity = activity = Activity(doing)
        try:
            yield
        finally:
            self.activity = None
        if done is not None:
            self.message(f"{done} in {activity.seconds:.0f} s")

    def stopping(self, text: str) -> None:
        self.print(text)

    def _flush(self) -> None:
        """Prints the line that is pending."""
        if self.pending is not None:
            self.print(self.pending.line())
            self.pending, self.shown_at = None, time.monotonic()

    def _break_silence(self) -> None:
        """Prints for how long something has taken, again and again."""
        said = time.monotonic()
        while not self._ended.wait(min(1.0, self.quiet_seconds)):
            activity = self.activity
            if activity is None:
                continue
            said = max(said, activity.began, self.shown_at)
            if time.monotonic() - said >= self.quiet_seconds:
                said = time.monotonic()
                self.print(activity.line())


class LiveDisplay(LiveOutput, Display):
    """Shows a table and a progress bar in place, and below them what takes long and whether the run stops."""

    def __init__(self, console: Console, title: str) -> None:
        self.title = title
        self.progress: RunProgress | None = None
        self.activity: Activity | None = None
        self.is_told = False  # an activity that is shown from its beginning
        self.stop_text = ""
        self.live = Live(get_renderable=self._render, console=console, refresh_per_second=4)

    def close(self) -> None:
        self.activity, self.stop_text = None, ""
        super().close()

    def show(self, progress: RunProgress) -> None:
        self.progress = progress
        self.live.refresh()

    @contextmanager
    def busy(self, doing: str, done: str | None = None) -> Iterator[None]:
        self.activity = activity = Activity(doing)
        self.is_told = done is not None or self.progress is None
        try:
            yield
        finally:
            self.activity = None
        if done is not None:
            self.message(f"{done} in {activity.seconds:.0f} s")

    def stopping(self, text: str) -> None:
        self.stop_text = text
        self.live.refresh()

    def _render(self) -> RenderableType:
        rows: list[RenderableType] = [
            Text(self.title) if self.progress is None else self._table(self.progress)
        ]
        if self.progress is not None:
            bar = ProgressBar(total=1.0, completed=self.progress.share, width=60)
            rows.append(Padding(bar, 0))  # which ends the line; the bar alone does not
        activity = self.activity
        if activity is not None and (self.is_told or activity.seconds >= SLOW_SECONDS):
            rows.append(Text(activity.line()))
        if self.stop_text:
            rows.append(Text(self.stop_text, style="bold"))
        return Group(*rows)

    def _table(self, progress: RunProgress) -> Table:
        table = Table(title=self.title, title_justify="left")
        for name in progress.cells():
            table.add_column(name, justify="right")
        table.add_row(*progress.cells().values())
        return table


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


def elapsed(seconds: float) -> str:
    """Formats a time that has passed as minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    value = readable(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _share(value: Value | None) -> str:
    return "-" if value is None else f"{value:.1%}"
