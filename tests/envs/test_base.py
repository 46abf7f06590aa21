"""The optional members of environments, and what holds for an environment without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples.own_environment import KeyCorridor

from emcts.envs import (
    ArtifactEnvironment,
    DeepSea,
    FiniteEnvironment,
    GoalEnvironment,
    GridEnvironment,
    NamedActionsEnvironment,
    NoveltyEnvironment,
    Outcome,
    PackableEnvironment,
    RegretEnvironment,
    RenderableEnvironment,
    Subleq,
    auto_reset,
    time_limit,
)
from emcts.envs.base import artifact_of, is_on_host, is_success, pack_state, tree_where, unpack_state

KEY = jax.random.key(0)
PROTOCOLS = (
    ArtifactEnvironment,
    FiniteEnvironment,
    GoalEnvironment,
    GridEnvironment,
    NamedActionsEnvironment,
    NoveltyEnvironment,
    PackableEnvironment,
    RegretEnvironment,
    RenderableEnvironment,
)
GRID = {
    FiniteEnvironment,
    GoalEnvironment,
    GridEnvironment,
    NamedActionsEnvironment,
    RegretEnvironment,
    RenderableEnvironment,
}
PROGRAMS = {ArtifactEnvironment, NamedActionsEnvironment, PackableEnvironment, RenderableEnvironment}


class NamedParts(KeyCorridor):
    @property
    def novelty_inputs(self):
        return {"place": lambda state: state.position}


@pytest.mark.parametrize(
    ("env", "protocols"),
    [
        (DeepSea(3), GRID),
        (DeepSea(3).with_map(jnp.ones((3, 3), jnp.int32)), GRID),
        (Subleq(), PROGRAMS),
        (time_limit(DeepSea(3), 2), GRID),
        (time_limit(Subleq(), 2), PROGRAMS),
        (time_limit(KeyCorridor(), 2), set()),
        (time_limit(NamedParts(), 2), {NoveltyEnvironment}),
    ],
    ids=[
        *("deep-sea", "deep-sea-with-map", "subleq"),
        *("limited-grid", "limited-subleq", "limited-plain", "limited-novelty"),
    ],
)
def test_optional_members_are_found_by_their_protocols(env, protocols):
    assert {protocol for protocol in PROTOCOLS if isinstance(env, protocol)} == protocols


@pytest.mark.parametrize("reward", [0.5, 0.0, -1.0])
def test_success_is_a_positive_reward_unless_the_environment_has_a_goal(reward):
    outcome = Outcome(jnp.float32(reward), jnp.bool_(True), jnp.bool_(False))
    env = DeepSea(2, stochastic=True)
    for column, at_goal in [(2, True), (1, False)]:
        after = env.init(KEY).replace(row=jnp.int32(2), column=jnp.int32(column))
        assert bool(is_success(env, after, outcome)) is at_goal
        limited = time_limit(env, 2)
        assert bool(is_success(limited, limited.init(KEY).replace(inner=after), outcome)) is at_goal


def test_states_are_stored_whole_and_without_artifacts_by_default():
    env = DeepSea(3)
    state = env.init(KEY)
    assert unpack_state(env, pack_state(env, state)) is state
    assert artifact_of(env, state) == ()


def test_an_environment_says_that_its_simulator_runs_on_the_host():
    class OnHost(KeyCorridor):
        on_host = True

    assert is_on_host(OnHost())
    assert is_on_host(auto_reset(OnHost()))
    assert not is_on_host(time_limit(KeyCorridor(), 9))


def test_tree_where_selects_leaf_by_leaf():
    yes, no = {"a": jnp.array([1, 2]), "b": jnp.float32(3)}, {"a": jnp.array([4, 5]), "b": jnp.float32(6)}
    for condition, expected in [(True, yes), (False, no)]:
        selected = jax.jit(tree_where)(jnp.array(condition), yes, no)
        jax.tree.map(np.testing.assert_array_equal, selected, expected)
