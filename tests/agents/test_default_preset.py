"""Settings that the default preset leaves open, and what decides them."""

from typing import Any

import pytest

from emcts.envs import time_limit
from tests.agents.test_success import Costly, KeyCorridor, resolved

SPARSE, DENSE = time_limit(KeyCorridor(15), 30), time_limit(Costly(15), 30)


@pytest.mark.parametrize(
    ("env", "changes", "steps"),
    [
        (SPARSE, {}, 1),
        (DENSE, {}, 5),
        (DENSE, {"env.deterministic": False}, 1),
        (SPARSE, {"targets.value_steps": 3}, 3),
    ],
    ids=["sparse", "dense", "stochastic", "given"],
)
def test_values_that_are_sums_of_rewards_take_more_steps(env: Any, changes: Any, steps: int) -> None:
    assert resolved(env, changes).targets.value_steps == steps


@pytest.mark.parametrize(
    ("steps", "every"), [(100, 2048), (50 * 2048, 2048), (50 * 2048 + 1, 4096), (500_000, 10_240)]
)
def test_a_run_has_no_more_than_50_evaluations(steps: int, every: int) -> None:
    assert resolved(SPARSE, {"steps": steps}).evaluation.every == every
