"""What a run shows while it trains: a live table on a terminal, now and then a line elsewhere."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, runtime_checkable

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from emcts.runs import team
from emcts.runs.summary import Latest, largest, mean

LINE_SECONDS = 5.0
RATE_CHUNKS = 10  # over which the speed is measured


@dataclass(frozen=True)
class Standing:
    """How far a run has come. Speeds are None until a chunk without compilation was timed."""

    env_steps: int
    total_env_steps: int
    latest: Latest
    steps_per_second: float | None  # of all seeds together
    seconds_left: float | None

    @property
    def share(self) -> float:
        return min(self.env_steps / max(self.total_env_steps, 1), 1.0)

    def cells(self) -> dict[str, str]:
        """Names and values to show, means over seeds."""
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
        unsaid = {
            "states": "states_discovered",
            "table full": "table_occupancy",
            "uncertainty": "uncertainty",
        }
        return {name: text for name, text in shown.items() if name not in unsaid or self._said(unsaid[name])}

    def _said(self, name: str) -> bool:
        return mean(self.latest, name) is not None


@dataclass
class Clock:
    """Turns finished chunks into a speed and a time left. The first chunk compiles, and does not count."""

    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RATE_CHUNKS + 1))

    def standing(self, env_steps: int, total: int, latest: Latest) -> Standing:
        self.marks.append((time.monotonic(), env_steps))
        (began, first), (now, last) = self.marks[0], self.marks[-1]
        if now <= began or last <= first:
            return Standing(env_steps, total, latest, None, None)
        speed = (last - first) / (now - began)
        return Standing(env_steps, total, latest, speed * len(latest), max(total - env_steps, 0) / speed)


@runtime_checkable
class Display(Protocol):
    """Shows how a run stands, and says what happens besides. Used as a context."""

    def __enter__(self) -> "Display": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def show(self, standing: Standing) -> None: ...

    def say(self, text: str) -> None: ...


class LineDisplay:
    """Lines, at most one every few seconds, and the last one always: for files and pipes."""

    def __init__(self, write: Callable[[str], None], seconds: float = LINE_SECONDS) -> None:
        self.write, self.seconds = write, seconds
        self.shown_at = -np.inf
        self.pending: Standing | None = None

    def __enter__(self) -> "LineDisplay":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._flush()

    def show(self, standing: Standing) -> None:
        self.pending = standing
        if time.monotonic() - self.shown_at >= self.seconds:
            self._flush()

    def say(self, text: str) -> None:
        self._flush()
        self.write(text)

    def _flush(self) -> None:
        if self.pending is not None:
            self.write(" | ".join(f"{name} {text}" for name, text in self.pending.cells().items()))
            self.pending, self.shown_at = None, time.monotonic()


class LiveDisplay:
    """A table and a bar that stay in place; what is said scrolls by above them."""

    def __init__(self, console: Console, title: str) -> None:
        self.title = title
        self.live = Live(Text(f"{title}: compiling ..."), console=console, refresh_per_second=4)

    def __enter__(self) -> "LiveDisplay":
        self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.live.stop()

    def show(self, standing: Standing) -> None:
        table = Table(title=self.title, title_justify="left")
        for name in standing.cells():
            table.add_column(name, justify="right")
        table.add_row(*standing.cells().values())
        bar = ProgressBar(total=1.0, completed=standing.share, width=60)
        self.live.update(Group(table, bar), refresh=True)

    def say(self, text: str) -> None:
        self.live.console.print(text, markup=False, highlight=False)


class NoDisplay:
    """Shows nothing and says nothing: for a process that another one leads."""

    def __enter__(self) -> "NoDisplay":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def show(self, standing: Standing) -> None: ...

    def say(self, text: str) -> None: ...


def display_for(console: Console, title: str) -> Display:
    """Live on a terminal, elsewhere lines, of which the title is the first; none where another process leads."""
    if not team.leads():
        return NoDisplay()
    if console.is_terminal:
        return LiveDisplay(console, title)

    def write(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    write(title)
    return LineDisplay(write)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def duration(seconds: float | None) -> str:
    """Formats seconds as hours, minutes and seconds."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
