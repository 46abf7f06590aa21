"""Survival curves against worked examples: Freireich's leukaemia trial, as textbooks print it, and one by hand."""

import math

import numpy as np
import pytest

from emcts.experiments.analysis.statistics import permutation_test
from emcts.experiments.analysis.survival import (
    EventTimes,
    kaplan_meier,
    log_rank,
    restricted_mean,
    restricted_mean_test,
)

# Weeks of remission (Freireich and others, 1963); a minus marks a patient who was still well.
TREATED = (6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35)
PLACEBO = (1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23)


def times(*weeks: float) -> EventTimes:
    values = np.array(weeks, np.float64)
    return EventTimes(np.abs(values), values > 0)


def test_the_trial_of_the_textbooks() -> None:
    curve = kaplan_meier(times(*TREATED))
    np.testing.assert_array_equal(curve.steps, [0, 6, 7, 10, 13, 16, 22, 23])
    np.testing.assert_array_equal(curve.at_risk, [21, 21, 17, 15, 12, 11, 7, 6])
    np.testing.assert_allclose(curve.share, [1, 0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], atol=0.0005)
    assert curve.median == 23
    np.testing.assert_allclose([curve.low[1], curve.high[1]], [0.620, 0.952], atol=0.001)
    test = log_rank(times(*TREATED), times(*PLACEBO))
    assert test.statistic == pytest.approx(16.79, abs=0.01)
    assert test.p_value == pytest.approx(4.17e-5, rel=0.01)
    assert log_rank(times(*PLACEBO), times(*TREATED)).statistic == pytest.approx(test.statistic)


def test_one_by_hand() -> None:
    few = times(2, -3, 4, 8)
    curve = kaplan_meier(few)
    np.testing.assert_allclose(curve.share, [1, 3 / 4, 3 / 8, 0])
    np.testing.assert_allclose(curve.low[-1:], 0)
    assert restricted_mean(few, 3.0) == 2 + 3 / 4
    assert restricted_mean(few, 8.0) == 2 + 2 * 3 / 4 + 4 * 3 / 8
    assert restricted_mean(few, 100.0) == restricted_mean(few, 8.0), "nobody is left"
    # At 2: 4 of 6 at risk are in `few`, 1 event; at 4 and 8 only `few` is left.
    other = times(-1, 2, 2)
    test = log_rank(few, other)
    expected, variance = 3 * 4 / 6, 3 * (4 / 6) * (2 / 6) * (3 / 5)
    assert test.statistic == pytest.approx((1 - expected) ** 2 / variance)
    assert test.p_value == pytest.approx(math.erfc(math.sqrt(test.statistic / 2)))


def test_without_unfinished_seeds_the_area_is_the_mean() -> None:
    steps = np.random.default_rng(0).integers(1, 50, 12).astype(np.float64)
    whole = EventTimes(steps, np.ones(12, bool))
    assert restricted_mean(whole, 60.0) == pytest.approx(steps.mean())
    assert restricted_mean(whole.cut(20.0), 20.0) == pytest.approx(np.minimum(steps, 20).mean())
    assert whole.known_to == math.inf


def test_when_it_never_happens() -> None:
    never = times(-5, -7)
    assert kaplan_meier(never).median == math.inf
    np.testing.assert_array_equal(kaplan_meier(never).share, [1])
    assert restricted_mean(never, 7.0) == 7
    assert log_rank(never, times(-9)).p_value == 1
    with pytest.raises(ValueError, match="up to step 8 of seeds that ran to 7"):
        restricted_mean(never, 8.0)


def test_a_seed_that_was_stopped_early_did_not_get_there() -> None:
    """Three of the slow seeds were stopped at 10; their steps alone would make them the fast ones."""
    slow, fast = times(-10, -10, -10, 100), times(40, 40, 40, -100)
    assert slow.cut(100.0).steps.mean() < fast.cut(100.0).steps.mean()
    test = restricted_mean_test(slow, fast, 100.0)
    assert test.statistic == 100 - (3 * 40 + 100) / 4
    assert test.p_value > 2 / 70, "three seeds that were stopped early say little"
    assert restricted_mean_test(fast, slow, 100.0).statistic == -test.statistic


def test_a_permutation_test_with_a_stopped_seed_by_hand() -> None:
    """Of {2 | -1, 4} up to step 4: alone, a seed's restricted mean is 2, 4 (censored) or 4."""
    test = restricted_mean_test(times(2), times(-1, 4), 4.0)
    assert test.statistic == 2 - 4
    # The other partitions: {-1 | 2, 4} has 4 - 3 = 1, and {4 | -1, 2} has 4 - 2 = 2.
    assert test.p_value == 2 / 3


def test_without_stopped_seeds_it_is_the_test_of_means() -> None:
    rng = np.random.default_rng(1)
    for sizes, horizon in (((4, 5), 60.0), ((12, 14), 30.0)):
        a, b = (
            EventTimes(rng.integers(1, 50, size).astype(np.float64), np.ones(size, bool)) for size in sizes
        )
        plain = permutation_test(a.cut(horizon).steps, b.cut(horizon).steps)
        found = restricted_mean_test(a.cut(horizon), b.cut(horizon), horizon)
        assert found.statistic == pytest.approx(plain.statistic)
        assert found.p_value == plain.p_value


def test_chance_gives_small_p_values_as_often_as_it_should() -> None:
    """Both samples are alike, and half of the seeds are stopped early."""
    rng = np.random.default_rng(2)
    p_values = []
    for _ in range(400):
        happens, stopped = rng.exponential(50, 16), rng.uniform(5, 150, 16)
        both = EventTimes(np.minimum(happens, stopped), happens <= stopped)
        a, b = (EventTimes(both.steps[part], both.observed[part]) for part in (slice(8), slice(8, 16)))
        horizon = min(60.0, a.known_to, b.known_to)
        p_values.append(restricted_mean_test(a, b, horizon, permutations=200).p_value)
    assert 0.02 < np.mean(np.array(p_values) <= 0.05) < 0.09
    assert 0.4 < np.mean(p_values) < 0.6


@pytest.mark.parametrize(
    ("steps", "observed", "message"),
    [
        (np.zeros(0), np.zeros(0, bool), "no seeds"),
        (np.array([np.nan]), np.array([False]), "the last step of a seed that never reached the event"),
    ],
)
def test_bad_times(steps: np.ndarray, observed: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EventTimes(steps, observed)
