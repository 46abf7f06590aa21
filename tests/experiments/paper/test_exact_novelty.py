"""The planner with exact counts: by hand for a tiny size, and the numbers that agents are compared with."""

import numpy as np
import pytest

from emcts.experiments.paper.exact_novelty import ALL, HALF, PAPER, Protocol, steps_of_seeds, steps_to_goal


def test_two_rows() -> None:
    steps = steps_of_seeds(2, 200, ALL)
    # Right and right at once, or a path more, or all three others first: each leaves something new to the right.
    assert set(steps.tolist()) == {2, 4, 6, 8}
    assert np.mean(steps == 2) == pytest.approx(1 / 4, abs=0.1)


def test_every_episode_tries_something_new() -> None:
    for size in (3, 6, 9):
        pairs = size * (size + 1)
        assert steps_of_seeds(size, 20, ALL).max() <= pairs * size
    assert steps_of_seeds(20, 10, ALL).mean() < 1_000, "chance needs 20 million steps"


def test_exploiting_episodes_only_cost_steps() -> None:
    np.testing.assert_array_equal(steps_of_seeds(7, 10, HALF), 2 * steps_of_seeds(7, 10, ALL))
    assert steps_to_goal(7, 0, HALF) == steps_to_goal(7, 0, HALF)
    assert len(set(steps_of_seeds(7, 10, ALL).tolist())) > 1


def test_forty_by_forty() -> None:
    assert steps_of_seeds(40, 20, PAPER).mean() == pytest.approx(6_540, rel=0.05)
    assert steps_of_seeds(40, 20, Protocol(1, 1, warm_up=300)).mean() == pytest.approx(3_430, rel=0.05)
    assert (steps_of_seeds(40, 20, ALL) / 40).mean() == pytest.approx(78, rel=0.05)


@pytest.mark.parametrize("bad", [{"exploring": 0}, {"exploring": 3}, {"warm_up": -1}])
def test_bad_protocols(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="episodes explore|warm_up is -1"):
        Protocol(**bad)
    with pytest.raises(ValueError, match="size 1: give at least 2"):
        steps_to_goal(1, 0, ALL)
