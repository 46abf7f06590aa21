"""Whether a run is judged by what its episodes did, or by what chance paid for it."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents import catalogue
from emcts.agents.judging import Evaluated, ReturnReached, episodes_solved
from emcts.agents.trainer import SeedTrainer
from tests.agents.tiny import BDQN, DEEP_SEA, advanced, table, trainer

SEEDS = tuple(range(32))
SIZE = 12  # one random episode in 4096 reaches the goal


def stochastic(agent: str, **changes: Any) -> SeedTrainer:
    """Before it learns anything; the bottom left corner pays N(0, 1)."""
    preset = catalogue.settings("deep-sea", agent)
    settings = dataclasses.replace(preset, size=SIZE, stochastic=True, **changes)
    return catalogue.trainer("deep-sea", agent, settings, SEEDS)


TINY_AZ = {**DEEP_SEA, "size": SIZE, "simulations": 2, "width": 8}
TINY = {
    "az": {name: value for name, value in TINY_AZ.items() if name != "size"},
    "bdqn": {**BDQN, "hidden": (8,)},
}


@pytest.mark.parametrize("agent", [pytest.param("az", marks=pytest.mark.long), "bdqn"])
def test_a_noisy_return_does_not_solve_deep_sea(agent: str) -> None:
    one = stochastic(agent, **TINY[agent])
    state, lucky, never = one.init(), np.zeros(len(SEEDS), bool), np.ones(len(SEEDS), bool)
    for _ in range(10):
        state, report = one.advance(state)
        lucky |= report.metrics["return"] >= 0.985
        never = np.isnan(report.metrics["first_reward_step"])
        assert np.all(np.isnan(report.metrics["solved_step"][never]))
        assert np.all(report.metrics["solved"][never] == 0)
        if np.any(lucky & never):
            return
    raise AssertionError("no seed was paid as much as for the goal: take more seeds")


def test_a_solved_evaluation_is_one_in_which_every_episode_was() -> None:
    def share(*solved: bool) -> float:
        episodes = jnp.array(solved)
        return float(episodes_solved(Evaluated(jnp.zeros(len(solved)), jnp.ones(len(solved), int), episodes)))

    assert (share(False, False), share(True, False, True, True)) == (0.0, 0.75)
    assert share(*[True] * 41) == 1, "and not a little less by rounding"


def test_without_a_judgement_of_its_own_a_mean_return_solves_an_environment() -> None:
    def share(*returns: float) -> float:
        flags = jnp.zeros(len(returns), bool)
        return float(ReturnReached(0.5)(Evaluated(jnp.array(returns), flags.astype(int), flags)))

    assert (share(0.0, 1.0), share(0.0, 0.9)) == (1.0, 0.0)


def test_the_share_of_evaluation_episodes_that_were_solved_is_reported() -> None:
    sea = trainer("deep-sea", "bdqn")
    state, reports = advanced(sea, sea.init(), 10)
    solved, reached = table(reports, "solved"), table(reports, "return") > 0.9
    np.testing.assert_array_equal(solved, reached)
    steps = np.array([report.env_steps for report in reports])
    first = [steps[solved[:, seed] == 1][0] for seed in range(2)]
    np.testing.assert_array_equal(reports[-1].metrics["solved_step"], first)
    played = sea.evaluate(state, episodes=3, beta=0.0, seed=0)
    np.testing.assert_array_equal(played["solved"], np.ones((2, 3)))
