"""A whole sweep while it runs: what is done, and how long the rest will take."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from emcts.experiments.sweep import Job
from emcts.runs.logging.display import Display, LiveDisplay, RunProgress, duration


@dataclass
class Tally:
    """The work of a sweep, run by run. Work is steps times seeds; `rates` are steps a second, None where unknown.

    `side_by_side` is how many runs go on at once.
    """

    work: Sequence[int]
    done: list[int]
    rates: list[float | None]
    side_by_side: int = 1

    @classmethod
    def of(cls, jobs: Sequence[Job], rates: Sequence[float | None]) -> "Tally":
        done = [job.work if job.is_over else job.env_steps * len(job.seeds) for job in jobs]
        return cls([job.work for job in jobs], done, list(rates))

    @property
    def share(self) -> float:
        return sum(self.done) / max(sum(self.work), 1)

    @property
    def seconds_left(self) -> float | None:
        """With the mean of the known rates where one is unknown; None if all are."""
        left = [work - done for work, done in zip(self.work, self.done, strict=True)]
        known = [rate for rate in self.rates if rate]
        if not any(left):
            return 0.0
        if not known:
            return None
        usual = sum(known) / len(known)
        times = [rest / (rate or usual) for rest, rate in zip(left, self.rates, strict=True)]
        return max(sum(times) / self.side_by_side, *times)

    @property
    def line(self) -> str:
        """How the whole sweep stands."""
        over = sum(done >= work for done, work in zip(self.done, self.work, strict=True))
        left = duration(self.seconds_left, "unknown time")
        return f"sweep: {over} of {len(self.work)} runs over, {self.share:.0%} of the steps, {left} left"


@dataclass
class SweepDisplay(Display):
    """Shows each run as `emcts train` would, and with it how the whole sweep stands: in the title on a terminal, else
    in a line now and then.
    """

    tally: Tally
    job: int
    jobs: Sequence[Job]
    title: str
    inner: Display
    seconds: float = 60.0
    told_at: float = field(default_factory=time.monotonic)

    def open(self) -> None:
        self.inner.open()

    def close(self) -> None:
        self.inner.close()

    def show(self, standing: RunProgress) -> None:
        work = self.tally.work[self.job]
        self.tally.done[self.job] = min(standing.env_steps * len(self.jobs[self.job].seeds), work)
        if standing.steps_per_second is not None:
            self.tally.rates[self.job] = standing.steps_per_second
        if isinstance(self.inner, LiveDisplay):
            self.inner.title = f"{self.title}\n{self.tally.line}"
        elif time.monotonic() - self.told_at >= self.seconds:
            self.told_at = time.monotonic()
            self.inner.say(self.tally.line)
        self.inner.show(standing)

    def say(self, text: str) -> None:
        self.inner.say(text)
