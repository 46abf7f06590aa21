"""Backups between the mean and the max of stds: against lists of all returns, and what must not change."""

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
from tests.search import oracle
from tests.search.random_model import RandomModel, search
from tests.search.test_oracle import ACTIONS, BATCH, compare

SIMULATIONS = 40
POLICIES = (emcts.uct_policy, emcts.muzero_policy, emcts.gumbel_muzero_policy)
BETAS = np.array([0.0, 1.0, 4.0, -1.0, 0.3], np.float32)


def tree_of(policy: Any, backup: Any, *, known: bool = False, **options: Any) -> Any:
    model = RandomModel.make(3, ACTIONS, terminal=0.1)
    if known:
        nothing = np.zeros_like(model.reward), np.zeros_like(model.value)
        model = dataclasses.replace(model, reward_variance=nothing[0], value_variance=nothing[1])
    options = {"beta": BETAS, "backup": backup, **options}
    return jax.device_get(search(model, policy, BATCH, SIMULATIONS, **options).search_tree)


@pytest.mark.parametrize("backend", [PLAIN, INTERPRETED_KERNELS])
@pytest.mark.parametrize("exponent", [1, 2.0, 8, math.inf])
def test_every_std_is_a_power_mean_of_those_of_all_returns(exponent: float, backend: Any) -> None:
    model = RandomModel.make(1, ACTIONS, terminal=0.1)
    backup = emcts.power_mean(exponent)
    options = {"beta": BETAS, "c": 0.7, "backup": backup, "backend": backend}
    out = search(model, emcts.uct_policy, BATCH, SIMULATIONS, None, None, **options)
    for b, beta in enumerate(BETAS):
        choose = oracle.euct(float(beta), c=0.7)
        root = oracle.search(model, b, choose, SIMULATIONS, exponent=exponent)
        assert compare(out.search_tree, b, root) > ACTIONS


@pytest.mark.parametrize("policy", POLICIES)
def test_an_exponent_of_one_is_the_mean(policy: Any) -> None:
    mean, power = (tree_of(policy, backup) for backup in (emcts.mean_backup, emcts.power_mean(1)))
    np.testing.assert_array_equal(mean.children_index, power.children_index)
    np.testing.assert_allclose(mean.edge_qvalue_stds, power.edge_qvalue_stds, rtol=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_without_beta_or_variance_it_is_the_plain_search(policy: Any) -> None:
    """Values never depend on stds but through scores."""
    for options in ({"beta": 0.0}, {"known": True}):
        mean, greedy = (
            tree_of(policy, backup, **options) for backup in (emcts.mean_backup, emcts.power_mean(math.inf))
        )
        for name in ("node_visits", "node_values", "children_index", "edge_qvalues"):
            np.testing.assert_array_equal(getattr(mean, name), getattr(greedy, name))


def test_a_function_of_ones_own_runs_in_every_backend() -> None:
    def smallest(std: Any, count: Any, new: Any) -> Any:
        return jnp.minimum(std, new)

    plain, kernels = (
        tree_of(emcts.muzero_policy, smallest, backend=backend, dirichlet_fraction=0.0)
        for backend in (PLAIN, INTERPRETED_KERNELS)
    )
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(kernels), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    mean = tree_of(emcts.muzero_policy, emcts.mean_backup, dirichlet_fraction=0.0)
    assert (plain.node_value_stds[:, 0] < mean.node_value_stds[:, 0]).all()


def test_power_means_by_hand() -> None:
    std, count, new = jnp.array([1.0, 2.0, 0.0]), jnp.array([3, 1, 5]), jnp.array([5.0, 0.0, 0.0])

    def backed_up(exponent: float) -> Any:
        return emcts.power_mean(exponent)(std, count, new)

    np.testing.assert_allclose(backed_up(1), [2.0, 1.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(backed_up(2), [math.sqrt(7), math.sqrt(2), 0.0], rtol=1e-6)
    np.testing.assert_allclose(backed_up(math.inf), [5.0, 2.0, 0.0])
    np.testing.assert_allclose(emcts.mean_backup(std, count, new), [2.0, 1.0, 0.0])
    assert np.isfinite(emcts.power_mean(64)(1e30 * std, count, 1e30 * new)).all()


def test_equal_stds_stay_equal_to_the_last_digit() -> None:
    std = jnp.float32(0.1)
    assert all(emcts.power_mean(8)(std, jnp.int32(n), std) == std for n in range(1, 60))


@pytest.mark.parametrize("exponent", [0.5, 0.0, -1.0, math.nan])
def test_exponents_below_the_mean_are_refused(exponent: float) -> None:
    with pytest.raises(ValueError, match="exponent is"):
        emcts.power_mean(exponent)
