"""Backups, one-step lookahead and chance nodes by hand."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts


def chain(params: Any, key: Any, action: Any, state: Any) -> Any:
    """Root -0-> left (reward 1, variance 4), root -1-> right (reward 2, variance 9); values 10, variances 1."""
    left = action == 0
    step = emcts.RecurrentFnOutput(
        reward=jnp.where(left, 1.0, 2.0),
        discount=jnp.full(action.shape, 0.5),
        prior_logits=jnp.zeros((*action.shape, 2)),
        value=jnp.full(action.shape, 10.0),
        reward_variance=jnp.where(left, 4.0, 9.0),
        value_variance=jnp.full(action.shape, 1.0),
    )
    return step, state + 1


@functools.partial(jax.jit, static_argnames=("simulations", "propagation"))
def run(
    simulations: int, beta: Any = 0.0, c: Any = 1.0, propagation: Any = emcts.independent
) -> emcts.SearchSummary:
    root = emcts.RootFnOutput(
        prior_logits=jnp.zeros((1, 2)),
        value=jnp.ones(1),
        embedding=jnp.zeros(1),
        value_variance=jnp.full(1, 16.0),
    )
    options = {"beta": beta, "c": c, "propagation": propagation}
    return emcts.uct_policy(
        None, jax.random.key(0), root, chain, simulations, **options
    ).search_tree.summary()


def test_three_nodes_independent() -> None:
    summary = run(2)
    np.testing.assert_allclose(summary.visit_counts, [[1, 1]])
    np.testing.assert_allclose(summary.qvalues, [[1 + 0.5 * 10, 2 + 0.5 * 10]])
    left, right = np.sqrt(4 + 0.25 * 1), np.sqrt(9 + 0.25 * 1)
    np.testing.assert_allclose(summary.qvalues_std, [[left, right]], rtol=1e-6)
    np.testing.assert_allclose(summary.value, [(1 + 6 + 7) / 3], rtol=1e-6)
    np.testing.assert_allclose(summary.value_std, [(4 + left + right) / 3], rtol=1e-6)


def test_three_nodes_correlated() -> None:
    summary = run(2, propagation=emcts.correlated)
    np.testing.assert_allclose(summary.qvalues_std, [[2 + 0.5, 3 + 0.5]], rtol=1e-6)
    np.testing.assert_allclose(summary.value_std, [(4 + 2.5 + 3.5) / 3], rtol=1e-6)


def test_std_of_an_edge_is_a_mean_of_stds() -> None:
    """The third visit goes below 'right': neither the root of a mean variance nor one step over the child's std."""
    summary = run(3)
    np.testing.assert_allclose(summary.visit_counts, [[1, 2]])
    first = np.sqrt(9 + 0.25 * 1)
    second = np.sqrt(9 + 0.25 * (4 + 0.25 * 1))
    np.testing.assert_allclose(summary.qvalues_std[0, 1], (first + second) / 2, rtol=1e-6)
    mean_variance = np.sqrt((first**2 + second**2) / 2)
    over_child = np.sqrt(9 + 0.25 * ((1 + np.sqrt(4.25)) / 2) ** 2)
    assert abs(mean_variance - over_child) > 1e-4
    assert abs(summary.qvalues_std[0, 1] - mean_variance) > 1e-4
    assert abs(summary.qvalues_std[0, 1] - over_child) > 1e-4


def test_beta_zero_prefers_the_mean_and_negative_beta_the_known() -> None:
    assert int(jnp.argmax(run(12, beta=0.0, c=0.1).visit_counts[0])) == 1
    assert int(jnp.argmax(run(12, beta=-3.0, c=0.1).visit_counts[0])) == 0


@pytest.mark.parametrize(("delta", "beta"), [(1.0, 1.0), (0.25, 2.0), (0.04, 5.0)])
def test_beta_for_confidence(delta: float, beta: float) -> None:
    np.testing.assert_allclose(emcts.beta_for_confidence(delta), beta, rtol=1e-6)


@pytest.mark.parametrize("delta", [0.0, -1.0, 1.5])
def test_confidence_out_of_range(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        emcts.beta_for_confidence(delta)


def test_ube_root_scores_cover_all_actions() -> None:
    """One simulation tries one action; the score of the other comes from one step of the model."""
    root = emcts.RootFnOutput(prior_logits=jnp.zeros((1, 2)), value=jnp.ones(1), embedding=jnp.zeros(1))
    tree = jax.jit(lambda key: emcts.uct_policy(None, key, root, chain, 1).search_tree)(jax.random.key(0))
    scores = emcts.ube_root_scores(None, jax.random.key(0), root, chain, tree, beta=2.0)
    expected = [6 + 2 * np.sqrt(4 + 0.25 * 1), 7 + 2 * np.sqrt(9 + 0.25 * 1)]
    np.testing.assert_allclose(scores, [expected], rtol=1e-6)
    masked = tree.replace(root_invalid_actions=jnp.array([[False, True]]))
    scores = emcts.ube_root_scores(None, jax.random.key(0), root, chain, masked, beta=2.0)
    assert scores[0, 1] == -jnp.inf


def test_chance_nodes_carry_variance() -> None:
    """action -> afterstate (no reward, discount 1) -> outcome (reward 3, variance 2, discount 0.5)."""

    def decide(params: Any, key: Any, action: Any, state: Any) -> Any:
        batch = action.shape
        output = emcts.DecisionRecurrentFnOutput(
            jnp.zeros((*batch, 2)), jnp.full(batch, 4.0), jnp.full(batch, 9.0)
        )
        return output, state

    def chance(params: Any, key: Any, outcome: Any, state: Any) -> Any:
        batch = outcome.shape
        output = emcts.ChanceRecurrentFnOutput(
            action_logits=jnp.zeros((*batch, 1)),
            value=jnp.full(batch, 6.0),
            reward=jnp.full(batch, 3.0),
            discount=jnp.full(batch, 0.5),
            reward_variance=jnp.full(batch, 2.0),
            value_variance=jnp.full(batch, 16.0),
        )
        return output, state

    root = emcts.RootFnOutput(prior_logits=jnp.zeros((1, 1)), value=jnp.zeros(1), embedding=jnp.zeros(1))
    policy = emcts.stochastic_muzero_policy
    search = jax.jit(
        lambda key: policy(None, key, root, decide, chance, 2, dirichlet_fraction=0.0).search_tree
    )
    summary = search(jax.random.key(0)).summary()
    np.testing.assert_allclose(summary.qvalues, [[(4 + (3 + 0.5 * 6)) / 2]])
    np.testing.assert_allclose(summary.qvalues_std, [[(3 + np.sqrt(2 + 0.25 * 16)) / 2]], rtol=1e-6)
