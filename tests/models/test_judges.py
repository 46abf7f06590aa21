"""Judges against asking the networks and the estimator directly."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import DeepSea, Outcome
from emcts.models.codecs import Categorical
from emcts.models.evaluators import NetworkEvaluator, NoNovelty, TabularEvaluator, row
from emcts.models.networks import Networks, indexed_networks, pair_index, vector_networks
from emcts.novelty import Counts

KEY = jax.random.key(0)
ENV = DeepSea(4, seed=3)
PAIRS = ENV.num_states * ENV.num_actions
NOVELTY = Counts(PAIRS)
OUTCOME = Outcome(jnp.float32(0.5), jnp.bool_(False), jnp.bool_(False))


def shaken(networks: Networks) -> Networks:
    """The same networks with other numbers everywhere: as they are made, heads say nothing."""
    leaves, form = jax.tree.flatten(networks)
    keys = jax.random.split(KEY, len(leaves))
    noise = [0.3 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(form, [leaf + extra for leaf, extra in zip(leaves, noise, strict=True)])


@pytest.fixture(scope="module")
def finite() -> Networks:
    make = jax.jit(
        lambda: shaken(
            indexed_networks(ENV.num_states, 2, widths=(8,), values=Categorical(10), ube=True, key=KEY)
        )
    )
    return make()


@pytest.fixture(scope="module")
def seen() -> Any:
    pairs = jnp.array([0, 0, 3, 7, 7, 7])
    return NOVELTY.update(NOVELTY.init(KEY), pairs, jnp.ones(6, bool))


def all_states() -> Any:
    return jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))


def test_finite_states_are_what_the_networks_say(finite: Networks) -> None:
    estimate = jax.jit(lambda: jax.vmap(TabularEvaluator(NOVELTY).states(ENV, finite))(all_states()))()
    for index in range(ENV.num_states):
        raw = finite.state(jnp.int32(index))
        np.testing.assert_allclose(estimate.value[index], finite.value.codec.decode(raw.value), atol=3e-6)
        assert finite.ube is not None
        np.testing.assert_allclose(estimate.ube[index], finite.ube.codec.decode(raw.ube), atol=3e-6)
        np.testing.assert_allclose(estimate.policy[index], raw.policy, rtol=1e-5)
        np.testing.assert_allclose(estimate.exploration[index], raw.policy, rtol=1e-5)
    assert len(np.unique(estimate.value)) == ENV.num_states


def test_finite_steps_are_learned_rewards_and_counts(finite: Networks, seen: Any) -> None:
    evaluator = TabularEvaluator(NOVELTY)

    @jax.jit
    def all_steps() -> Any:
        evaluate_transition = evaluator.steps(ENV, finite)(seen)

        def one(pair: Any) -> Any:
            state = ENV.state_at(pair // 2)
            after, outcome = ENV.step(state, pair % 2, KEY)
            return evaluate_transition(state, pair % 2, after, outcome), evaluator.novelty_input(
                ENV, state, pair % 2, after
            )

        return jax.vmap(one)(jnp.arange(PAIRS))

    estimate, novelty_input = all_steps()
    np.testing.assert_array_equal(novelty_input, np.arange(PAIRS))
    head = finite.reward
    assert head is not None
    for pair in range(PAIRS):
        np.testing.assert_allclose(estimate.reward[pair], head.codec.decode(head(jnp.int32(pair))), atol=3e-6)
    visits = np.zeros(PAIRS)
    visits[[0, 3, 7]] = [2, 1, 3]
    np.testing.assert_allclose(estimate.novelty, 1 / (visits + 0.1), rtol=1e-6)
    np.testing.assert_array_equal(estimate.reward_variance, estimate.novelty)


def test_finite_losses_read_the_outputs_of_the_same_pair(finite: Networks) -> None:
    state, action = ENV.state_at(jnp.int32(4)), jnp.int32(1)
    raw, raw_reward = TabularEvaluator(NOVELTY).raw(ENV, finite, state, action)
    np.testing.assert_allclose(raw.value, finite.state(jnp.int32(4)).value)
    assert finite.reward is not None
    np.testing.assert_allclose(raw_reward, finite.reward(pair_index(jnp.int32(4), action, 2)))


def test_each_looks_up_what_it_would_compute() -> None:
    states = jax.vmap(ENV.state_at)(jnp.array([3, 3, 0, 9, 5]))

    every = TabularEvaluator(NOVELTY).all_states(ENV)
    looked_up = jax.jit(jax.vmap(lambda state: row(every, ENV.index(state))))(states)
    np.testing.assert_array_equal(looked_up.row, states.row)
    np.testing.assert_array_equal(looked_up.column, states.column)
    assert dense().all_states(ENV) is None


def test_known_takes_the_novelty_away(finite: Networks, seen: Any) -> None:
    state = ENV.state_at(jnp.int32(2))
    for evaluator in (TabularEvaluator(NOVELTY), dense()):
        step = evaluator.known().steps(ENV, finite)(seen)(state, jnp.int32(0), state, OUTCOME)
        assert float(step.novelty) == float(step.reward_variance) == 0.0


def dense() -> NetworkEvaluator:
    """Sees the grid, and looks at the number of the cell that a step leads to."""

    def cell(env: Any, state: Any) -> Any:
        return env.cell(state)

    return NetworkEvaluator(Counts(17), lambda env, state: env.observe(state).reshape(-1), cell)


def test_a_dense_judge_knows_rewards_and_looks_where_a_step_leads() -> None:
    evaluator = dense()
    networks = shaken(vector_networks(16, 2, widths=(8,), uncertain=True, key=KEY))
    state = ENV.state_at(jnp.int32(4))
    novelty = evaluator.novelty.update(evaluator.novelty.init(KEY), jnp.array([9, 9]), jnp.ones(2, bool))

    @jax.jit
    def try_out(action: Any) -> Any:
        after, _ = ENV.step(state, action, KEY)
        step = evaluator.steps(ENV, networks)(novelty)(state, action, after, OUTCOME)
        return step, ENV.cell(after), evaluator.novelty_input(ENV, state, action, after)

    for action in range(2):
        step, cell, novelty_input = try_out(jnp.int32(action))
        assert float(step.reward) == 0.5
        assert float(step.reward_variance) == 0.0
        np.testing.assert_allclose(step.novelty, 1 / ((2 if cell == 9 else 0) + 0.1), rtol=1e-6)
        assert int(novelty_input) == int(cell)
    estimate = evaluator.states(ENV, networks)(state)
    raw = networks.state(ENV.observe(state).reshape(-1))
    assert networks.ube is not None
    np.testing.assert_allclose(estimate.value, jnp.tanh(raw.value[0]), rtol=1e-6)
    np.testing.assert_allclose(estimate.ube, 0.5 * (jnp.tanh(raw.ube[0]) + 1), rtol=1e-6)
    np.testing.assert_array_equal(estimate.exploration, raw.exploration)
    assert not np.allclose(estimate.exploration, estimate.policy)
    np.testing.assert_array_equal(evaluator.raw(ENV, networks, state, jnp.int32(0))[0].value, raw.value)


def test_without_heads_of_uncertainty_nothing_is_uncertain() -> None:
    networks = vector_networks(16, 2, widths=(8,), uncertain=False, key=KEY)
    estimate = dense().states(ENV, networks)(ENV.state_at(jnp.int32(4)))
    assert float(estimate.ube) == 0.0
    np.testing.assert_array_equal(estimate.exploration, estimate.policy)


def test_a_finite_judge_says_which_head_it_needs(finite: Networks) -> None:
    bounded = vector_networks(16, 2, widths=(8,), uncertain=True, key=KEY)
    with pytest.raises(ValueError, match="give networks with a reward head"):
        TabularEvaluator(NoNovelty()).steps(ENV, bounded)
