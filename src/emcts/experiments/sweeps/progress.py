"""The progress of a whole sweep: the work that is done, and the time that is left."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from emcts.experiments.sweeps.job import Job
from emcts.runs.logging.display import COMPILING, Display, LiveDisplay, RunProgress, duration


@dataclass
class SweepProgress:
    """The work of a sweep, run by run: steps over all seeds, done and in total.

    `speeds` are steps per second over all seeds, None where unknown. `concurrent` is how many runs train at once.
    `compilations` are the seconds that runs compiled before they trained: those to come will take as long.
    """

    total: Sequence[int]
    done: list[int]
    speeds: list[float | None]
    concurrent: int = 1
    compilations: dict[int, float] = field(default_factory=dict)

    @classmethod
    def begin(cls, jobs: Sequence[Job], speeds: Sequence[float | None]) -> "SweepProgress":
        done = [job.work if job.is_over else job.env_steps * len(job.seeds) for job in jobs]
        return cls([job.work for job in jobs], done, list(speeds))

    def update(self, index: int, seeds: int, run: RunProgress) -> None:
        """Sets the work of a run to what it reports."""
        self.done[index] = min(run.env_steps * seeds, self.total[index])
        if run.steps_per_second is not None:
            self.speeds[index] = run.steps_per_second

    @property
    def share(self) -> float:
        return sum(self.done) / max(sum(self.total), 1)

    @property
    def seconds_left(self) -> float | None:
        """The time left, with the mean of the known speeds where one is unknown; None if all are."""
        left = [total - done for total, done in zip(self.total, self.done, strict=True)]
        known = [speed for speed in self.speeds if speed]
        if not any(left):
            return 0.0
        if not known:
            return None
        usual = sum(known) / len(known)
        times = [
            rest / (speed or usual) + (self._compilation if rest and index not in self.compilations else 0.0)
            for index, (rest, speed) in enumerate(zip(left, self.speeds, strict=True))
        ]
        return max(sum(times) / self.concurrent, *times)

    @property
    def _compilation(self) -> float:
        """The mean of the runs that compiled so far; 0 before the first has."""
        return sum(self.compilations.values()) / max(len(self.compilations), 1)

    @property
    def line(self) -> str:
        """The progress in one line."""
        over = sum(done >= total for done, total in zip(self.done, self.total, strict=True))
        left = duration(self.seconds_left, "unknown time")
        return f"sweep: {over} of {len(self.total)} runs over, {self.share:.0%} of the steps, {left} left"


@dataclass
class SweepDisplay(Display):
    """Shows a run as `emcts train` does, and the progress of the sweep: in the title on a terminal, else in lines."""

    progress: SweepProgress
    index: int
    jobs: Sequence[Job]
    title: str
    inner: Display
    seconds: float = 60.0
    shown_at: float = field(default_factory=time.monotonic)

    def open(self) -> None:
        self.inner.open()

    def close(self) -> None:
        self.inner.close()

    def show(self, run: RunProgress) -> None:
        self.progress.update(self.index, len(self.jobs[self.index].seeds), run)
        if isinstance(self.inner, LiveDisplay):
            self.inner.title = f"{self.title}\n{self.progress.line}"
        elif time.monotonic() - self.shown_at >= self.seconds:
            self.shown_at = time.monotonic()
            self.inner.message(self.progress.line)
        self.inner.show(run)

    @contextmanager
    def busy(self, doing: str, done: str | None = None) -> Iterator[None]:
        began = time.monotonic()
        with self.inner.busy(doing, done):
            yield
        if doing.startswith(COMPILING):
            before = self.progress.compilations.get(self.index, 0.0)
            self.progress.compilations[self.index] = before + time.monotonic() - began

    def stopping(self, text: str) -> None:
        self.inner.stopping(text)

    def message(self, text: str) -> None:
        self.inner.message(text)
