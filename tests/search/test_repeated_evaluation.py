"""Models that sample rewards: an edge that is evaluated again has the mean of its samples, not the last one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.search.traversal.backend import PLAIN
from emcts.search.traversal.kernels import INTERPRETED_KERNELS
from tests.search import oracle
from tests.search.random_model import RandomModel
from tests.search.test_oracle import compare

BATCH, ACTIONS, SIMULATIONS = 3, 4, 40
KEY = jax.random.key(11)


def drawing(model: RandomModel) -> Any:
    """The model, with N(0, 1) added to the reward of terminal transitions, drawn anew for each call."""
    plain = model.recurrent_fn(emcts, variance=True)

    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        step, after = plain(params, key, action, state)
        noise = jax.random.normal(key, action.shape)
        return step.replace(reward=step.reward + jnp.where(step.discount == 0, noise, 0.0)), after

    return recurrent_fn


def draws(search_key: Any) -> np.ndarray:
    """What chance adds in each simulation: the keys of the model are those that mctx would give it."""
    key, noise = search_key, []
    for _ in range(SIMULATIONS):
        key, _, model_key = jax.random.split(key, 3)
        noise.append(jax.random.normal(model_key, (BATCH,)))
    return np.asarray(noise, np.float64)


def run(policy: Any, model: RandomModel, **options: Any) -> Any:
    root, recurrent_fn = model.root(emcts, BATCH, variance=True), drawing(model)
    return jax.jit(lambda key: policy(None, key, root, recurrent_fn, SIMULATIONS, **options))(KEY)


def test_trees_with_random_terminal_rewards_equal_the_oracle() -> None:
    model = RandomModel.make(5, ACTIONS, terminal=0.4)
    betas = np.array([0.0, 1.0, -1.0], np.float32)
    out = run(emcts.uct_policy, model, beta=betas, c=0.7)
    noise = draws(jax.random.split(KEY)[1])
    most = 0
    for b, beta in enumerate(betas):
        root = oracle.search(model, b, oracle.euct(float(beta), c=0.7), SIMULATIONS, draws=noise[:, b])
        assert compare(out.search_tree, b, root) > ACTIONS
        ends = [edge for edge in root.edges.values() if edge.discount == 0]
        most = max(most, *(len(edge.returns) for edge in ends))
    assert most > 3, "no terminal edge was evaluated often: this model tests nothing"


def bandit(reward_of: Any, policy: Any, batch: int, simulations: int, **options: Any) -> Any:
    """One action, which ends the episode: every simulation evaluates its edge."""

    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        zero = jnp.zeros(action.shape)
        reward = reward_of(key, action.shape)
        return emcts.RecurrentFnOutput(reward, zero, zero[:, None], zero, 1 + zero, zero), state

    root = emcts.RootFnOutput(jnp.zeros((batch, 1)), jnp.zeros(batch), jnp.zeros(batch))
    return jax.jit(lambda key: policy(None, key, root, recurrent_fn, simulations, **options))(KEY)


@pytest.mark.parametrize("policy", [emcts.uct_policy, emcts.muzero_policy, emcts.gumbel_muzero_policy])
@pytest.mark.parametrize("backend", [PLAIN, INTERPRETED_KERNELS])
def test_q_of_a_random_terminal_reward_is_a_mean(policy: Any, backend: Any) -> None:
    batch, visits = 64, 11
    tree = bandit(jax.random.normal, policy, batch, visits, backend=backend).search_tree
    summary = tree.summary()
    assert np.all(summary.visit_counts == visits)
    spread = float(np.std(np.asarray(summary.qvalues)))
    assert 0.2 < spread < 0.4, f"a mean of {visits} samples of N(0, 1) has a std of 0.30, q has {spread:.2f}"
    np.testing.assert_allclose(summary.qvalues, tree.children_rewards[:, 0], rtol=1e-5, atol=1e-6)
    # The root has its own estimate, 0, and the same draws.
    np.testing.assert_allclose(summary.value, summary.qvalues[:, 0] * visits / (visits + 1), rtol=1e-4)


def test_a_model_that_draws_nothing_keeps_its_estimates_to_the_last_digit() -> None:
    odd = 0.1 + 0.7 / 3

    def fixed(key: Any, shape: Any) -> Any:
        return jnp.full(shape, odd)

    tree = bandit(fixed, emcts.uct_policy, 2, 37).search_tree
    np.testing.assert_array_equal(tree.summary().qvalues, np.float32(odd))
    np.testing.assert_array_equal(tree.summary().qvalues_std, 1)


def test_estimates_at_the_depth_limit_are_means() -> None:
    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        one = jnp.ones(action.shape)
        value = jax.random.normal(key, action.shape)
        return emcts.RecurrentFnOutput(0 * one, 0.5 * one, one[:, None], value), state

    batch, visits = 512, 11
    root = emcts.RootFnOutput(jnp.zeros((batch, 1)), jnp.zeros(batch), jnp.zeros(batch))
    search = jax.jit(lambda key: emcts.uct_policy(None, key, root, recurrent_fn, visits, max_depth=1))
    tree = search(KEY).search_tree
    assert 0.13 < float(np.std(np.asarray(tree.summary().qvalues))) < 0.17
    np.testing.assert_allclose(
        tree.summary().qvalues[:, 0], 0.5 * tree.node_values[:, 1], rtol=1e-5, atol=1e-6
    )
