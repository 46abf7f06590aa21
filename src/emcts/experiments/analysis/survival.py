"""Survival analysis of first times, where seeds that stopped before the event are censored.

A seed that stopped before the event only bounds its time from below. The Kaplan-Meier curve, its area and the log-rank
test use this bound; a mean over the seeds that reached the event is biased in favour of slow agents.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from emcts.experiments.analysis.statistics import PERMUTATIONS, TestResult, partitions

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class EventTimes:
    """The step of the event for each seed, or its last step where the event was not observed."""

    steps: Float[np.ndarray, "S"]
    observed: Bool[np.ndarray, "S"]

    def __post_init__(self) -> None:
        if not len(self.steps):
            raise ValueError("no seeds: give the times of at least one")
        if not np.all(np.isfinite(self.steps)) or np.any(self.steps < 0):
            raise ValueError(
                "a step is negative or not finite: give the last step of a seed that never reached the event"
            )

    @property
    def known_to(self) -> float:
        """The last step at which the curve is known; infinite if all seeds with the most steps have the event."""
        last = self.steps == self.steps.max()
        return math.inf if self.observed[last].all() else float(self.steps.max())

    def cut(self, horizon: float) -> "EventTimes":
        """Returns the times as they would be if all seeds had stopped at the horizon."""
        return EventTimes(np.minimum(self.steps, horizon), self.observed & (self.steps <= horizon))


@dataclass(frozen=True)
class Survival:
    """The share of seeds without the event, from each step on, with a 95% band (Greenwood, log-log)."""

    steps: Float[np.ndarray, "T"]
    at_risk: Float[np.ndarray, "T"]
    share: Float[np.ndarray, "T"]
    low: Float[np.ndarray, "T"]
    high: Float[np.ndarray, "T"]

    @property
    def median(self) -> float:
        """The step at which half of the seeds have reached the event; infinite if fewer ever do."""
        (reached,) = np.nonzero(self.share <= 0.5 + 1e-12)
        return float(self.steps[reached[0]]) if len(reached) else math.inf


def kaplan_meier(times: EventTimes) -> Survival:
    """Returns the curve from step 0 on, with a point for each step at which a seed reaches the event."""
    steps = np.unique(times.steps[times.observed])
    at_risk = _at_risk(times, steps)
    events = _events(times, steps)
    share = np.cumprod(1 - events / at_risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(events / (at_risk * (at_risk - events)))
        half = NORMAL_95 * np.sqrt(variance) / np.log(share)
        low, high = share ** np.exp(-half), share ** np.exp(half)
    certain = share == 0  # no seed is left, and the log of the share is infinite
    low, high = np.where(certain, 0.0, low), np.where(certain, 0.0, high)
    return Survival(
        steps=np.append(0.0, steps),
        at_risk=np.append(float(len(times.steps)), at_risk),
        share=np.append(1.0, share),
        low=np.append(1.0, low),
        high=np.append(1.0, high),
    )


def restricted_mean(times: EventTimes, horizon: float) -> float:
    """Returns the mean of min(time, horizon): the area under the curve up to the horizon."""
    if horizon > times.known_to:
        raise ValueError(
            f"a mean up to step {horizon:,.0f} of seeds that ran to {times.known_to:,.0f}: lower the horizon"
        )
    curve = kaplan_meier(times)
    edges = np.append(np.minimum(curve.steps, horizon), horizon)
    return float(np.sum(np.diff(edges) * curve.share))


def log_rank(a: EventTimes, b: EventTimes) -> TestResult:
    """Tests whether both samples have the same event rate at all times, by a chi-square of one degree of freedom."""
    steps = np.unique(np.concatenate([a.steps[a.observed], b.steps[b.observed]]))
    risk_a, risk = _at_risk(a, steps), _at_risk(a, steps) + _at_risk(b, steps)
    events = _events(a, steps) + _events(b, steps)
    share = risk_a / risk
    expected = events * share
    spread = events * share * (1 - share) * (risk - events) / np.maximum(risk - 1, 1)
    variance = float(spread.sum())
    if variance == 0:
        return TestResult(0.0, 1.0)
    statistic = float((_events(a, steps) - expected).sum() ** 2 / variance)
    return TestResult(statistic, math.erfc(math.sqrt(statistic / 2)))


def restricted_mean_test(
    a: EventTimes, b: EventTimes, horizon: float, *, permutations: int = PERMUTATIONS, seed: int = 0
) -> TestResult:
    """Tests the difference of restricted means `a - b`, two-sided, by permutation.

    Seeds are permuted together with whether their event was observed, and each partition has its own Kaplan-Meier
    curves. A curve that ends before `horizon` stays level from there on. The test assumes that the seeds of both
    samples were censored alike.
    """
    difference = restricted_mean(a, horizon) - restricted_mean(b, horizon)
    joined = EventTimes(np.append(a.steps, b.steps), np.append(a.observed, b.observed)).cut(horizon)
    steps = np.unique(joined.steps[joined.observed])
    at_risk = (joined.steps[:, None] >= steps[None]).astype(np.float64)
    events = (joined.steps[:, None] == steps[None]) & joined.observed[:, None]
    widths = np.diff(np.concatenate([[0.0], steps, [horizon]]))

    def areas(members: Float[np.ndarray, "P S"]) -> Float[np.ndarray, "P"]:
        share = np.cumprod(1 - (members @ events) / np.maximum(members @ at_risk, 1), axis=1)
        return np.column_stack([np.ones(len(members)), share]) @ widths

    drawn = partitions(len(a.steps), len(b.steps), permutations, seed)
    return drawn.test(difference, areas(drawn.first) - areas(drawn.second))


def _at_risk(times: EventTimes, steps: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    return (times.steps[None] >= steps[:, None]).sum(axis=1).astype(np.float64)


def _events(times: EventTimes, steps: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    at_step = (times.steps[None] == steps[:, None]) & times.observed[None]
    return at_step.sum(axis=1).astype(np.float64)
