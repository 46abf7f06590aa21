"""One-step lookahead, for agents with an uncertainty head but a plain search (AZ+UBE, MZ+UBE)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.search import inputs
from emcts.search.tree import Tree, score
from emcts.types import Key, Number, Params, RecurrentFn, SampledOutcomes


class OneStep(NamedTuple):
    """The value of each action by one step of the model, and its standard deviation."""

    qvalues: Float[Array, "B A"]
    stds: Float[Array, "B A"]


def one_step_lookahead(params: Params, rng_key: Key, root: object, recurrent_fn: RecurrentFn) -> OneStep:
    """Returns `r + g * v` and `sqrt(eta(s,a) + g^2 * u(f(s,a)))` of every action, valid or not.

    With sampled outcomes these are means over as many draws of each action as a search keeps.
    """
    checked = inputs.read_root(root)
    num_actions = checked.prior_logits.shape[-1]

    def step_by(action: Array, key: Key) -> OneStep:
        actions = jnp.full(checked.value.shape, action, jnp.int32)
        output, _ = inputs.read_step(recurrent_fn(params, key, actions, checked.embedding), checked)
        step = inputs.with_variances(output)
        variance = step.reward_variance + step.discount**2 * step.value_variance
        return OneStep(step.reward + step.discount * step.value, jnp.sqrt(variance))

    draws = recurrent_fn.num_outcomes if isinstance(recurrent_fn, SampledOutcomes) else 1
    keys = jax.random.split(rng_key, num_actions * draws)
    steps = jax.lax.map(lambda x: step_by(*x), (jnp.repeat(jnp.arange(num_actions), draws), keys))
    if draws > 1:
        steps = jax.tree.map(lambda x: x.reshape(num_actions, draws, -1).mean(axis=1), steps)
    return OneStep(steps.qvalues.T, steps.stds.T)


def ube_root_scores(
    params: Params,
    rng_key: Key,
    root: object,
    recurrent_fn: RecurrentFn,
    search_tree: Tree[object],
    *,
    beta: Number,
) -> Float[Array, "B A"]:
    """Returns `q(s0,a) + beta * sqrt(eta(s0,a) + gamma^2 * u(f(s0,a)))` of every action (`eq:only_ube`).

    `eta` and `u` are the variances that the model gives for one step from the root. An action that the search did
    not visit has the q-value of that one step; an invalid one has -inf.
    """
    betas = inputs.read_beta(beta, inputs.read_root(root))
    ahead = one_step_lookahead(params, rng_key, root, recurrent_fn)
    summary = search_tree.summary()
    qvalues = jnp.where(summary.visit_counts > 0, summary.qvalues, ahead.qvalues)
    scores = score(qvalues, ahead.stds, betas[:, None])
    return jnp.where(search_tree.root_invalid_actions, -jnp.inf, scores)
