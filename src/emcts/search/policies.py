"""Search policies: a search, and the action and the policy targets read off its roots."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.search import inputs
from emcts.search.propagation import Propagation, independent
from emcts.search.qtransforms import qtransform_by_parent_and_siblings, qtransform_completed_by_mix_value
from emcts.search.row import read_row
from emcts.search.search import search
from emcts.search.selection import (
    GumbelMuZeroExtraData,
    QTransform,
    gumbel_muzero_interior_action_selection,
    gumbel_muzero_root_action_selection,
    gumbel_root,
    muzero_action_selection,
    uct_action_selection,
)
from emcts.search.tree import Tree
from emcts.search.walkers import Walker
from emcts.types import Key, LoopFn, Number, Params, PolicyOutput, RecurrentFn, Scalar


def muzero_policy(
    params: Params,
    rng_key: Key,
    root: Any,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: Any = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    qtransform: QTransform = qtransform_by_parent_and_siblings,
    dirichlet_fraction: Number = 0.25,
    dirichlet_alpha: Number = 0.3,
    pb_c_init: Number = 1.25,
    pb_c_base: Number = 19652,
    temperature: Number = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    walker: Walker | None = None,
) -> PolicyOutput[Tree[None]]:
    """MuZero's search, and with `beta` EPUCT's: acts by visits, sampled with `temperature`."""
    root = inputs.read_root(root)
    action_key, dirichlet_key, search_key = jax.random.split(rng_key, 3)
    root = root.replace(
        prior_logits=mask_logits(
            add_dirichlet_noise(
                dirichlet_key, root.prior_logits, fraction=dirichlet_fraction, alpha=dirichlet_alpha
            ),
            invalid_actions,
        )
    )
    interior = functools.partial(
        muzero_action_selection, pb_c_init=pb_c_init, pb_c_base=pb_c_base, qtransform=qtransform
    )
    tree = search(
        params,
        search_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(interior, depth=0),
        interior_action_selection_fn=interior,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        walker=walker,
    )
    return act_by_visits(action_key, tree, temperature)


def uct_policy(
    params: Params,
    rng_key: Key,
    root: Any,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: Any = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    c: Number = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    temperature: Number = 0.0,
    walker: Walker | None = None,
) -> PolicyOutput[Tree[None]]:
    """EUCT (Algorithm 1): no prior and no normalisation; acts by visits, temperature 0 by the most.

    The prior says one thing alone: a logit of -inf marks an action that does not exist at a node.
    """
    action_key, search_key = jax.random.split(rng_key)
    interior = functools.partial(uct_action_selection, c=c)
    tree = search(
        params,
        search_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(interior, depth=0),
        interior_action_selection_fn=interior,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        walker=walker,
    )
    return act_by_visits(action_key, tree, temperature)


def gumbel_muzero_policy(
    params: Params,
    rng_key: Key,
    root: Any,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: Any = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    qtransform: QTransform = qtransform_completed_by_mix_value,
    max_num_considered_actions: int = 16,
    gumbel_scale: Number = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    walker: Walker | None = None,
) -> PolicyOutput[Tree[GumbelMuZeroExtraData]]:
    """Full Gumbel MuZero ("Policy improvement by planning with Gumbel"), and with `beta` its epistemic form.

    `action_weights` are the improved policy: softmax of the prior logits plus the completed scores.
    """
    root = inputs.read_root(root)
    root = root.replace(prior_logits=mask_logits(root.prior_logits, invalid_actions))
    search_key, gumbel_key = jax.random.split(rng_key)
    noise = jax.random.gumbel(gumbel_key, root.prior_logits.shape, root.prior_logits.dtype)
    gumbel = gumbel_scale * noise
    tree = search(
        params,
        search_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(
            gumbel_muzero_root_action_selection,
            num_simulations=num_simulations,
            max_num_considered_actions=max_num_considered_actions,
            qtransform=qtransform,
        ),
        interior_action_selection_fn=functools.partial(
            gumbel_muzero_interior_action_selection, qtransform=qtransform
        ),
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        extra_data=GumbelMuZeroExtraData(root_gumbel=gumbel),
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        walker=walker,
    )

    def decide(scored: Tree[GumbelMuZeroExtraData]) -> tuple[Int[Array, ""], Float[Array, "A"]]:
        row = read_row(scored, Tree.ROOT_INDEX)
        completed = qtransform(scored, Tree.ROOT_INDEX)
        most_visits = row.max(row.visits)
        invalid = scored.root_invalid_actions
        action = gumbel_root(row, completed, scored.extra_data.root_gumbel, most_visits, invalid)
        return action, row.prior_logits + completed

    action, logits = jax.vmap(decide)(tree.scored())
    weights = jax.nn.softmax(mask_logits(logits, invalid_actions))
    return PolicyOutput(action=action, action_weights=weights, search_tree=tree)


def act_by_visits(rng_key: Key, tree: Tree[Any], temperature: Number) -> PolicyOutput[Tree[Any]]:
    """An action drawn in proportion to `visits ** (1 / temperature)`; temperature 0 takes one with the most visits."""
    weights = tree.summary().visit_probs
    logits = _log(weights)
    logits = logits - jnp.max(logits, axis=-1, keepdims=True)
    cold = jnp.maximum(jnp.finfo(logits.dtype).tiny, temperature)
    action = jax.random.categorical(rng_key, logits / cold)
    return PolicyOutput(action=action, action_weights=weights, search_tree=tree)


def add_dirichlet_noise(
    rng_key: Key, logits: Float[Array, "B A"], *, fraction: Scalar, alpha: Scalar
) -> Float[Array, "B A"]:
    """Logits of the prior mixed with Dirichlet noise."""
    if isinstance(fraction, int | float) and fraction == 0:
        return _log(jax.nn.softmax(logits))
    batch_size, num_actions = logits.shape
    noise = jax.random.dirichlet(rng_key, jnp.full([num_actions], alpha, float), shape=(batch_size,))
    return _log((1 - fraction) * jax.nn.softmax(logits) + fraction * noise.astype(logits.dtype))


def mask_logits(logits: Float[Array, "B A"], invalid_actions: Any) -> Float[Array, "B A"]:
    """Logits that leave invalid actions no mass. Finite, so that a softmax over none but invalid ones is no NaN."""
    if invalid_actions is None:
        return logits
    invalid: Bool[Array, "B A"] = jnp.asarray(invalid_actions).astype(bool)
    if invalid.shape != logits.shape:
        raise ValueError(
            f"invalid_actions must have the shape of prior_logits, {list(logits.shape)}, got {list(invalid.shape)}"
        )
    return jnp.where(invalid, jnp.finfo(logits.dtype).min, logits - jnp.max(logits, axis=-1, keepdims=True))


def _log(probs: Float[Array, "*B A"]) -> Float[Array, "*B A"]:
    return jnp.log(jnp.maximum(probs, jnp.finfo(probs.dtype).tiny))
