"""Theorem 1: the bound covers Q* with the promised probability, on tabular problems whose Q* is known."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts

DEPTH, ACTIONS, MODELS, GAMMA = 3, 2, 600, 0.9


def tabular(seed: int, noise: float) -> tuple[Any, Any, float]:
    """A binary tree of rewards; models that saw each reward with Gaussian error; and Q* of the root's best action."""
    random = np.random.default_rng(seed)
    nodes = (ACTIONS ** (DEPTH + 1) - 1) // (ACTIONS - 1)
    rewards = random.uniform(-1, 1, (nodes, ACTIONS))
    best = -np.inf
    for path in itertools.product(range(ACTIONS), repeat=DEPTH):
        node, total = 0, 0.0
        for depth, action in enumerate(path):
            total += GAMMA**depth * rewards[node, action]
            node = ACTIONS * node + action + 1
        best = max(best, total)
    seen = rewards + noise * random.normal(size=(MODELS, nodes, ACTIONS))
    return rewards, jnp.asarray(seen, jnp.float32), float(best)


def bound(seen: Any, noise: float, delta: float) -> np.ndarray:
    """`max_a q + beta * std` at the root, one search for each model of the batch."""

    def recurrent_fn(params: Any, key: Any, action: Any, embedding: Any) -> Any:
        model, node, depth = embedding
        last = depth + 1 == DEPTH
        step = emcts.RecurrentFnOutput(
            reward=seen[model, node, action],
            discount=jnp.where(last, 0.0, GAMMA),
            prior_logits=jnp.zeros((MODELS, ACTIONS)),
            value=jnp.zeros(MODELS),
            reward_variance=jnp.full(MODELS, noise**2),
            # What remains unknown of the value 0: the rewards that are still to come.
            value_variance=noise**2 * (1 - GAMMA ** (2.0 * (DEPTH - depth - 1))) / (1 - GAMMA**2),
        )
        return step, (model, ACTIONS * node + action + 1, depth + 1)

    zeros = jnp.zeros(MODELS, jnp.int32)
    root = emcts.RootFnOutput(
        prior_logits=jnp.zeros((MODELS, ACTIONS)),
        value=jnp.zeros(MODELS),
        embedding=(jnp.arange(MODELS), zeros, zeros),
    )
    beta = emcts.beta_for_confidence(delta)
    search = jax.jit(
        lambda key: emcts.uct_policy(None, key, root, recurrent_fn, 150, c=0.2, beta=beta).search_tree
    )
    summary = search(jax.random.key(0)).summary()
    return np.asarray(jnp.max(summary.qvalues + beta * summary.qvalues_std, axis=-1))


@pytest.mark.parametrize(("seed", "delta"), [(0, 0.5), (1, 0.1), (2, 0.05)])
def test_coverage(seed: int, delta: float) -> None:
    noise = 0.5
    _, seen, best = tabular(seed, noise)
    covered = np.mean(best <= bound(seen, noise, delta))
    assert covered >= 1 - delta


def test_without_uncertainty_the_bound_fails() -> None:
    """The search's mean alone does not cover: the coverage above is the variance's doing."""
    _, seen, best = tabular(0, 0.5)
    assert np.mean(best <= bound(seen, 1e-6, 0.1)) < 0.9
