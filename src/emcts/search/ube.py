"""One step ahead of a state, for agents that have an uncertainty head but a plain search (AZ+UBE, MZ+UBE)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.search import inputs
from emcts.search.tree import Tree
from emcts.types import Key, Number, Params, RecurrentFn


class OneStep(NamedTuple):
    """The value of each action by one step of the model, and the standard deviation of that."""

    qvalues: Float[Array, "B A"]
    stds: Float[Array, "B A"]


def one_step_lookahead(params: Params, rng_key: Key, root: Any, recurrent_fn: RecurrentFn) -> OneStep:
    """`r + g * v` and `sqrt(eta(s,a) + g^2 * u(f(s,a)))` of every action, valid or not."""
    root = inputs.read_root(root)
    num_actions = root.prior_logits.shape[-1]

    def of_action(action: Array, key: Key) -> OneStep:
        actions = jnp.full(root.value.shape, action, jnp.int32)
        step, _ = inputs.read_step(recurrent_fn(params, key, actions, root.embedding), root)
        variance = step.reward_variance + step.discount**2 * step.value_variance
        return OneStep(step.reward + step.discount * step.value, jnp.sqrt(variance))

    keys = jax.random.split(rng_key, num_actions)
    steps = jax.lax.map(lambda x: of_action(*x), (jnp.arange(num_actions), keys))
    return OneStep(steps.qvalues.T, steps.stds.T)


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
    beta = inputs.read_beta(beta, inputs.read_root(root))
    ahead = one_step_lookahead(params, rng_key, root, recurrent_fn)
    summary = search_tree.summary()
    qvalues = jnp.where(summary.visit_counts > 0, summary.qvalues, ahead.qvalues)
    return jnp.where(search_tree.root_invalid_actions, -jnp.inf, qvalues + beta[:, None] * ahead.stds)
