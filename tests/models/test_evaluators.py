"""Evaluators against direct evaluation of the networks and the novelty estimator."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int, PyTree

from emcts.envs import DeepSea, Outcome
from emcts.models.codecs import Categorical
from emcts.models.evaluators import (
    Evaluator,
    NetworkEvaluator,
    NoNovelty,
    StateEstimate,
    TabularEvaluator,
    TransitionEstimate,
    all_states,
    decode,
    look_up,
    pair_index,
)
from emcts.models.networks import HeadSpec, Networks, indexed_networks, vector_networks
from emcts.novelty import Counts

KEY = jax.random.key(0)
ENV = DeepSea(4, seed=3)
PAIRS = ENV.num_states * ENV.num_actions
NOVELTY = Counts(PAIRS)
HEADS = HeadSpec(2, Categorical(10), bounded=False, ube=True, exploration=False)
BOUNDED = HeadSpec(2, Categorical(10), bounded=True, ube=True, exploration=True)
PLAIN = HeadSpec(2, Categorical(10), bounded=True, ube=False, exploration=False)
OUTCOME = Outcome(jnp.float32(0.5), jnp.bool_(False), jnp.bool_(False))


def with_random_weights(make: Callable[[], Networks]) -> Networks:
    """Networks with random numbers everywhere: some heads predict 0 as they are made."""
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.5 * rng.standard_normal(leaf.shape), leaf.dtype), jax.eval_shape(make)
    )


@pytest.fixture(scope="module")
def indexed() -> Networks:
    return with_random_weights(lambda: indexed_networks(ENV.num_states, HEADS, widths=(8,), key=KEY))


@pytest.fixture(scope="module")
def bounded() -> Networks:
    return with_random_weights(lambda: vector_networks(16, BOUNDED, widths=(8,), key=KEY))


@pytest.fixture(scope="module")
def visited() -> PyTree:
    pairs = jnp.array([0, 0, 3, 7, 7, 7])
    return NOVELTY.update(NOVELTY.init(KEY), pairs, jnp.ones(6, bool))


def of_cells() -> NetworkEvaluator:
    """Networks read the grid; the number of the cell that a step leads to is novel or not."""
    return NetworkEvaluator(
        Counts(17), lambda env, state: env.observe(state).reshape(-1), lambda env, state: env.cell(state)
    )


def test_tabular_state_estimates_are_those_of_the_networks(indexed: Networks) -> None:
    @jax.jit
    def in_table() -> StateEstimate:
        return jax.vmap(TabularEvaluator(NOVELTY).state_fn(ENV, indexed))(all_states(ENV))

    @jax.jit
    def directly(index: Int[Array, ""]) -> StateEstimate:
        raw = indexed.outputs(index)
        assert indexed.ube is not None
        assert raw.ube is not None
        return StateEstimate(
            policy=raw.policy,
            exploration=raw.policy,
            value=indexed.value.codec.decode(raw.value),
            ube=indexed.ube.codec.decode(raw.ube),
        )

    estimate = in_table()
    for index in range(ENV.num_states):
        direct = directly(jnp.int32(index))
        np.testing.assert_allclose(estimate.value[index], direct.value, atol=3e-6)
        np.testing.assert_allclose(estimate.ube[index], direct.ube, atol=3e-6)
        np.testing.assert_allclose(estimate.policy[index], direct.policy, rtol=1e-5)
        np.testing.assert_allclose(estimate.exploration[index], direct.exploration, rtol=1e-5)
    assert len(np.unique(estimate.value)) == ENV.num_states


def test_tabular_transition_estimates_are_learned_rewards_and_counts(
    indexed: Networks, visited: PyTree
) -> None:
    evaluator = TabularEvaluator(NOVELTY)

    @jax.jit
    def of_all_pairs() -> tuple[TransitionEstimate, Int[Array, "P"]]:
        evaluate_transition = evaluator.transition_fn(ENV, indexed)(visited)

        def one(pair: Int[Array, ""]) -> tuple[TransitionEstimate, Int[Array, ""]]:
            state, action = ENV.state_at(pair // 2), pair % 2
            after, outcome = ENV.step(state, action, KEY)
            novelty_input = evaluator.novelty_input(ENV, state, action, after)
            return evaluate_transition(state, action, after, outcome), novelty_input

        return jax.vmap(one)(jnp.arange(PAIRS))

    estimate, novelty_input = of_all_pairs()
    np.testing.assert_array_equal(novelty_input, np.arange(PAIRS))
    head = indexed.reward
    assert head is not None
    reward = jax.jit(lambda pair: head.codec.decode(head(pair)))
    for pair in range(PAIRS):
        np.testing.assert_allclose(estimate.reward[pair], reward(jnp.int32(pair)), atol=3e-6)
    visits = np.zeros(PAIRS)
    visits[[0, 3, 7]] = [2, 1, 3]
    np.testing.assert_allclose(estimate.novelty, 1 / (visits + 0.1), rtol=1e-6)
    np.testing.assert_array_equal(estimate.reward_variance, estimate.novelty)


def test_tabular_raw_outputs_are_those_of_the_pair(indexed: Networks) -> None:
    state, action = ENV.state_at(jnp.int32(4)), jnp.int32(1)
    raw, raw_reward = TabularEvaluator(NOVELTY).raw_outputs(ENV, indexed, state, action)
    np.testing.assert_allclose(raw.value, indexed.outputs(jnp.int32(4)).value)
    assert indexed.reward is not None
    assert raw_reward is not None
    assert int(pair_index(ENV, state, action)) == 4 * 2 + 1
    np.testing.assert_allclose(raw_reward, indexed.reward(jnp.int32(4 * 2 + 1)))


def test_a_look_up_finds_the_state() -> None:
    states = jax.vmap(ENV.state_at)(jnp.array([3, 3, 0, 9, 5]))
    every = TabularEvaluator(NOVELTY).all_states(ENV)
    found = jax.jit(jax.vmap(lambda state: look_up(every, ENV.index(state))))(states)
    np.testing.assert_array_equal(found.row, states.row)
    np.testing.assert_array_equal(found.column, states.column)
    assert of_cells().all_states(ENV) is None


@pytest.mark.parametrize("evaluator", [TabularEvaluator(NOVELTY), of_cells()], ids=["tabular", "network"])
def test_without_novelty_variances_are_zero(
    evaluator: Evaluator[DeepSea], indexed: Networks, visited: PyTree
) -> None:
    state = ENV.state_at(jnp.int32(2))
    evaluate_transition = evaluator.without_novelty().transition_fn(ENV, indexed)(visited)
    estimate = evaluate_transition(state, jnp.int32(0), state, OUTCOME)
    assert float(estimate.novelty) == float(estimate.reward_variance) == 0.0


def test_a_network_evaluator_takes_rewards_as_known_and_the_novelty_of_the_next_state(
    bounded: Networks,
) -> None:
    evaluator = of_cells()
    state = ENV.state_at(jnp.int32(4))
    novelty = evaluator.novelty.update(evaluator.novelty.init(KEY), jnp.array([9, 9]), jnp.ones(2, bool))

    @jax.jit
    def after_action(action: Int[Array, ""]) -> tuple[TransitionEstimate, Int[Array, ""], Int[Array, ""]]:
        after, _ = ENV.step(state, action, KEY)
        estimate = evaluator.transition_fn(ENV, bounded)(novelty)(state, action, after, OUTCOME)
        return estimate, ENV.cell(after), evaluator.novelty_input(ENV, state, action, after)

    for action in range(2):
        estimate, cell, novelty_input = after_action(jnp.int32(action))
        assert float(estimate.reward) == 0.5
        assert float(estimate.reward_variance) == 0.0
        np.testing.assert_allclose(estimate.novelty, 1 / ((2 if cell == 9 else 0) + 0.1), rtol=1e-6)
        assert int(novelty_input) == int(cell)


def test_a_network_evaluator_decodes_the_heads(bounded: Networks) -> None:
    evaluator = of_cells()
    state = ENV.state_at(jnp.int32(4))
    estimate = evaluator.state_fn(ENV, bounded)(state)
    raw = bounded.outputs(ENV.observe(state).reshape(-1))
    assert raw.ube is not None
    np.testing.assert_allclose(estimate.value, jnp.tanh(raw.value[0]), rtol=1e-6)
    np.testing.assert_allclose(estimate.ube, 0.5 * (jnp.tanh(raw.ube[0]) + 1), rtol=1e-6)
    np.testing.assert_array_equal(estimate.exploration, raw.exploration)
    assert not np.allclose(estimate.exploration, estimate.policy)
    np.testing.assert_array_equal(
        evaluator.raw_outputs(ENV, bounded, state, jnp.int32(0))[0].value, raw.value
    )


def test_without_a_ube_head_variances_are_zero_and_policies_the_same() -> None:
    networks = vector_networks(16, PLAIN, widths=(8,), key=KEY)
    estimate = decode(networks, networks.outputs(jnp.ones(16)))
    assert float(estimate.ube) == 0.0
    np.testing.assert_array_equal(estimate.exploration, estimate.policy)


def test_a_tabular_evaluator_names_the_head_it_needs(bounded: Networks) -> None:
    with pytest.raises(ValueError, match="give networks with a reward head"):
        TabularEvaluator(NoNovelty()).transition_fn(ENV, bounded)
