"""Compares this machine's backend (kernels, on a GPU) with plain JAX: every rule, with masks, terminals and vmap."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import emcts
from benchmarks.programs import compile_together

BATCH, SIMULATIONS, SEEDS = 64, 48, 3

Search = Callable[[Any, emcts.Backend | None], emcts.Tree]


def rows(
    batch: int = BATCH, simulations: int = SIMULATIONS, *, rules: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Returns for each rule, or those named, the share of equal trees and the largest difference of a std in those."""
    keys = jax.random.split(jax.random.key(2), SEEDS)
    sized = {
        name: functools.partial(search, batch=batch, simulations=simulations)
        for name, search in SEARCHES.items()
        if not rules or name in rules
    }
    ours = {name: jax.vmap(lambda key, run=run: run(key, None)) for name, run in sized.items()}
    plain = {
        name: jax.vmap(lambda key, run=run: run(key, emcts.plain_backend)) for name, run in sized.items()
    }
    ours, plain = compile_together(ours, keys), compile_together(plain, keys)
    return [{"rule": name, **_compare(ours[name](keys), plain[name](keys))} for name in sized]


def _compare(one: emcts.Tree, other: emcts.Tree) -> dict[str, float]:
    same = jnp.all(one.node_visits == other.node_visits, axis=-1)
    difference = jnp.abs(one.edge_qvalue_stds - other.edge_qvalue_stds).max(axis=-1)
    return {
        "equal": float(jnp.mean(same)),
        "largest_difference": float(jnp.max(jnp.where(same, difference, 0))),
    }


def _model(actions: int) -> Any:
    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        state = jnp.sin(12.9 * state + 1.7 * action + 0.3)
        lane = jnp.arange(actions)
        step = emcts.RecurrentFnOutput(
            reward=0.5 * jnp.sin(3.1 * state),
            discount=jnp.where(state > 0.97, 0.0, 0.95),
            prior_logits=jnp.sin(7.7 * state[:, None] + lane[None, :]),
            value=jnp.cos(5.3 * state),
            reward_variance=state**2,
            value_variance=jnp.abs(state),
        )
        return step, state

    return recurrent_fn


def _search(
    policy: Any,
    actions: int,
    key: Any,
    backend: emcts.Backend | None,
    *,
    batch: int,
    simulations: int,
    **options: Any,
) -> emcts.Tree:
    state = jax.random.uniform(key, (batch,))
    mask = jax.random.bernoulli(key, 0.2, (batch, actions))
    logits = jax.random.normal(key, (batch, actions))
    root = emcts.RootFnOutput(logits, jnp.zeros(batch), state, jnp.ones(batch))
    beta = jnp.linspace(-1.0, 2.0, batch)
    return policy(
        None, key, root, _model(actions), simulations, mask, beta=beta, backend=backend, **options
    ).search_tree


def _stochastic(key: Any, backend: emcts.Backend | None, *, batch: int, simulations: int) -> emcts.Tree:
    def decide(params: Any, key: Any, action: Any, state: Any) -> Any:
        logits = jnp.sin(state[:, None] * jnp.array([[1.0, 2.0, 3.0]]))
        return emcts.DecisionRecurrentFnOutput(logits, jnp.sin(3 * state), state**2), jnp.sin(
            9 * state + action
        )

    def chance(params: Any, key: Any, outcome: Any, state: Any) -> Any:
        logits = jnp.cos(state[:, None] * jnp.array([[1.0, 5.0]]))
        value = jnp.sin(7 * state + outcome)
        discount = jnp.full(state.shape, 0.9)
        output = emcts.ChanceRecurrentFnOutput(logits, value, 0.1 * value, discount, value**2, state**2)
        return output, jnp.cos(4 * state + outcome)

    state = jax.random.uniform(key, (batch,))
    root = emcts.RootFnOutput(jnp.zeros((batch, 2)), state, state)
    policy = emcts.stochastic_muzero_policy
    return policy(None, key, root, decide, chance, simulations, beta=1.0, backend=backend).search_tree


SEARCHES: dict[str, Callable[..., emcts.Tree]] = {
    "PUCT": functools.partial(_search, emcts.muzero_policy, 6),
    "PUCT, power mean 8": functools.partial(_search, emcts.muzero_policy, 6, backup=emcts.power_mean(8)),
    "Gumbel": functools.partial(_search, emcts.gumbel_muzero_policy, 16),
    "UCT": functools.partial(_search, emcts.uct_policy, 3),
    "UCT, depth 4, correlated": functools.partial(
        _search, emcts.uct_policy, 18, max_depth=4, propagation=emcts.correlated
    ),
    "stochastic": _stochastic,
}
