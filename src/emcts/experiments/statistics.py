"""Samples of seeds in a few numbers, without losing those that failed, and tests of whether two samples differ."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

RESAMPLES = 2000
PERMUTATIONS = 10_000
CONFIDENCE = 0.95

Values = Float[np.ndarray, "S"]
Statistic = Callable[[Values], float]


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval that holds it with 95% confidence by the bootstrap."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Of one value per seed. `mean`, `std` and `standard_error` are of the seeds that have one.

    `median` and `iqm` are of all seeds, with those that failed as infinite: they are finite while fewer than half, or a
    quarter, of the seeds failed.
    """

    seeds: int
    failed: int
    mean: float
    std: float
    standard_error: float
    median: Estimate
    iqm: Estimate

    @property
    def succeeded(self) -> int:
        return self.seeds - self.failed


@dataclass(frozen=True)
class Test:
    """Of the claim that two samples do not differ: what was measured, and how often chance gives as much."""

    __test__ = False  # for pytest, which would collect it by its name

    statistic: float
    p_value: float


def summarise(values: Values) -> Summary:
    """NaN is a seed that failed."""
    if not len(values):
        raise ValueError("no seeds to summarise: give at least one value, NaN for a seed that failed")
    known = values[~np.isnan(values)]
    late = np.where(np.isnan(values), np.inf, values)
    std = float(np.std(known, ddof=1)) if len(known) > 1 else math.nan
    return Summary(
        seeds=len(values),
        failed=len(values) - len(known),
        mean=float(np.mean(known)) if len(known) else math.nan,
        std=std,
        standard_error=std / math.sqrt(max(len(known), 1)),
        median=estimate(late, median),
        iqm=estimate(late, interquartile_mean),
    )


def median(values: Values) -> float:
    return float(np.median(values))


def interquartile_mean(values: Values) -> float:
    """The mean without the lowest and the highest quarter, each rounded down to whole seeds."""
    cut = len(values) // 4
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def estimate(values: Values, statistic: Statistic, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """With the percentiles of the statistic over resampled seeds. The same values give the same interval."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(values), size=(resamples, len(values)))
    spread = [statistic(values[indices]) for indices in drawn]
    tail = (1 - CONFIDENCE) / 2
    # An element of the spread, not a mixture of two: one of them may be infinite.
    low, high = np.quantile(spread, [tail, 1 - tail], method="inverted_cdf")
    return Estimate(statistic(values), float(low), float(high))


def permutation_test(
    a: Float[np.ndarray, "A"], b: Float[np.ndarray, "B"], *, permutations: int = PERMUTATIONS, seed: int = 0
) -> Test:
    """Two-sided, of the difference of means `a - b`. All divisions are tried if there are few enough, else some."""
    if not len(a) or not len(b):
        raise ValueError(f"samples of {len(a)} and {len(b)} seeds: each needs at least one")
    joined = np.concatenate([a, b])
    if not np.all(np.isfinite(joined)):
        raise ValueError("a value is not finite: give a seed that failed the largest value it could have had")
    observed = float(np.mean(a) - np.mean(b))
    exact = math.comb(len(joined), len(a)) <= permutations
    divisions = _all(len(joined), len(a)) if exact else _some(len(joined), len(a), permutations, seed)
    total, extreme, count = joined.sum(), 0, 0
    for chosen in divisions:
        inside = joined[chosen].sum()
        difference = inside / len(a) - (total - inside) / len(b)
        extreme += abs(difference) >= abs(observed) - 1e-9 * (1 + abs(observed))
        count += 1
    # Among drawn divisions, the observed one counts as drawn: a p-value is never 0.
    p_value = extreme / count if exact else (extreme + 1) / (count + 1)
    return Test(observed, float(p_value))


def _all(size: int, chosen: int) -> Iterator[np.ndarray]:
    return (np.array(which) for which in itertools.combinations(range(size), chosen))


def _some(size: int, chosen: int, count: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    return (rng.permutation(size)[:chosen] for _ in range(count))
