"""The Pallas kernels, interpreted, build the same trees as plain JAX, and they compile for CUDA."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.search.traversal.backend import INTERPRETED_KERNELS, KERNELS, PLAIN
from tests.search.random_model import RandomModel

BATCH, SIMULATIONS = 3, 10


def search(policy: Any, backend: emcts.Backend, actions: int, key: Any, **options: Any) -> Any:
    model = RandomModel.make(30, actions, terminal=0.15)
    mask = jnp.asarray(np.random.default_rng(0).random((BATCH, actions)) < 0.2)
    root, recurrent_fn = model.root(emcts, BATCH, variance=True), model.recurrent_fn(emcts, variance=True)
    beta = jnp.array([0.0, 2.0, -1.0])
    out = policy(None, key, root, recurrent_fn, SIMULATIONS, mask, beta=beta, backend=backend, **options)
    return out.search_tree


CASES = [
    (emcts.uct_policy, 5, {}),
    (emcts.uct_policy, 2, {"max_depth": 2, "propagation": emcts.correlated}),
    (emcts.muzero_policy, 3, {"dirichlet_fraction": 0.0}),
    (emcts.gumbel_muzero_policy, 6, {}),
    (emcts.gumbel_muzero_policy, 1, {"propagation": emcts.correlated}),
]


@pytest.mark.parametrize(("policy", "actions", "options"), CASES)
def test_same_trees(policy: Any, actions: int, options: dict[str, Any]) -> None:
    trees = [
        jax.jit(lambda key, backend=backend: search(policy, backend, actions, key, **options))(
            jax.random.key(1)
        )
        for backend in (PLAIN, INTERPRETED_KERNELS)
    ]
    assert int(trees[0].node_visits[:, 0].sum()) == BATCH * (SIMULATIONS + 1)
    for a, b in zip(jax.tree.leaves(trees[0]), jax.tree.leaves(trees[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_same_trees_under_vmap() -> None:
    keys = jax.random.split(jax.random.key(0), 2)
    trees = [
        jax.jit(jax.vmap(lambda key, backend=backend: search(emcts.gumbel_muzero_policy, backend, 3, key)))(
            keys
        )
        for backend in (PLAIN, INTERPRETED_KERNELS)
    ]
    for a, b in zip(jax.tree.leaves(trees[0]), jax.tree.leaves(trees[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("policy", "actions", "options"), CASES[1:4])
def test_kernels_lower_for_cuda(policy: Any, actions: int, options: dict[str, Any]) -> None:
    traced = jax.jit(lambda key: search(policy, KERNELS, actions, key, **options)).trace(jax.random.key(1))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("emcts_simulate") >= 1
    assert text.count("emcts_backup") >= 1


def test_plain_jax_replaces_the_kernels_on_a_cpu() -> None:
    traced = jax.jit(lambda key: search(emcts.uct_policy, KERNELS, 3, key)).trace(jax.random.key(1))
    assert "emcts_simulate" not in traced.lower(lowering_platforms=("cpu",)).as_text()


def test_stochastic_rule_in_a_kernel() -> None:
    def decide(params: Any, key: Any, action: Any, state: Any) -> Any:
        logits = jnp.stack([state, -state, 0.3 * state], axis=-1)
        return emcts.DecisionRecurrentFnOutput(
            logits, jnp.sin(3 * state + action), state**2
        ), state + 0.1 * action

    def chance(params: Any, key: Any, outcome: Any, state: Any) -> Any:
        logits = jnp.stack([jnp.cos(state), jnp.sin(5 * state)], axis=-1)
        values = jnp.sin(7 * state + outcome)
        discount = jnp.full(state.shape, 0.9)
        output = emcts.ChanceRecurrentFnOutput(logits, values, 0.1 * outcome, discount, values**2, state**2)
        return output, state - 0.2 * outcome

    start = jnp.array([0.1, 0.7])
    root = emcts.RootFnOutput(jnp.zeros((2, 2)), start, start)

    def run(backend: emcts.Backend) -> Any:
        key = jax.random.key(2)
        policy = emcts.stochastic_muzero_policy
        return policy(
            None, key, root, decide, chance, 12, beta=1.0, dirichlet_fraction=0.0, backend=backend
        ).search_tree

    plain, kernels = jax.jit(lambda: run(PLAIN))(), jax.jit(lambda: run(INTERPRETED_KERNELS))()
    np.testing.assert_array_equal(plain.node_visits, kernels.node_visits)
    np.testing.assert_allclose(plain.edge_qvalue_stds, kernels.edge_qvalue_stds, rtol=1e-6, atol=1e-6)
    assert int((plain.children_index >= 0).sum()) > 2
