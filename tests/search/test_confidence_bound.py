"""Theorem 1: the bound covers Q* with the stated probability, on tabular problems whose Q* is known."""

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


@jax.jit
def bound(seen: Any, noise: Any, delta: Any) -> Any:
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
    key = jax.random.key(0)
    summary = emcts.uct_policy(None, key, root, recurrent_fn, 150, c=0.2, beta=beta).search_tree.summary()
    return jnp.max(summary.qvalues + beta * summary.qvalues_std, axis=-1)


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


CHAIN, CHAIN_GAMMA = 3, 0.8


@jax.jit
def chain_summary(errors: Any, noisy_step: Any, noise: Any) -> Any:
    """A path without choices and with rewards 0: models err about one of them. One search for each model."""
    models = len(errors)

    def recurrent_fn(params: Any, key: Any, action: Any, embedding: Any) -> Any:
        model, depth = embedding
        here = depth == noisy_step
        step = emcts.RecurrentFnOutput(
            reward=jnp.where(here, errors[model], 0.0),
            discount=jnp.where(depth + 1 == CHAIN, 0.0, CHAIN_GAMMA),
            prior_logits=jnp.zeros((models, 1)),
            value=jnp.zeros(models),
            reward_variance=jnp.where(here, noise**2, 0.0),
            # Of what is still to come nothing is known but its variance.
            value_variance=jnp.where(
                depth < noisy_step, noise**2 * CHAIN_GAMMA ** (2.0 * (noisy_step - depth - 1)), 0.0
            ),
        )
        return step, (model, depth + 1)

    root = emcts.RootFnOutput(
        jnp.zeros((models, 1)), jnp.zeros(models), (jnp.arange(models), jnp.zeros(models, jnp.int32))
    )
    return emcts.uct_policy(None, jax.random.key(0), root, recurrent_fn, 60).search_tree.summary()


@pytest.mark.parametrize("noisy_step", range(CHAIN))
def test_the_reported_std_is_that_of_the_errors(noisy_step: int) -> None:
    """Over many models, errors of q-values have the std that each search reports."""
    noise = 0.7
    errors = noise * np.random.default_rng(3).normal(size=4000)
    summary = chain_summary(jnp.asarray(errors, jnp.float32), noisy_step, noise)
    np.testing.assert_allclose(summary.qvalues_std, noise * CHAIN_GAMMA**noisy_step, rtol=1e-4)
    assert np.std(np.asarray(summary.qvalues)) == pytest.approx(float(summary.qvalues_std[0, 0]), rel=0.07)


@pytest.mark.parametrize("noisy_step", range(CHAIN))
@pytest.mark.parametrize("delta", [0.1, 0.05])
def test_coverage_where_the_bound_is_nearly_tight(delta: float, noisy_step: int) -> None:
    """Rare, large errors, for which Chebyshev's inequality leaves little room: a std that is too small shows."""
    noise, models = 0.5, 4000
    rare = 1.3 * delta
    low = np.random.default_rng(4).random(models) < rare
    errors = noise * np.where(low, -np.sqrt((1 - rare) / rare), np.sqrt(rare / (1 - rare)))
    summary = chain_summary(jnp.asarray(errors, jnp.float32), noisy_step, noise)
    q, std = np.asarray(summary.qvalues)[:, 0], np.asarray(summary.qvalues_std)[:, 0]
    beta = float(emcts.beta_for_confidence(delta))

    def coverage(share: float) -> float:
        return float(np.mean(q + beta * share * std >= 0))

    assert coverage(1.0) >= 1 - delta
    assert coverage(0.75) < 1 - delta, "a quarter of the std could be lost, and this test would not see it"
