"""What a success is: in worlds with rare rewards, in worlds where every step pays, and in those that say it."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples.own_environment import KeyCorridor
from jaxtyping import Array, Bool, PyTree

from emcts.agents.catalogue import Registered
from emcts.agents.task import try_out
from emcts.envs import DeepSea, Outcome, time_limit
from emcts.runs.config import override
from emcts.training.evaluation import ReturnReached, Success, play_episodes

KEY = jax.random.key(0)
REFERENCE = "tests:Corridor"
LEFT, RIGHT = 0, 1


@dataclasses.dataclass(frozen=True)
class Costly(KeyCorridor):
    """Each step costs 0.1, and the door pays `goal`."""

    goal: float = 10.0

    def step(self, state: PyTree, action: Array, key: Any) -> tuple[PyTree, Outcome]:
        after, outcome = super().step(state, action, key)
        cost = jnp.where(state.is_open, 0.0, 0.1).astype(jnp.float32)
        return after, outcome.replace(reward=self.goal * outcome.reward - cost)


class Noisy(KeyCorridor):
    def step(self, state: PyTree, action: Array, key: Any) -> tuple[PyTree, Outcome]:
        after, outcome = super().step(state, action, key)
        return after, outcome.replace(reward=jnp.where(state.is_open, 0.0, jax.random.normal(key)))


class Goal(Costly):
    def solved(self, state: PyTree) -> Bool[Array, ""]:
        return state.is_open


class Known(Costly):
    reward_threshold = 7.5


def resolved(env: Any, changes: Mapping[str, Any] | None = None) -> Any:
    catalogue = Registered(objects={REFERENCE: env})
    settings = override(catalogue.settings(REFERENCE, "e-az"), changes or {})
    return catalogue.resolve(REFERENCE, "e-az", settings)


def test_rare_rewards_are_successes() -> None:
    found = try_out(time_limit(KeyCorridor(15), 30), 30)
    assert found.baseline_return is None
    evaluation = resolved(time_limit(KeyCorridor(15), 30)).evaluation
    assert (evaluation.baseline_return, evaluation.solved_return) == (None, None)


def test_where_each_step_pays_the_best_random_episode_is_to_beat() -> None:
    found = try_out(time_limit(Costly(15), 30), 30)
    assert found.deterministic
    assert found.baseline_return == pytest.approx(-3.0)
    assert try_out(time_limit(Goal(15), 30), 30).baseline_return is None
    assert resolved(time_limit(Known(15), 30)).evaluation.solved_return == 7.5
    asked = resolved(time_limit(Costly(15), 30), {"evaluation.baseline_return": 2.0})
    assert asked.evaluation.baseline_return == 2.0


class Points(KeyCorridor):
    """Coming to the left end pays 1."""

    def step(self, state: PyTree, action: Array, key: Any) -> tuple[PyTree, Outcome]:
        after, outcome = super().step(state, action, key)
        came = (after.position == 0) & (state.position == 1)
        return after, outcome.replace(reward=jnp.where(came, 1.0, 0.0))


def test_where_an_episode_goes_on_after_a_reward_the_best_random_one_is_to_beat() -> None:
    found = try_out(time_limit(Points(7), 30), 30)
    assert not found.dense
    assert found.baseline_return is not None
    assert found.baseline_return >= 2.0


@pytest.mark.parametrize("goal", [10.0, 2.0])
def test_episodes_that_end_with_more_are_successes(goal: float) -> None:
    env = time_limit(Costly(5, goal), 20)
    path = jnp.array([LEFT] * 2 + [RIGHT] * 4 + [2])

    def policy(key: Any, states: PyTree) -> Array:
        return jnp.array([path[states.time[0]], LEFT])  # the first episode opens the door

    baseline = try_out(env, 20).baseline_return
    assert baseline is not None
    success = Success(baseline)
    result = play_episodes(env, policy, KEY, num_episodes=2, max_steps=20, success=success)
    np.testing.assert_allclose(result.episode_return, [goal - 0.7, -2.0], rtol=1e-5)
    best = float(np.max(result.episode_return))
    assert result.solved.tolist() == [best > baseline, False]
    for baseline, solved in [(goal, False), (goal - 0.7, False), (goal - 0.8, True)]:
        result = play_episodes(env, policy, KEY, num_episodes=2, max_steps=20, success=Success(baseline))
        assert result.solved.tolist() == [solved, False]


def test_an_episode_that_evaluation_cuts_off_has_ended() -> None:
    env = Costly(5)
    play = functools.partial(
        play_episodes, env, lambda key, states: jnp.zeros(1, jnp.int32), KEY, num_episodes=1
    )
    assert play(max_steps=5, success=Success(-0.6)).solved.tolist() == [True]
    assert play(max_steps=7, success=Success(-0.6)).solved.tolist() == [False]


def test_an_environment_that_says_when_it_is_solved_is_believed() -> None:
    env = DeepSea(3, None)
    right = functools.partial(
        play_episodes, env, lambda key, states: jnp.ones(1, jnp.int32), KEY, num_episodes=1
    )
    assert right(max_steps=3, success=Success(99.0)).solved.tolist() == [True]


@pytest.mark.parametrize("agent", ["bdqn", "az"])
def test_training_episodes_have_the_same_successes(agent: str) -> None:
    catalogue = Registered(objects={REFERENCE: time_limit(Noisy(3), 5)})
    smoke = catalogue.smoke_changes(REFERENCE, agent)
    changes = {**smoke, "evaluation.baseline_return": 0.0, "schedule.rollout_length": 48}
    settings = override(catalogue.settings(REFERENCE, agent), changes)
    learner = catalogue.compose(REFERENCE, agent, settings)
    _, stats = jax.jit(learner.act)(learner.init(KEY, ()))
    expected = stats.ended & (stats.episode_return > 0)
    assert expected.any()
    assert (stats.ended & ~expected).any()
    np.testing.assert_array_equal(stats.success, expected)
    evaluation = learner.evaluation
    assert evaluation.solved is None
    known = override(settings, {"evaluation.solved_return": 3.0})
    assert catalogue.compose(REFERENCE, agent, known).evaluation.solved == ReturnReached(3.0)
