"""Evaluation: whether episodes solve a task, by the environment's own criterion or by their return."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.training.evaluation import EvaluationResult, ReturnReached, episodes_solved, play_episodes
from tests.agents.chain import LENGTH, ON, STOP, Chain
from tests.agents.tiny import CATALOGUE, Changes, advanced, settings, table, trainer

SEEDS = tuple(range(32))
SIZE = 12  # one random episode in 4096 reaches the goal
SMALL: dict[str, Changes] = {
    "az": {"search.simulations": 2, "model.width": 8},
    "bdqn": {"ensemble.hidden": (8,)},
}


@pytest.mark.parametrize("agent", [pytest.param("az", marks=pytest.mark.long), "bdqn"])
def test_a_noisy_return_does_not_solve_deep_sea(agent: str) -> None:
    """Before anything is learned; rewards in the bottom left corner are N(0, 1)."""
    changes = {**SMALL[agent], "env.size": SIZE, "env.stochastic": True}
    one = CATALOGUE.trainer("deep-sea", agent, settings("deep-sea", agent, changes), SEEDS)
    state, lucky, never = one.init(), np.zeros(len(SEEDS), bool), np.ones(len(SEEDS), bool)
    for _ in range(10):
        state, report = one.advance(state)
        lucky |= report.metrics["return"] >= 0.985
        never = np.isnan(report.metrics["first_reward_step"])
        assert np.all(np.isnan(report.metrics["solved_step"][never]))
        assert np.all(report.metrics["solved"][never] == 0)
        if np.any(lucky & never):
            return
    raise AssertionError("no seed had as large a return as that of the goal: take more seeds")


def test_an_evaluation_is_solved_if_every_episode_is() -> None:
    def fraction(*solved: bool) -> float:
        number = len(solved)
        return float(
            episodes_solved(EvaluationResult(jnp.zeros(number), jnp.ones(number, int), jnp.array(solved)))
        )

    assert (fraction(False, False), fraction(True, False, True, True)) == (0.0, 0.75)
    assert fraction(*[True] * 41) == 1, "and not a little less by rounding"


def test_without_a_criterion_a_mean_return_solves_an_environment() -> None:
    def fraction(*returns: float) -> float:
        flags = jnp.zeros(len(returns), bool)
        return float(ReturnReached(0.5)(EvaluationResult(jnp.array(returns), flags.astype(int), flags)))

    assert (fraction(0.0, 1.0), fraction(0.0, 0.9)) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("max_steps", "action", "length", "reached"),
    [(10, ON, LENGTH, True), (10, STOP, 1, False), (2, ON, 2, False)],
)
def test_episodes_end_or_are_cut_off(max_steps: int, action: int, length: int, reached: bool) -> None:
    def policy(key: jax.Array, states: object) -> jax.Array:
        return jnp.full(3, action)

    result = play_episodes(Chain(), policy, jax.random.key(0), num_episodes=3, max_steps=max_steps)
    np.testing.assert_array_equal(result.length, [length] * 3)
    np.testing.assert_array_equal(result.episode_return, [float(reached)] * 3)
    np.testing.assert_array_equal(result.solved, [reached] * 3)


def test_the_fraction_of_solved_evaluation_episodes_is_reported() -> None:
    one = trainer("deep-sea", "bdqn")
    state, reports = advanced(one, one.init(), 10)
    solved, reached = table(reports, "solved"), table(reports, "return") > 0.9
    np.testing.assert_array_equal(solved, reached)
    steps = np.array([report.env_steps for report in reports])
    first = [steps[solved[:, seed] == 1][0] for seed in range(2)]
    np.testing.assert_array_equal(reports[-1].metrics["solved_step"], first)
    episodes = one.evaluate(state, episodes=3, beta=0.0, seed=0)
    np.testing.assert_array_equal(episodes["solved"], np.ones((2, 3)))
