"""When something happens for the first time, with the seeds for which it has not happened yet.

A seed that was stopped before it found the goal says that it needs longer than that, and no more. Kaplan and Meier's
curve, its area and the log-rank test use just this, where a mean over the seeds that found the goal flatters the slow.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from emcts.experiments.statistics import PERMUTATIONS, Test, divisions

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class Times:
    """Of each seed: the step at which it happened, or the last step at which it had not."""

    steps: Float[np.ndarray, "S"]
    happened: Bool[np.ndarray, "S"]

    def __post_init__(self) -> None:
        if not len(self.steps):
            raise ValueError("no seeds: give the times of at least one")
        if not np.all(np.isfinite(self.steps)) or np.any(self.steps < 0):
            raise ValueError(
                "a step is not a number from 0 on: give the last step of a seed that never got there"
            )

    @property
    def known_to(self) -> float:
        """The step up to which the curve is known: for ever, if it happened to all that were followed longest."""
        last = self.steps == self.steps.max()
        return math.inf if self.happened[last].all() else float(self.steps.max())

    def cut(self, horizon: float) -> "Times":
        """As they would be known had all been stopped at the horizon."""
        return Times(np.minimum(self.steps, horizon), self.happened & (self.steps <= horizon))


@dataclass(frozen=True)
class Survival:
    """The share of seeds to which it has not happened, from each step on, with a 95% band (Greenwood, log-log)."""

    steps: Float[np.ndarray, "T"]
    at_risk: Float[np.ndarray, "T"]
    share: Float[np.ndarray, "T"]
    low: Float[np.ndarray, "T"]
    high: Float[np.ndarray, "T"]

    @property
    def median(self) -> float:
        """The step at which half have got there; infinite if half never did."""
        (there,) = np.nonzero(self.share <= 0.5 + 1e-12)
        return float(self.steps[there[0]]) if len(there) else math.inf


def kaplan_meier(times: Times) -> Survival:
    """From step 0 on, a point for each step at which it happened to some seed."""
    steps = np.unique(times.steps[times.happened])
    at_risk = _at_risk(times, steps)
    events = _events(times, steps)
    share = np.cumprod(1 - events / at_risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(events / (at_risk * (at_risk - events)))
        half = NORMAL_95 * np.sqrt(variance) / np.log(share)
        low, high = share ** np.exp(-half), share ** np.exp(half)
    certain = share == 0  # nobody is left, and the log of the share is gone
    low, high = np.where(certain, 0.0, low), np.where(certain, 0.0, high)
    return Survival(
        steps=np.append(0.0, steps),
        at_risk=np.append(float(len(times.steps)), at_risk),
        share=np.append(1.0, share),
        low=np.append(1.0, low),
        high=np.append(1.0, high),
    )


def restricted_mean(times: Times, horizon: float) -> float:
    """The mean time, when every seed is given at most `horizon` steps: the area under the curve up to there."""
    if horizon > times.known_to:
        raise ValueError(
            f"a mean up to step {horizon:,.0f} of seeds that were followed to {times.known_to:,.0f}: lower the horizon"
        )
    curve = kaplan_meier(times)
    edges = np.append(np.minimum(curve.steps, horizon), horizon)
    return float(np.sum(np.diff(edges) * curve.share))


def log_rank(a: Times, b: Times) -> Test:
    """Whether it happens to both alike at all times. The statistic is a chi-square of one degree of freedom."""
    steps = np.unique(np.concatenate([a.steps[a.happened], b.steps[b.happened]]))
    risk_a, risk = _at_risk(a, steps), _at_risk(a, steps) + _at_risk(b, steps)
    events = _events(a, steps) + _events(b, steps)
    share = risk_a / risk
    expected = events * share
    spread = events * share * (1 - share) * (risk - events) / np.maximum(risk - 1, 1)
    variance = float(spread.sum())
    if variance == 0:
        return Test(0.0, 1.0)
    statistic = float((_events(a, steps) - expected).sum() ** 2 / variance)
    return Test(statistic, math.erfc(math.sqrt(statistic / 2)))


def restricted_mean_test(
    a: Times, b: Times, horizon: float, *, permutations: int = PERMUTATIONS, seed: int = 0
) -> Test:
    """A permutation test, two-sided, of the difference of restricted means `a - b`.

    Seeds are permuted together with whether they were stopped, and each division has its own Kaplan-Meier curves: a
    seed that was stopped early counts as long as it was followed, and not as one that got there. A curve that a
    division knows less far than `horizon` stays level from there on. The test supposes that seeds of both samples were
    stopped alike.
    """
    observed = restricted_mean(a, horizon) - restricted_mean(b, horizon)
    joined = Times(np.append(a.steps, b.steps), np.append(a.happened, b.happened)).cut(horizon)
    steps = np.unique(joined.steps[joined.happened])
    followed = (joined.steps[:, None] >= steps[None]).astype(np.float64)
    events = (joined.steps[:, None] == steps[None]) & joined.happened[:, None]
    widths = np.diff(np.concatenate([[0.0], steps, [horizon]]))

    def areas(members: Float[np.ndarray, "P S"]) -> Float[np.ndarray, "P"]:
        share = np.cumprod(1 - (members @ events) / np.maximum(members @ followed, 1), axis=1)
        return np.column_stack([np.ones(len(members)), share]) @ widths

    drawn = divisions(len(a.steps), len(b.steps), permutations, seed)
    return drawn.test(observed, areas(drawn.first) - areas(drawn.second))


def _at_risk(times: Times, steps: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    return (times.steps[None] >= steps[:, None]).sum(axis=1).astype(np.float64)


def _events(times: Times, steps: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    here = (times.steps[None] == steps[:, None]) & times.happened[None]
    return here.sum(axis=1).astype(np.float64)
