"""Which rule makes a target: without bias where rewards are noisy, and without illegal actions."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import Gumbel
from emcts.agents.mcts.targets import (
    Reanalyse,
    SearchedEdgeUbe,
    Trajectory,
    searched_or_td,
    searched_value,
    value_rule,
)
from emcts.models.evaluators import StateEstimate
from emcts.runs.config import override
from tests.agents.mcts.test_targets import KEY, context
from tests.agents.tiny import CATALOGUE


def test_the_exploration_target_has_no_illegal_actions() -> None:
    """Three of ten actions are legal, and the search tries no other."""
    legal = jnp.arange(10) < 3

    class Model:
        return_range = 1.0

        def estimate(self, states: Any) -> StateEstimate:
            nothing = jnp.zeros(states.shape)
            return StateEstimate(
                jnp.zeros((*states.shape, 10)), jnp.zeros((*states.shape, 10)), nothing, nothing
            )

        def root(self, states: Any, prior: Any) -> emcts.RootFnOutput:
            logits = jnp.where(legal[None], prior(self.estimate(states)), -jnp.inf)
            return emcts.RootFnOutput(logits, jnp.zeros(states.shape), states, jnp.full(states.shape, 9.0))

        def recurrent_fn(self, prior: Any) -> Any:
            return lambda _, key, actions, states: (
                self.step(states, actions, key).replace(prior_logits=prior(self.estimate(states))),
                states,
            )

        def step(self, states: Any, actions: Any, key: Any) -> emcts.RecurrentFnOutput:
            nothing, one = jnp.zeros(states.shape), jnp.ones(states.shape)
            return emcts.RecurrentFnOutput(nothing, nothing, None, nothing, one, nothing)

        def invalid_actions(self, states: Any) -> Any:
            return jnp.broadcast_to(~legal, (*states.shape, 10))

        def stands_for(self, embeddings: Any, states: Any) -> Any:
            return embeddings == states

    search = Gumbel(6)
    reanalyse = Reanalyse(search, searched_value, SearchedEdgeUbe(), exploring=search, exploration_beta=1.0)
    searched = reanalyse.search(KEY, Model(), jnp.zeros(2))
    np.testing.assert_allclose(searched.exploration, np.array([[1 / 3] * 3 + [0] * 7] * 2), rtol=1e-6)
    np.testing.assert_allclose(searched.edge_variance, 1.0, rtol=1e-6)


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_value_targets_of_noisy_rewards_have_no_bias(mean: float) -> None:
    """A correct search, and rewards of N(mean, 1) that end the episode."""
    number = 20_000
    noise = jax.random.normal(KEY, (number, 1))
    trajectory = Trajectory(
        states=jnp.arange(2 * number).reshape(number, 2),
        actions=jnp.zeros((number, 1), jnp.int32),
        rewards=mean + noise,
        terminated=jnp.ones((number, 1), bool),
        truncated=jnp.zeros((number, 1), bool),
        policy=jnp.zeros((number, 2)),
    )
    inputs = context(trajectory, np.zeros((number, 2)))
    inputs = dataclasses.replace(inputs, searched=inputs.searched.replace(value=jnp.full(number, mean)))
    assert float(value_rule(deterministic=False)(inputs).mean()) == pytest.approx(mean, abs=1e-3)
    assert float(value_rule(deterministic=True)(inputs).mean()) == pytest.approx(mean + 0.4, abs=0.02)


@pytest.mark.parametrize(
    ("environment", "changes", "rule"),
    [
        ("deep-sea", {}, searched_or_td),
        ("deep-sea", {"env.stochastic": True}, searched_value),
        ("subleq", {}, searched_or_td),
        ("minatar-breakout", {}, searched_value),
    ],
)
def test_the_environment_decides_which_value_target(environment: str, changes: Any, rule: Any) -> None:
    settings = override(CATALOGUE.settings(environment, "e-az"), changes)
    learner = CATALOGUE.compose(environment, "e-az", settings)
    assert isinstance(learner, MctsLearner)
    assert learner.reanalyse.value is rule
