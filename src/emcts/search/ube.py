"""The root score of the agents that have an uncertainty head but a plain search (AZ+UBE, MZ+UBE)."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.search import inputs
from emcts.search.tree import Tree
from emcts.types import Key, Number, Params, RecurrentFn


def ube_root_scores(
    params: Params,
    rng_key: Key,
    root: Any,
    recurrent_fn: RecurrentFn,
    search_tree: Tree[Any],
    *,
    beta: Number,
) -> Float[Array, "B A"]:
    """`q(s0,a) + beta * sqrt(eta(s0,a) + gamma^2 * u(f(s0,a)))` for every action (`eq:only_ube`), visited or not.

    `eta` and `u` are the variances that the model gives for one step from the root. An action that the search did
    not try has the q-value of that one step; an invalid one has -inf.
    """
    root = inputs.read_root(root)
    beta = inputs.read_beta(beta, root)
    num_actions = root.prior_logits.shape[-1]

    def one_step(action: Array, key: Key) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
        actions = jnp.full(root.value.shape, action, jnp.int32)
        step, _ = inputs.read_step(recurrent_fn(params, key, actions, root.embedding), root)
        variance = step.reward_variance + step.discount**2 * step.value_variance
        return step.reward + step.discount * step.value, jnp.sqrt(variance)

    keys = jax.random.split(rng_key, num_actions)
    qvalues, stds = jax.lax.map(lambda x: one_step(*x), (jnp.arange(num_actions), keys))
    summary = search_tree.summary()
    known = jnp.where(summary.visit_counts > 0, summary.qvalues, qvalues.T)
    scores = known + beta[:, None] * stds.T
    return jnp.where(search_tree.root_invalid_actions, -jnp.inf, scores)
