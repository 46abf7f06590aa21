"""Evaluation and regret go by what episodes did, not by noisy rewards."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import DeepSea, MinAtar, Subleq
from emcts.envs.deep_sea import episodes_to_solve
from emcts.training.evaluation import EvaluationResult, ReturnReached, episodes_solved
from emcts.training.log import MAX_REGRET, regret_balance, zero_regret
from emcts.training.loop import run_chunk
from emcts.training.seeds import SeedTrainer
from tests.agents.tiny import CATALOGUE, advanced, settings, table, trainer

SEEDS = tuple(range(32))
SIZE = 12  # one random episode in 4096 reaches the goal


TINY: dict[str, dict[str, Any]] = {
    "az": {"search.simulations": 2, "model.width": 8},
    "bdqn": {"ensemble.hidden": (8,)},
}


def stochastic(agent: str) -> SeedTrainer[Any]:
    """Before it learns anything; the bottom left corner has a reward of N(0, 1)."""
    changes = {**TINY[agent], "env.size": SIZE, "env.stochastic": True}
    return CATALOGUE.trainer("deep-tiny", agent, settings("deep-tiny", agent, changes), SEEDS)


@pytest.mark.parametrize("agent", [pytest.param("az", marks=pytest.mark.long), "bdqn"])
def test_a_noisy_return_does_not_solve_deep_sea(agent: str) -> None:
    one = stochastic(agent)
    state, lucky, never = one.init(), np.zeros(len(SEEDS), bool), np.ones(len(SEEDS), bool)
    for _ in range(10):
        state, report = one.advance(state)
        lucky |= report.metrics["return"] >= 0.985
        never = np.isnan(report.metrics["first_reward_step"])
        assert np.all(np.isnan(report.metrics["solved_step"][never]))
        assert np.all(report.metrics["solved"][never] == 0)
        if np.any(lucky & never):
            return
    raise AssertionError("no seed had a return as high as that of the goal: take more seeds")


def test_a_solved_evaluation_is_one_in_which_every_episode_was() -> None:
    def share(*solved: bool) -> float:
        episodes = jnp.array(solved)
        return float(
            episodes_solved(EvaluationResult(jnp.zeros(len(solved)), jnp.ones(len(solved), int), episodes))
        )

    assert (share(False, False), share(True, False, True, True)) == (0.0, 0.75)
    assert share(*[True] * 41) == 1, "and not a little less by rounding"


def test_without_a_criterion_of_its_own_a_mean_return_solves_an_environment() -> None:
    def share(*returns: float) -> float:
        flags = jnp.zeros(len(returns), bool)
        return float(ReturnReached(0.5)(EvaluationResult(jnp.array(returns), flags.astype(int), flags)))

    assert (share(0.0, 1.0), share(0.0, 0.9)) == (1.0, 0.0)


def test_the_share_of_evaluation_episodes_that_were_solved_is_reported() -> None:
    tiny = trainer("deep-tiny", "bdqn")
    state, reports = advanced(tiny, tiny.init(), 10)
    solved, reached = table(reports, "solved"), table(reports, "return") > 0.9
    np.testing.assert_array_equal(solved, reached)
    steps = np.array([report.env_steps for report in reports])
    first = [steps[solved[:, seed] == 1][0] for seed in range(2)]
    np.testing.assert_array_equal(reports[-1].metrics["solved_step"], first)
    played = tiny.evaluate(state, episodes=3, beta=0.0, seed=0)
    np.testing.assert_array_equal(played["solved"], np.ones((2, 3)))


def regret_step(ended: np.ndarray, good: np.ndarray) -> float:
    """bsuite's score of all parallel episodes [steps, E], in the order in which they end."""
    (steps,) = np.nonzero(ended.reshape(-1))
    count = episodes_to_solve(~good.reshape(-1)[steps])
    return np.nan if count is None else float(steps[count - 1] + 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_balance_of_regret_is_the_score_of_bsuite(seed: int) -> None:
    """With episodes of any length, several of which end at once, and few of them good."""
    rng = np.random.default_rng(seed)
    ended, good = rng.random((200, 4)) < 0.4, rng.random((200, 4)) < 0.1
    balance, found = jnp.int32(0), np.nan
    for step, (over, well) in enumerate(zip(ended, good, strict=True)):
        after = np.asarray(regret_balance(balance, jnp.asarray(over), jnp.asarray(well)))
        if np.isnan(found) and np.any(low := over & (after > 0)):
            found = float(4 * step + np.argmax(low) + 1)
        balance = jnp.int32(after[-1])
    np.testing.assert_equal(found, regret_step(ended, good))


def test_the_balance_of_regret_does_not_wrap() -> None:
    one, yes = jnp.ones(1, bool), jnp.zeros(1, bool)
    assert int(regret_balance(jnp.int32(-MAX_REGRET), one, yes)[0]) == -MAX_REGRET
    assert int(regret_balance(jnp.int32(MAX_REGRET), one, ~yes)[0]) == MAX_REGRET


@pytest.mark.parametrize("agent", ["e-az", "bdqn"])
def test_regret_is_counted_at_the_end_of_each_episode(agent: str) -> None:
    """In all parallel episodes, those that exploit and those that explore."""
    learner = trainer("deep-tiny", agent).learner
    per_iteration = learner.steps_per_iteration
    state = learner.init(jax.random.key(3), jnp.asarray(learner.env_factory.params(3)))
    chunk = jax.jit(lambda state, learning: run_chunk(learner, state, learning, jnp.zeros(len(learning))))
    iterations = 600 // per_iteration
    learning = np.arange(1, iterations + 1) * per_iteration >= learner.schedule.warmup_steps
    state, metrics = chunk(state, learning)
    played = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(600, 1), metrics.rollout)
    wanted = regret_step(played.ended, played.success)
    assert int(state.log.low_regret) == wanted, "an episode of Deep Sea is good just when it ends at the goal"


def test_an_evaluation_reports_the_step_of_the_episode() -> None:
    tiny = trainer("deep-tiny", "bdqn")
    _, reports = advanced(tiny, tiny.init(), 10)
    found = reports[-1].metrics["regret_step"]
    assert np.all(found % 5 == 0), "an episode has five steps"
    assert np.any(found % 100 != 0), "and an evaluation comes after a hundred"
    earned = np.cumsum(table(reports, "train_return") * table(reports, "episodes"), axis=0)
    low = 1 - earned / np.cumsum(table(reports, "episodes"), axis=0) / 0.99 < 0.9
    np.testing.assert_array_equal(low.argmax(axis=0), np.ceil(found / 100) - 1)


def test_an_environment_defines_which_episodes_have_regret() -> None:
    env = DeepSea(3)
    end = env.init(jax.random.key(0)).replace(row=jnp.int32(3), column=jnp.int32(3))
    for column in (3, 2):
        found = zero_regret(env, end.replace(column=jnp.int32(column)))
        assert found is not None
        assert bool(found) is (column == 3)
    assert zero_regret(Subleq("negate", 16, 4), end) is None
    assert zero_regret(MinAtar("breakout"), end) is None
