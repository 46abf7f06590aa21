"""Samples of seeds: hand-worked numbers, what failed seeds do to them, and tests with known p-values."""

import math

import numpy as np
import pytest

from emcts.experiments.analysis.statistics import (
    describe,
    estimate,
    interquartile_mean,
    median,
    permutation_test,
)

NEVER = math.nan


def test_a_sample_by_hand() -> None:
    one = describe(np.array([8.0, 2.0, 4.0, 6.0, 100.0]))
    assert (one.seeds, one.failed, one.succeeded) == (5, 0, 5)
    assert one.mean == 24
    assert one.std == pytest.approx(math.sqrt((16**2 + 22**2 + 20**2 + 18**2 + 76**2) / 4))
    assert one.standard_error == pytest.approx(one.std / math.sqrt(5))
    assert one.median.value == 6
    assert one.iqm.value == 6  # without 2 and 100


def test_failed_seeds_count_where_they_can() -> None:
    one = describe(np.array([10.0, 20.0, 30.0, 40.0, NEVER]))
    assert (one.seeds, one.failed) == (5, 1)
    assert one.mean == 25, "of those that have a value"
    assert one.median.value == 30, "of all five, the failed one last"
    assert one.iqm.value == 30
    assert one.iqm.high == math.inf, "two draws of the failed seed are enough, and likely"
    half = describe(np.array([10.0, NEVER, NEVER, 20.0]))
    assert half.median.value == half.iqm.value == math.inf
    assert half.mean == 15


def test_nothing_but_failures() -> None:
    one = describe(np.array([NEVER, NEVER]))
    assert one.succeeded == 0
    assert math.isnan(one.mean)
    assert math.isnan(one.standard_error)
    assert one.median.low == math.inf
    with pytest.raises(ValueError, match="no seeds"):
        describe(np.zeros(0))


def test_the_interquartile_mean_drops_whole_seeds() -> None:
    values = np.array([5.0, 1.0, 2.0, 3.0, 4.0, 900.0, 7.0, 6.0])
    assert interquartile_mean(values) == 4.5  # 3, 4, 5, 6
    assert interquartile_mean(np.array([1.0, 2.0, 9.0])) == 4


def test_bootstrap_intervals_are_fixed_and_have_the_right_width() -> None:
    values = np.random.default_rng(0).normal(3.0, 1.0, 400)
    once = estimate(values, lambda sample: float(np.mean(sample)))
    assert once == estimate(values, lambda sample: float(np.mean(sample)))
    assert once != estimate(values, lambda sample: float(np.mean(sample)), seed=1)
    width = 2 * 1.96 * np.std(values) / 20
    assert once.high - once.low == pytest.approx(width, rel=0.08)
    assert once.low < once.value < once.high
    assert estimate(np.full(4, 7.0), median).high == 7


def test_permutations_of_few_seeds_are_all_tried() -> None:
    apart = permutation_test(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    assert apart.statistic == -3
    assert apart.p_value == 2 / 20
    same = permutation_test(np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    assert (same.statistic, same.p_value) == (0, 1)


def test_permutations_of_many_seeds() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 30), rng.normal(0, 1, 30)
    alike, apart = permutation_test(a, b), permutation_test(a, b + 2)
    # Student's t-test on the same numbers: p = 0.089
    assert alike.p_value == pytest.approx(0.089, abs=0.01)
    assert apart.p_value == pytest.approx(1 / 10_001)
    assert permutation_test(a, b) == alike


def test_permutations_refuse_what_they_cannot_compare() -> None:
    with pytest.raises(ValueError, match="not finite: give a seed that failed the largest value"):
        permutation_test(np.array([1.0, NEVER]), np.array([1.0]))
    with pytest.raises(ValueError, match="samples of 0 and 1 seeds"):
        permutation_test(np.zeros(0), np.array([1.0]))
