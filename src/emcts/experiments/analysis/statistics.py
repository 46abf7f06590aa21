"""Summaries of one value per seed that keep the failed seeds, and tests of whether two samples differ."""

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
    """A statistic with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Statistics of one value per seed. `mean`, `std` and `standard_error` leave failed seeds out.

    `median` and `iqm` take failed seeds as infinite: they are finite while fewer than half, or a quarter, of the seeds
    failed.
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
class TestResult:
    """A test of whether two samples differ: its statistic and its p-value."""

    __test__ = False  # for pytest, which would collect it by its name

    statistic: float
    p_value: float


def describe(values: Values) -> Summary:
    """Summarises one value per seed; NaN is a seed that failed."""
    if not len(values):
        raise ValueError("no seeds to describe: give at least one value, NaN for a seed that failed")
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
    """Returns the mean without the lowest and the highest quarter, each rounded down to whole seeds."""
    cut = len(values) // 4
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def estimate(values: Values, statistic: Statistic, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Returns a statistic with its percentiles over resampled seeds. The same values give the same interval."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(values), size=(resamples, len(values)))
    spread = [statistic(values[indices]) for indices in drawn]
    tail = (1 - CONFIDENCE) / 2
    # An element of the spread, not a mixture of two: one of them may be infinite.
    low, high = np.quantile(spread, [tail, 1 - tail], method="inverted_cdf")
    return Estimate(statistic(values), float(low), float(high))


def permutation_test(
    a: Float[np.ndarray, "A"], b: Float[np.ndarray, "B"], *, permutations: int = PERMUTATIONS, seed: int = 0
) -> TestResult:
    """Tests the difference of means `a - b`, two-sided, over all partitions if there are few enough, else some."""
    if not len(a) or not len(b):
        raise ValueError(f"samples of {len(a)} and {len(b)} seeds: each needs at least one")
    joined = np.concatenate([a, b])
    if not np.all(np.isfinite(joined)):
        raise ValueError("a value is not finite: give a seed that failed the largest value it could have had")
    drawn = partitions(len(a), len(b), permutations, seed)
    differences = drawn.first @ joined / len(a) - drawn.second @ joined / len(b)
    return drawn.test(float(np.mean(a) - np.mean(b)), differences)


@dataclass(frozen=True)
class Partitions:
    """Partitions of seeds into two samples, as 0 and 1: all that exist, or a random sample of them."""

    first: Float[np.ndarray, "P S"]
    are_all: bool

    @property
    def second(self) -> Float[np.ndarray, "P S"]:
        return 1 - self.first

    def test(self, observed: float, differences: Float[np.ndarray, "P"]) -> TestResult:
        """Returns how often a statistic is as far from 0 as the observed one."""
        extreme = np.sum(np.abs(differences) >= abs(observed) - 1e-9 * (1 + abs(observed)))
        # A random sample includes the observed partition, so a p-value is never 0.
        drawn = 0 if self.are_all else 1
        return TestResult(observed, float((extreme + drawn) / (len(differences) + drawn)))


def partitions(first: int, second: int, permutations: int, seed: int) -> Partitions:
    """Returns all partitions into samples of these sizes, or `permutations` random ones if there are more."""
    size = first + second
    are_all = math.comb(size, first) <= permutations
    chosen = np.array(list(_all(size, first) if are_all else _some(size, first, permutations, seed)))
    members = np.zeros((len(chosen), size))
    np.put_along_axis(members, chosen, 1.0, axis=1)
    return Partitions(members, are_all)


def _all(size: int, chosen: int) -> Iterator[np.ndarray]:
    return (np.array(which) for which in itertools.combinations(range(size), chosen))


def _some(size: int, chosen: int, count: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    return (rng.permutation(size)[:chosen] for _ in range(count))
