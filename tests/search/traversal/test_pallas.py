"""The Pallas kernels, interpreted, build the same trees as plain JAX, and they compile for CUDA."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.search.traversal.backend import PLAIN
from emcts.search.traversal.kernels import INTERPRETED_KERNELS, KERNELS
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
    pytest.param(
        emcts.uct_policy, 2, {"max_depth": 2, "propagation": emcts.correlated}, marks=pytest.mark.long
    ),
    (emcts.muzero_policy, 3, {"dirichlet_fraction": 0.0}),
    (emcts.gumbel_muzero_policy, 6, {}),
    (emcts.muzero_policy, 3, {"backup": emcts.power_mean(8), "dirichlet_fraction": 0.0}),
    pytest.param(emcts.gumbel_muzero_policy, 1, {"propagation": emcts.correlated}, marks=pytest.mark.long),
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


@pytest.mark.parametrize(("policy", "actions", "options"), [CASES[0], *CASES[2:5]])
def test_kernels_lower_for_cuda(policy: Any, actions: int, options: dict[str, Any]) -> None:
    traced = jax.jit(lambda key: search(policy, KERNELS, actions, key, **options)).trace(jax.random.key(1))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("emcts_simulate") >= 1
    assert text.count("emcts_advance") >= 1


def test_the_backup_of_selection_functions_lowers_for_cuda() -> None:
    def select(rng_key: Any, tree: Any, node_index: Any, depth: Any = 0) -> Any:
        return jnp.argmax(-tree.children_visits[node_index])

    def run(backend: emcts.Backend) -> Any:
        model = RandomModel.make(30, 3, terminal=0.15)
        root, recurrent_fn = model.root(emcts, 2, variance=True), model.recurrent_fn(emcts, variance=True)
        return emcts.search(
            None,
            jax.random.key(0),
            root=root,
            recurrent_fn=recurrent_fn,
            root_action_selection_fn=select,
            interior_action_selection_fn=select,
            num_simulations=8,
            backend=backend,
        )

    text = jax.jit(lambda: run(KERNELS)).trace().lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("emcts_backup") >= 1
    trees = [jax.jit(lambda backend=backend: run(backend))() for backend in (PLAIN, INTERPRETED_KERNELS)]
    for a, b in zip(jax.tree.leaves(trees[0]), jax.tree.leaves(trees[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_embeddings_of_any_kind() -> None:
    """Kernels move rows of numbers; what they cannot load, or what is large, is moved around them."""
    shape = (2,)

    def start(key: Any) -> Any:
        return {
            "flags": jax.random.bernoulli(key, 0.5, (*shape, 3)),
            "image": jax.random.normal(key, (*shape, 3, 2, 5)).astype(jnp.bfloat16),
            "keys": jax.random.split(key, 2),
            "large": jax.random.normal(key, (*shape, 5000)),
            "count": jnp.arange(2, dtype=jnp.int8),
            "nothing": jnp.zeros((*shape, 0)),
        }

    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        value = jnp.sin(state["count"] + state["large"][:, 0] + action)
        step = emcts.RecurrentFnOutput(
            reward=value, discount=jnp.full(shape, 0.9), prior_logits=state["large"][:, :3], value=value**2
        )
        return step, {
            "flags": ~state["flags"],
            "image": state["image"] + action[:, None, None, None].astype(jnp.bfloat16),
            "keys": jax.vmap(jax.random.fold_in)(state["keys"], action),
            "large": jnp.roll(state["large"], 1, axis=1),
            "count": state["count"] + 1,
            "nothing": state["nothing"],
        }

    def run(backend: emcts.Backend) -> Any:
        root = emcts.RootFnOutput(jnp.zeros((2, 3)), jnp.zeros(2), start(jax.random.key(3)))
        key = jax.random.key(0)
        return emcts.muzero_policy(None, key, root, recurrent_fn, 9, backend=backend).search_tree

    plain, kernels = jax.jit(lambda: run(PLAIN))(), jax.jit(lambda: run(INTERPRETED_KERNELS))()
    assert int(plain.embeddings["count"].max()) >= 3
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(kernels), strict=True):
        assert a.dtype == b.dtype
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_allclose(a.astype(jnp.float32), b.astype(jnp.float32), rtol=1e-6, atol=1e-6)


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
