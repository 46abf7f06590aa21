"""Searches for targets and in evaluation, where the policy head has excluded the action with the best value."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.builtin_tasks import deep_sea
from emcts.agents.mcts.planners import ExplorationParams, Gumbel, SearchPlanner, mixed_with_uniform
from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.runs.config import override
from tests.agents.chain import KEY, LENGTH, Chain, ChainState, random_tables, state_from_tables
from tests.agents.mcts.test_planners import AGENT
from tests.agents.tiny import settings

SIMULATIONS = 8
EXCLUDED = 40.0  # in logits: more than any scaled q-value
STATES = ChainState(jnp.arange(LENGTH, dtype=jnp.int32))
PLAIN = Gumbel(SIMULATIONS, gumbel_scale=0.0)


def plan(planner: SearchPlanner, policy: np.ndarray) -> Any:
    """The plan for each state, by networks with these logits."""
    state = state_from_tables(AGENT, dataclasses.replace(random_tables(pairs=True), policy=policy))

    @jax.jit
    def run() -> Any:
        model = AGENT.world_model.planning_models(Chain(), state.target)(state.novelty)
        return planner(KEY, model, STATES, ExplorationParams.constant(STATES))

    return run()


@pytest.mark.parametrize("at", [0, 2])
def test_an_action_that_the_policy_excludes_is_taken_again_for_its_value(at: int) -> None:
    logits = np.zeros((LENGTH, 2))
    best = int(np.argmax(plan(PLAIN, logits).qvalues[at]))
    logits[at, best] = -EXCLUDED
    mixed = dataclasses.replace(PLAIN, uniform_fraction=0.1)
    without, with_mixture = (plan(planner, logits) for planner in (PLAIN, mixed))
    assert without.action[at] != best
    assert without.policy[at, best] < 1e-6, "no target leads back to it"
    assert with_mixture.action[at] == best
    assert with_mixture.policy[at, best] > 0.5


@pytest.mark.parametrize("fraction", [0.01, 0.5])
def test_a_mixture_with_the_uniform_policy(fraction: float) -> None:
    logits = jnp.array([[0.0, 1.0, -50.0], [3.0, 3.0, 3.0]])
    mixture = jax.nn.softmax(mixed_with_uniform(logits, fraction))
    np.testing.assert_allclose(mixture, (1 - fraction) * jax.nn.softmax(logits) + fraction / 3, rtol=1e-5)
    assert mixed_with_uniform(logits, 0.0) is logits


def test_the_settings_reach_the_searches_for_targets_and_evaluation_alone() -> None:
    chosen = override(settings("deep-sea", "e-az"), {"targets.uniform_fraction": 0.2})
    agent = compose(VARIANTS["e-az"], deep_sea(chosen.env), chosen)
    for planner in (agent.reanalyse.planner, agent.evaluation_planner):
        assert isinstance(planner, SearchPlanner)
        assert planner.uniform_fraction == 0.2
    assert isinstance(agent.planner, SearchPlanner)
    assert agent.planner.uniform_fraction == 0
