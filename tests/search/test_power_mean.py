"""Backups between the mean and the max of stds: every node of a tree against its edges, and what must not change."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.search.traversal.backend import PLAIN
from emcts.search.traversal.kernels import INTERPRETED_KERNELS
from tests.search.random_model import RandomModel, search

BATCH, ACTIONS, SIMULATIONS = 4, 3, 30
POLICIES = (emcts.uct_policy, emcts.muzero_policy, emcts.gumbel_muzero_policy)
BETAS = np.array([0.0, 1.0, 4.0, -1.0], np.float32)


def tree_of(policy: Any, backup: Any, *, known: bool = False, **options: Any) -> Any:
    model = RandomModel.make(3, ACTIONS, terminal=0.1)
    if known:
        nothing = np.zeros_like(model.reward), np.zeros_like(model.value)
        model = dataclasses.replace(model, reward_variance=nothing[0], value_variance=nothing[1])
    options = {"beta": BETAS, "backup": backup, **options}
    return jax.device_get(search(model, policy, BATCH, SIMULATIONS, **options).search_tree)


def mean_of(visits: np.ndarray, stds: np.ndarray, raw: float, exponent: float) -> float:
    """The raw estimate stands for actions that were not tried."""
    if len(visits) < ACTIONS:
        visits, stds = np.append(visits, 1), np.append(stds, raw)
    if math.isinf(exponent):
        return float(stds.max())
    return float((visits @ stds**exponent / visits.sum()) ** (1 / exponent))


@pytest.mark.parametrize("exponent", [1.0, 2.0, 8.0, math.inf])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_std_follows_from_those_below(policy: Any, exponent: float) -> None:
    tree = tree_of(policy, emcts.power_mean(exponent))
    checked = 0
    for row in range(BATCH):
        for node in range(int((tree.node_visits[row] > 0).sum())):
            children = tree.children_index[row, node]
            children = children[children >= 0]
            raw = tree.raw_value_stds[row, node]
            std = tree.node_value_stds[row, node]
            if len(children):
                stds = tree.edge_qvalue_stds[row, children]
                wanted = mean_of(tree.node_visits[row, children], stds, raw, exponent)
                np.testing.assert_allclose(std, wanted, rtol=1e-4)
                checked += 1
            elif tree.edge_discounts[row, node] != 0:
                np.testing.assert_allclose(std, raw, rtol=1e-6)
            if node and tree.edge_discounts[row, node] != 0:
                discount = tree.edge_discounts[row, node]
                edge = math.sqrt(tree.edge_reward_variances[row, node] + discount**2 * std**2)
                np.testing.assert_allclose(tree.edge_qvalue_stds[row, node], edge, rtol=1e-4)
    assert checked > 2 * BATCH


def test_the_max_is_that_of_the_best_path() -> None:
    """The root has the largest std of a path to a leaf or to an untried action, found by plain recursion."""
    tree = tree_of(emcts.uct_policy, emcts.power_mean(math.inf))

    def best(row: int, node: int) -> float:
        children = [child for child in tree.children_index[row, node] if child >= 0]
        found = [
            math.sqrt(
                tree.edge_reward_variances[row, child]
                + tree.edge_discounts[row, child] ** 2 * best(row, child) ** 2
            )
            for child in children
        ]
        return max(found + [float(tree.raw_value_stds[row, node])] * (len(children) < ACTIONS))

    for row in range(BATCH):
        np.testing.assert_allclose(tree.node_value_stds[row, 0], best(row, 0), rtol=1e-4)


@pytest.mark.parametrize("policy", POLICIES)
def test_without_beta_or_variance_it_is_the_plain_search(policy: Any) -> None:
    """Values never depend on stds but through scores."""
    for options in ({"beta": 0.0}, {"known": True}):
        mean, greedy = (
            tree_of(policy, backup, **options) for backup in (emcts.mean_backup, emcts.power_mean(math.inf))
        )
        for name in ("node_visits", "node_values", "children_index", "edge_qvalues"):
            np.testing.assert_array_equal(getattr(mean, name), getattr(greedy, name))


def test_the_default_is_the_mean_in_every_backend() -> None:
    for backend in (PLAIN, INTERPRETED_KERNELS):
        assert backend.backing_up(emcts.mean_backup) is backend


def test_kernels_leave_other_backups_to_plain_jax() -> None:
    trees = [
        tree_of(emcts.muzero_policy, emcts.power_mean(4), backend=backend, dirichlet_fraction=0.0)
        for backend in (PLAIN, INTERPRETED_KERNELS)
    ]
    for one, other in zip(jax.tree.leaves(trees[0]), jax.tree.leaves(trees[1]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_power_means_by_hand() -> None:
    visits, stds = (
        jnp.array([[3.0, 1.0], [3.0, 0.0], [0.0, 0.0]]),
        jnp.array([[1.0, 5.0], [1.0, 0.0], [0.0, 0.0]]),
    )
    raw, complete = jnp.array([9.0, 5.0, 2.0]), jnp.array([True, False, False])

    def backed_up(exponent: float) -> Any:
        return emcts.power_mean(exponent)(visits, stds, raw, complete)

    np.testing.assert_allclose(backed_up(1), [2.0, 2.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(backed_up(2), [math.sqrt(7), math.sqrt(7), 2.0], rtol=1e-6)
    np.testing.assert_allclose(backed_up(math.inf), [5.0, 5.0, 2.0])
    np.testing.assert_allclose(emcts.mean_backup(visits, stds, raw, complete), [17 / 5, 8 / 4, 2.0])
    assert np.isfinite(emcts.power_mean(64)(visits, 1e30 * stds, raw, complete)).all()


def test_illegal_actions_are_not_waited_for() -> None:
    """Action 2 of the root is invalid: with the others visited, its raw estimate does not count."""
    model = RandomModel.make(3, ACTIONS)
    mask = np.zeros((BATCH, ACTIONS), bool)
    mask[:, 2] = True
    tree = jax.device_get(
        search(model, emcts.uct_policy, BATCH, 2, mask, backup=emcts.power_mean(math.inf)).search_tree
    )
    np.testing.assert_allclose(
        tree.node_value_stds[:, 0], tree.edge_qvalue_stds[:, 1:3].max(axis=1), rtol=1e-6
    )
    assert (tree.raw_value_stds[:, 0] > tree.node_value_stds[:, 0]).any()


@pytest.mark.parametrize("exponent", [0.5, 0.0, -1.0, math.nan])
def test_exponents_below_the_mean_are_refused(exponent: float) -> None:
    with pytest.raises(ValueError, match="exponent is"):
        emcts.power_mean(exponent)
