import numpy as np
import pytest

from emcts.envs.deep_sea_regret import average_regret, episodes_to_solve, regret


def test_average_regret_by_hand():
    np.testing.assert_allclose(average_regret(np.array([1, 1, 0, 1])), [1, 1, 2 / 3, 3 / 4])


def test_solved_at_the_first_treasure_within_nine_episodes():
    assert episodes_to_solve(np.array([True] * 8 + [False])) == 9


def test_exactly_ninety_percent_is_not_yet_solved():
    assert episodes_to_solve(np.array([True] * 9 + [False])) is None
    assert episodes_to_solve(np.array([True] * 9 + [False, False])) == 11


def test_never_solved():
    assert episodes_to_solve(np.ones(50, bool)) is None
    assert episodes_to_solve(np.ones(0, bool)) is None


def test_equals_the_first_row_that_bsuite_would_take():
    rng = np.random.default_rng(0)
    strayed = rng.random(400) > np.linspace(0, 0.5, 400)
    totals, episodes = np.cumsum(strayed), np.arange(1, 401)
    (rows,) = np.nonzero(totals / episodes < 0.9)
    assert episodes_to_solve(strayed) == episodes[rows[0]]


def test_regret_of_returns():
    np.testing.assert_allclose(regret(np.array([0.99, 0.0, -0.0099]), 0.99), [0, 1, 1.01], atol=1e-12)
    with pytest.raises(ValueError, match="positive"):
        regret(np.array([1.0]), 0.0)
