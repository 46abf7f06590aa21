"""Corner cases: rounding, masks without valid actions, sizes of one, terminal states, embeddings of any shape."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from tests.search.random_model import RandomModel, search

POLICIES = (emcts.uct_policy, emcts.muzero_policy, emcts.gumbel_muzero_policy)


def assert_finite(out: Any) -> None:
    for leaf in jax.tree.leaves(out.search_tree.summary()):
        assert np.all(np.isfinite(leaf))
    np.testing.assert_allclose(out.action_weights.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("propagation", [emcts.independent, emcts.correlated])
def test_a_variance_rounded_below_zero_is_zero(propagation: Any) -> None:
    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        tiny = jnp.full(action.shape, -1e-9)
        one = jnp.ones(action.shape)
        return emcts.RecurrentFnOutput(one, 0.9 * one, jnp.zeros((2, 3)), one, tiny, tiny), state

    root = emcts.RootFnOutput(jnp.zeros((2, 3)), jnp.zeros(2), jnp.zeros(2), jnp.full(2, -1e-9))
    policy = functools.partial(emcts.uct_policy, beta=2.0, propagation=propagation)
    out = jax.jit(lambda key: policy(None, key, root, recurrent_fn, 8))(jax.random.key(0))
    assert_finite(out)
    np.testing.assert_array_equal(out.search_tree.summary().qvalues_std, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_all_actions_invalid(policy: Any) -> None:
    """At the end of an episode no action may be valid: the weights of that row say so, and other rows are as ever."""
    mask = jnp.array([[1, 1, 1, 1], [0, 1, 0, 0]])
    out = search(RandomModel.make(40, 4), policy, 2, 20, mask)
    for leaf in jax.tree.leaves(out.search_tree.summary()):
        assert np.all(np.isfinite(leaf))
    np.testing.assert_array_equal(np.isnan(out.action_weights), [[True] * 4, [False] * 4])
    assert np.all((out.action >= 0) & (out.action < 4))
    assert out.action_weights[1, 1] < 1e-6


@pytest.mark.parametrize("policy", POLICIES)
def test_one_action_one_simulation(policy: Any) -> None:
    out = search(RandomModel.make(41, 1), policy, 2, 1)
    assert_finite(out)
    np.testing.assert_array_equal(out.action, 0)
    np.testing.assert_array_equal(out.search_tree.summary().visit_counts, 1)


def test_depth_one_is_a_bandit() -> None:
    model = RandomModel.make(42, 3)
    out = search(model, emcts.uct_policy, 2, 12, None, 1)
    assert_finite(out)
    assert np.asarray(out.search_tree.node_visits > 0).sum() == 2 * (1 + 3)
    for b in range(2):
        one_step = model.reward[b] + model.discount[b] * model.value[model.successor[b]]
        np.testing.assert_allclose(out.search_tree.summary().qvalues[b], one_step, rtol=1e-5)


def test_invalid_root_actions_are_never_visited() -> None:
    mask = jnp.asarray([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    for policy in POLICIES:
        out = search(RandomModel.make(43, 4), policy, 2, 20, mask, beta=5.0)
        assert not np.any(np.asarray(out.search_tree.summary().visit_counts)[np.asarray(mask, bool)])
        assert not np.any(np.asarray(mask)[np.arange(2), out.action])


def test_closed_actions_inside_the_tree_are_never_tried() -> None:
    """uct_policy reads one thing from a prior: a logit of -inf closes an action."""

    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        batch = action.shape
        logits = jnp.broadcast_to(jnp.array([-jnp.inf, 0.0, 0.0]), (*batch, 3))
        return emcts.RecurrentFnOutput(0.1 * action, jnp.ones(batch), logits, jnp.zeros(batch)), state

    root = emcts.RootFnOutput(jnp.zeros((1, 3)), jnp.zeros(1), jnp.zeros(1))
    tree = jax.jit(lambda key: emcts.uct_policy(None, key, root, recurrent_fn, 20).search_tree)(
        jax.random.key(0)
    )
    children = np.asarray(tree.children_visits)[0]
    assert children[0, 0] > 0
    assert not children[1:, 0].any()


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_collected_past_a_terminal_node(policy: Any) -> None:
    """Below a terminal node the model predicts large rewards, values and variances that a search must not use."""
    promised = 1e6

    def recurrent_fn(params: Any, key: Any, action: Any, depth: Any) -> Any:
        over = depth >= 1
        lots = jnp.where(over, promised, 1.0)
        step = emcts.RecurrentFnOutput(
            reward=lots,
            discount=jnp.where(depth == 0, 0.0, 1.0),
            prior_logits=jnp.zeros((*action.shape, 2)),
            value=jnp.full(action.shape, promised),
            reward_variance=jnp.where(over, promised, 4.0),
            value_variance=jnp.full(action.shape, promised),
        )
        return step, depth + 1

    root = emcts.RootFnOutput(jnp.zeros((1, 2)), jnp.zeros(1), jnp.zeros(1, jnp.int32))
    tree = jax.jit(lambda key: policy(None, key, root, recurrent_fn, 12, beta=1.0).search_tree)(
        jax.random.key(0)
    )
    summary = tree.summary()
    tried = np.asarray(summary.visit_counts)[0] > 0
    np.testing.assert_allclose(np.asarray(summary.qvalues)[0, tried], 1)
    np.testing.assert_allclose(np.asarray(summary.qvalues_std)[0, tried], 2)
    assert float(summary.visit_counts.sum()) == 12
    assert int((tree.node_visits > 0).sum()) == 1 + tried.sum(), "a node was made below a terminal one"


def test_embeddings_of_any_structure() -> None:
    def recurrent_fn(params: Any, key: Any, action: Any, embedding: Any) -> Any:
        count, nested = embedding
        one = jnp.ones(action.shape)
        keys = jax.vmap(jax.random.split)(nested["key"])[:, 0]
        nested = {"grid": nested["grid"] + action[:, None, None], "flag": ~nested["flag"], "key": keys}
        return emcts.RecurrentFnOutput(one, 0.5 * one, jnp.zeros((2, 2)), one), (count + 1, nested)

    nested = {
        "grid": jnp.zeros((2, 3, 4), jnp.bfloat16),
        "flag": jnp.zeros(2, bool),
        "key": jax.random.split(jax.random.key(0), 2),
    }
    root = emcts.RootFnOutput(jnp.zeros((2, 2)), jnp.zeros(2), (jnp.zeros(2, jnp.uint8), nested))
    tree = jax.jit(lambda key: emcts.uct_policy(None, key, root, recurrent_fn, 6).search_tree)(
        jax.random.key(0)
    )
    counts = np.asarray(tree.embeddings[0])
    parents = np.asarray(tree.parents)
    assert tree.embeddings[1]["grid"].shape == (2, 7, 3, 4)
    for b in range(2):
        for node in range(1, 7):
            assert counts[b, node] == counts[b, parents[b, node]] + 1


def test_negative_discounts_flip_values_but_not_variances() -> None:
    """Two players: what is good for one is bad for the other, and uncertain for both."""

    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        one = jnp.ones(action.shape)
        return emcts.RecurrentFnOutput(0 * one, -one, jnp.zeros((1, 1)), 3 * one, 0 * one, 4 * one), state

    root = emcts.RootFnOutput(jnp.zeros((1, 1)), jnp.zeros(1), jnp.zeros(1))
    for propagation in (emcts.independent, emcts.correlated):
        policy = functools.partial(emcts.uct_policy, propagation=propagation)
        search = jax.jit(lambda key, p=policy: p(None, key, root, recurrent_fn, 1).search_tree)
        summary = search(jax.random.key(0)).summary()
        np.testing.assert_allclose(summary.qvalues, [[-3]])
        np.testing.assert_allclose(summary.qvalues_std, [[2]])


def test_half_precision_values_keep_exact_counts() -> None:
    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        one = jnp.ones(action.shape, jnp.bfloat16)
        return emcts.RecurrentFnOutput(
            0.1 * one * action, 0.9 * one, jnp.zeros((1, 2), jnp.bfloat16), one
        ), state

    root = emcts.RootFnOutput(jnp.zeros((1, 2), jnp.bfloat16), jnp.zeros(1, jnp.bfloat16), jnp.zeros(1))
    for policy in (emcts.uct_policy, emcts.gumbel_muzero_policy):
        tree = jax.jit(lambda key, p=policy: p(None, key, root, recurrent_fn, 400).search_tree)(
            jax.random.key(0)
        )
        assert int(tree.node_visits[0, 0]) == 401
        assert tree.node_values.dtype == jnp.bfloat16
        assert np.all(np.isfinite(np.asarray(tree.node_values, np.float32)))
