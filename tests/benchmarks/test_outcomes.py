"""The rows of the benchmark of outcomes, and its measures in a world with a known solution."""

import numpy as np
import pytest
from benchmarks.outcomes import DISCOUNT, OUTCOMES, WORLDS, chosen, policy_value, search_quality
from examples.slippery_lake import SlipperyLake

from emcts.envs import check
from emcts.envs.references import parse_reference


def test_rows_are_chosen_by_world_and_by_number() -> None:
    for world in WORLDS.values():
        parse_reference(world.reference)
    assert chosen(["2048"]) == ([], [("2048", outcomes) for outcomes in OUTCOMES])
    assert chosen(["search:lake", "breakout:4"]) == (["lake"], [("breakout", 4)])
    assert len(chosen([])[1]) == len(WORLDS) * len(OUTCOMES)
    with pytest.raises(ValueError, match="there is no row '2048:3'"):
        chosen(["2048:3"])


def test_the_lake_follows_the_rules_of_environments() -> None:
    check(SlipperyLake(4))
    with pytest.raises(ValueError, match="give 4 or 8"):
        SlipperyLake(5)


def test_the_optimal_policy_has_the_optimal_value() -> None:
    lake = SlipperyLake(4)
    qvalues = lake.optimal_qvalues(DISCOUNT)
    greedy = np.eye(4)[qvalues.argmax(axis=1)]
    over = lake.holes | (np.arange(16) == 15)
    np.testing.assert_allclose(policy_value(lake, greedy)[~over], qvalues.max(axis=1)[~over], rtol=1e-6)
    assert policy_value(lake, np.full((16, 4), 0.25))[0] < 0.2 * qvalues[0].max()


def test_more_outcomes_make_a_search_with_exact_values_better() -> None:
    naive, wise = (search_quality(4, 16, outcomes, tables=1, keys=8)[0] for outcomes in (1, 8))
    assert naive.leaves == wise.leaves == "exact"
    assert wise.regret < 0.7 * naive.regret
    assert wise.optimal > naive.optimal + 0.1
