"""Rows of a batch are independent; jit, vmap and scan change nothing."""

import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from tests.search.random_model import RandomModel

ACTIONS, SIMULATIONS = 3, 12
POLICIES = (emcts.uct_policy, emcts.muzero_policy, emcts.gumbel_muzero_policy)


def assert_trees_equal(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def run(policy: Any, states: Any, beta: Any, key: Any, model: RandomModel, **options: Any) -> Any:
    logits, values = jnp.asarray(model.prior_logits), jnp.asarray(model.value)
    root = emcts.RootFnOutput(
        logits[states], values[states], states, jnp.asarray(model.value_variance)[states]
    )
    recurrent_fn = model.recurrent_fn(emcts, variance=True)
    return policy(None, key, root, recurrent_fn, SIMULATIONS, beta=beta, **options)


@pytest.mark.parametrize("policy", [emcts.uct_policy])
def test_rows_are_independent(policy: Any) -> None:
    model = RandomModel.make(11, ACTIONS, terminal=0.1)
    search = jax.jit(lambda states, beta: run(policy, states, beta, jax.random.key(0), model).search_tree)
    states, beta = jnp.array([5, 9, 2, 7]), jnp.array([0.0, 1.0, -1.0, 3.0])
    together = search(states, beta)
    order = jnp.array([3, 1, 0, 2])
    assert_trees_equal(jax.tree.map(lambda leaf: leaf[order], together), search(states[order], beta[order]))
    other_company = search(jnp.array([5, 50, 60, 70]), jnp.array([0.0, -5.0, 5.0, 9.0]))
    assert_trees_equal(
        jax.tree.map(lambda leaf: leaf[:1], together), jax.tree.map(lambda leaf: leaf[:1], other_company)
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_vmap_over_seeds_is_a_loop_over_seeds(policy: Any) -> None:
    model = RandomModel.make(12, ACTIONS, terminal=0.1)
    states = jnp.array([[1, 2], [3, 4], [5, 6]])
    betas = jnp.array([0.0, 1.0, -2.0])
    keys = jax.random.split(jax.random.key(0), 3)
    constant = {emcts.uct_policy: "c", emcts.muzero_policy: "pb_c_init"}.get(policy)
    constants = jnp.array([0.5, 1.0, 2.0])

    def search(states: Any, beta: Any, key: Any, number: Any) -> Any:
        options = {} if constant is None else {constant: number}
        return run(policy, states, beta, key, model, **options).search_tree

    vmapped = jax.jit(jax.vmap(search))(states, betas, keys, constants)
    single = jax.jit(search)
    for i in range(3):
        one = single(states[i], betas[i], keys[i], constants[i])
        assert_trees_equal(jax.tree.map(lambda leaf, i=i: leaf[i], vmapped), one)


def test_vmap_with_shared_roots_and_one_key_each() -> None:
    model = RandomModel.make(13, ACTIONS)
    keys = jax.random.split(jax.random.key(0), 2)
    states = jnp.array([1, 2])

    def search(key: Any) -> Any:
        return run(emcts.gumbel_muzero_policy, states, 1.0, key, model).search_tree

    vmapped = jax.jit(jax.vmap(search))(keys)
    assert_trees_equal(jax.tree.map(lambda leaf: leaf[1], vmapped), jax.jit(search)(keys[1]))
    assert not np.array_equal(vmapped.extra_data.root_gumbel[0], vmapped.extra_data.root_gumbel[1])


def test_jit_is_no_jit() -> None:
    model = RandomModel.make(14, ACTIONS, terminal=0.1)
    states, beta = jnp.array([3, 8]), jnp.array([1.0, -1.0])

    def search(key: Any) -> Any:
        return run(emcts.gumbel_muzero_policy, states, beta, key, model)

    assert_trees_equal(search(jax.random.key(4)), jax.jit(search)(jax.random.key(4)))


def test_scan_over_steps() -> None:
    """A search inside a scan, as an agent's loop has it."""
    model = RandomModel.make(15, ACTIONS)
    successor = jnp.asarray(model.successor)

    def step(states: Any, key: Any) -> Any:
        action = run(emcts.uct_policy, states, 1.0, key, model).action
        return successor[states, action], action

    keys = jax.random.split(jax.random.key(0), 3)
    states = jnp.array([1, 2])
    _, actions = jax.lax.scan(step, states, keys)
    one_step = jax.jit(step)
    for key, expected in zip(keys, actions, strict=True):
        states, action = one_step(states, key)
        np.testing.assert_array_equal(action, expected)


def test_a_jax_without_the_triton_backend_searches_in_plain_jax() -> None:
    program = """
import sys
sys.modules["jax.experimental.pallas.triton"] = None  # an import of it fails
import jax.numpy as jnp, jax, emcts
from emcts.envs import Subleq
from emcts.search.traversal import backend
backend._has_cuda = lambda: True
assert backend.default_backend() is backend.PLAIN
root = emcts.RootFnOutput(jnp.zeros((1, 2)), jnp.zeros(1), jnp.zeros(1))
def model(params, key, action, state):
    one = jnp.ones(1)
    return emcts.RecurrentFnOutput(action * one, one, jnp.zeros((1, 2)), one), state
print(emcts.uct_policy(None, jax.random.key(0), root, model, 4).action_weights)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0.75" in done.stdout
