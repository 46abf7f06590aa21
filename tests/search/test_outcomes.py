"""Sampled outcomes of stochastic simulators: how edges keep and visit them, and what their means are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

import emcts
from emcts.search.traversal.backend import PLAIN
from emcts.search.traversal.kernels import INTERPRETED_KERNELS
from emcts.types import Key
from tests.search.random_model import RandomModel

START, SAFE, WON, LOST = 0, 1, 2, 3
PRIZE, SURE = 1.0, 0.45


def gamble(num_outcomes: int, batch: int = 1) -> tuple[Any, emcts.SampledOutcomes[Any, Any]]:
    """Action 0 leads to a state worth 0.45, action 1 to one worth 1 in half of the cases. Nothing happens there."""

    def draw(params: Any, key: Key, action: Int[Array, ""], state: Int[Array, ""]) -> tuple[Any, Array]:
        won = jax.random.bernoulli(key)
        first = jnp.where(action == 0, SAFE, jnp.where(won, WON, LOST))
        return {"reward": jnp.zeros(())}, jnp.where(state == START, first, state)

    def evaluate(params: Any, action: Array, before: Array, happened: Any, after: Array) -> Any:
        return emcts.RecurrentFnOutput(
            reward=happened["reward"],
            discount=jnp.ones(action.shape),
            prior_logits=jnp.zeros((*action.shape, 2)),
            value=jnp.array([0.0, SURE, PRIZE, 0.0])[after],
            value_variance=jnp.where(after == WON, 4.0, 0.0),
        )

    root = emcts.RootFnOutput(
        prior_logits=jnp.zeros((batch, 2)), value=jnp.zeros(batch), embedding=jnp.zeros(batch, jnp.int32)
    )
    return root, emcts.SampledOutcomes(draw, evaluate, num_outcomes)


def search(num_outcomes: int, seed: int, simulations: int = 64, **options: Any) -> Any:
    root, model = gamble(num_outcomes)
    out = emcts.uct_policy(None, jax.random.key(seed), root, model, simulations, **options)
    return out.search_tree


def below(tree: Any, action: int) -> list[int]:
    """The nodes that the outcomes of an action of the root lead to."""
    entries = np.asarray(tree.children_index)[0, 0, action :: tree.num_actions]
    return [int(entry) for entry in entries if entry >= 0]


def test_an_edge_is_worth_the_mean_of_its_draws() -> None:
    qvalues = []
    for seed in range(8):
        tree = jax.jit(lambda seed: search(4, seed, simulations=128))(seed)
        nodes = below(tree, 1)
        visits, values = (np.asarray(field)[0, nodes] for field in (tree.node_visits, tree.raw_values))
        share = np.round(visits / visits.sum() * 4) / 4  # draws are taken in turn
        np.testing.assert_allclose(visits / visits.sum(), share, atol=4 / visits.sum())
        summary = tree.summary()
        mean = float((visits * values).sum() / visits.sum())
        np.testing.assert_allclose(summary.qvalues[0], [SURE, mean], rtol=1e-5)
        np.testing.assert_allclose(summary.qvalues_std[0, 1], 2 * mean, rtol=1e-5)  # std 2 where it is won
        assert float(summary.visit_counts.sum()) == 128
        qvalues.append(mean)
    assert len(set(np.round(qvalues, 2))) > 1, "seeds draw differently"


def test_equal_draws_are_one_node() -> None:
    tree = search(16, seed=0, simulations=100)
    assert len(below(tree, 0)) == 1
    assert len(below(tree, 1)) == 2


def test_with_one_draw_a_gamble_looks_sure() -> None:
    found = {round(float(search(1, seed).summary().qvalues[0, 1]), 3) for seed in range(8)}
    assert found == {0.0, PRIZE}


def test_the_error_falls_with_the_square_root_of_the_draws() -> None:
    def error(num_outcomes: int) -> float:
        found = jax.jit(jax.vmap(lambda seed: search(num_outcomes, seed, 128).summary().qvalues[0, 1]))
        return float(jnp.sqrt(jnp.mean((found(jnp.arange(64)) - PRIZE / 2) ** 2)))

    np.testing.assert_allclose([error(k) for k in (1, 4, 16)], [0.5, 0.25, 0.125], rtol=0.25)


@pytest.mark.parametrize("policy", [emcts.uct_policy, emcts.muzero_policy, emcts.gumbel_muzero_policy])
def test_kernels_build_the_same_trees(policy: Any) -> None:
    root, model = gamble(4, batch=3)

    def tree(backend: emcts.Backend) -> Any:
        key = jax.random.key(3)
        return policy(
            None, key, root, model, 12, beta=jnp.array([0.0, 1.0, -1.0]), backend=backend
        ).search_tree

    plain, kernels = (
        jax.jit(lambda backend=backend: tree(backend))() for backend in (PLAIN, INTERPRETED_KERNELS)
    )
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(kernels), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("num_outcomes", [1, 3])
def test_a_deterministic_model_gives_the_same_tree_whatever_the_number_of_draws(num_outcomes: int) -> None:
    random_model = RandomModel.make(30, 4, terminal=0.1)
    step = random_model.recurrent_fn(emcts, variance=True)
    root = random_model.root(emcts, 2, variance=True)

    def draw(params: Any, key: Key, action: Array, state: Any) -> tuple[Any, Any]:
        out, after = step(params, key, action[None], jax.tree.map(lambda leaf: leaf[None], state))
        return jax.tree.map(lambda leaf: leaf[0], out), jax.tree.map(lambda leaf: leaf[0], after)

    model = emcts.SampledOutcomes(
        draw, lambda params, action, before, happened, after: happened, num_outcomes
    )
    key = jax.random.key(0)
    with_draws = emcts.gumbel_muzero_policy(None, key, root, model, 24).search_tree
    plain = emcts.gumbel_muzero_policy(None, key, root, step, 24).search_tree
    assert with_draws.num_outcomes == num_outcomes
    np.testing.assert_array_equal(with_draws.node_visits, plain.node_visits)
    np.testing.assert_allclose(with_draws.summary().qvalues, plain.summary().qvalues, rtol=1e-5)
    np.testing.assert_allclose(with_draws.summary().qvalues_std, plain.summary().qvalues_std, rtol=1e-5)


def test_no_outcome_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        gamble(0)
