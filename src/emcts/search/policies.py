"""Search policies: a search, and the action and the policy targets from the statistics of its roots."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from emcts.search import inputs
from emcts.search.backup import Backup, Propagation, independent, mean_backup
from emcts.search.dirichlet import dirichlet
from emcts.search.qtransforms import qtransform_by_parent_and_siblings, qtransform_completed_by_mix_value
from emcts.search.reuse import room_for, visits_before
from emcts.search.search import search
from emcts.search.selection import (
    GumbelInteriorRule,
    GumbelMuZeroExtraData,
    GumbelRootRule,
    PuctRule,
    UctRule,
)
from emcts.search.soundness import mark_unusable_rows
from emcts.search.traversal.backend import Backend
from emcts.search.traversal.rules import QTransform, RuleInputs, node_stats
from emcts.search.tree import Tree
from emcts.types import Key, LoopFn, Number, Params, PolicyOutput, RecurrentFn, Scalar, T


def muzero_policy(
    params: Params,
    rng_key: Key,
    root: object,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: ArrayLike | None = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    qtransform: QTransform = qtransform_by_parent_and_siblings,
    dirichlet_fraction: Scalar = 0.25,
    dirichlet_alpha: Scalar = 0.3,
    pb_c_init: Scalar = 1.25,
    pb_c_base: Scalar = 19652,
    temperature: Scalar = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    backup: Backup = mean_backup,
    tree: Tree[Any] | None = None,
    max_nodes: int | None = None,
    backend: Backend | None = None,
) -> PolicyOutput[Tree[None]]:
    """Runs MuZero's search, with `beta` that of EPUCT; samples an action by visits with `temperature`.

    With `tree` it goes on from the result of `subtree`: visits of both searches count.

    The arguments that all policies share are those of `search`.

    Args:
        qtransform: scales the scores of a node's actions before PUCT adds its bonus.
        dirichlet_fraction: the share of Dirichlet noise in the root's prior.
        dirichlet_alpha: the parameter of that noise.
        pb_c_init: the factor of PUCT's bonus.
        pb_c_base: the number of visits by which PUCT's bonus grows.
        temperature: actions are sampled in proportion to `visits ** (1 / temperature)`; 0 takes the most visited.
    """
    checked = inputs.read_root(root)
    usable = [
        *puct_ranges(dirichlet_fraction, dirichlet_alpha, pb_c_init, pb_c_base),
        inputs.read_range(temperature, "temperature"),
    ]
    action_key, dirichlet_key, search_key = jax.random.split(rng_key, 3)
    logits = add_dirichlet_noise(
        dirichlet_key, checked.prior_logits, fraction=dirichlet_fraction, alpha=dirichlet_alpha
    )
    rule = PuctRule(pb_c_init, pb_c_base, qtransform)
    searched = search(
        params,
        search_key,
        root=checked.replace(prior_logits=mask_logits(logits, invalid_actions)),
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=rule,
        interior_action_selection_fn=rule,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        backup=backup,
        tree=tree,
        max_nodes=max_nodes,
        backend=backend,
    )
    return mark_unusable_rows(act_by_visits(action_key, searched, temperature), searched, usable)


def uct_policy(
    params: Params,
    rng_key: Key,
    root: object,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: ArrayLike | None = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    c: Scalar = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    backup: Backup = mean_backup,
    temperature: Scalar = 0.0,
    tree: Tree[Any] | None = None,
    max_nodes: int | None = None,
    backend: Backend | None = None,
) -> PolicyOutput[Tree[None]]:
    """Runs EUCT (Algorithm 1), without prior and normalisation; `temperature` 0 takes the action with most visits.

    Of the prior only a logit of -inf counts: it marks an action that does not exist at a node. With `tree` it goes on
    from the result of `subtree`.

    The arguments that all policies share are those of `search`.

    Args:
        c: the factor of the bonus, in the units of the rewards.
        temperature: actions are sampled in proportion to `visits ** (1 / temperature)`; 0 takes the most visited.
    """
    usable = [inputs.read_range(c, "c"), inputs.read_range(temperature, "temperature")]
    action_key, search_key = jax.random.split(rng_key)
    rule = UctRule(c)
    searched = search(
        params,
        search_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=rule,
        interior_action_selection_fn=rule,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        backup=backup,
        tree=tree,
        max_nodes=max_nodes,
        backend=backend,
    )
    return mark_unusable_rows(act_by_visits(action_key, searched, temperature), searched, usable)


def gumbel_muzero_policy(
    params: Params,
    rng_key: Key,
    root: object,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: ArrayLike | None = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    qtransform: QTransform = qtransform_completed_by_mix_value,
    max_num_considered_actions: int = 16,
    gumbel_scale: Scalar = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    backup: Backup = mean_backup,
    tree: Tree[Any] | None = None,
    max_nodes: int | None = None,
    backend: Backend | None = None,
) -> PolicyOutput[Tree[GumbelMuZeroExtraData]]:
    """Runs Gumbel MuZero ("Policy improvement by planning with Gumbel"), with `beta` its epistemic form.

    `action_weights` are the improved policy: softmax of the prior logits plus the completed scores. With `tree` it goes
    on from the result of `subtree`: Sequential Halving begins anew and counts its own visits, values are of all visits.

    The arguments that all policies share are those of `search`.

    Args:
        qtransform: completes and scales the scores of a node's actions.
        max_num_considered_actions: how many actions the root samples, without replacement, to search.
        gumbel_scale: the scale of the Gumbel noise; 0 is without noise, for evaluation.
    """
    checked = inputs.read_root(root)
    usable = inputs.read_range(gumbel_scale, "gumbel_scale")
    max_num_considered_actions = inputs.read_count(max_num_considered_actions, "max_num_considered_actions")
    logits = mask_logits(checked.prior_logits, invalid_actions)
    search_key, gumbel_key = jax.random.split(rng_key)
    gumbel = gumbel_scale * jax.random.gumbel(gumbel_key, (logits.size,), logits.dtype).reshape(logits.shape)
    root_visits = jnp.zeros(logits.shape)
    if tree is not None:
        root_visits = visits_before(tree, room_for(num_simulations, max_nodes, True) - num_simulations)
    root_rule = GumbelRootRule(num_simulations, max_num_considered_actions, qtransform, tree is not None)
    searched = search(
        params,
        search_key,
        root=checked.replace(prior_logits=logits),
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=root_rule,
        interior_action_selection_fn=GumbelInteriorRule(qtransform),
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        extra_data=GumbelMuZeroExtraData(gumbel, root_visits),
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        backup=backup,
        tree=tree,
        max_nodes=max_nodes,
        backend=backend,
    )

    def decide(scored: Tree[GumbelMuZeroExtraData]) -> tuple[Int[Array, ""], Float[Array, "A"]]:
        stats = node_stats(scored, Tree.ROOT_INDEX)
        completed = qtransform(scored, Tree.ROOT_INDEX)
        most_visited = RuleInputs(
            scored.root_invalid_actions,
            noise=scored.extra_data.root_gumbel,
            considered_visit=stats.max(stats.visits - scored.extra_data.root_visits),
            visits_before=scored.extra_data.root_visits,
        )
        return root_rule.choose(stats, completed, most_visited, depth=0), stats.prior_logits + completed

    action, logits = jax.vmap(decide)(searched.scored())
    weights = jax.nn.softmax(mask_logits(logits, invalid_actions))
    return mark_unusable_rows(PolicyOutput(action, weights, searched), searched, [usable])


def puct_ranges(
    dirichlet_fraction: Scalar, dirichlet_alpha: Scalar, pb_c_init: Scalar, pb_c_base: Scalar
) -> list[Bool[Array, ""]]:
    """Returns whether each number is in its range. Raises if one is known not to be."""
    return [
        inputs.read_range(dirichlet_fraction, "dirichlet_fraction", most=1.0),
        inputs.read_range(dirichlet_alpha, "dirichlet_alpha", above=True),
        inputs.read_range(pb_c_init, "pb_c_init"),
        inputs.read_range(pb_c_base, "pb_c_base", above=True),
    ]


def act_by_visits(rng_key: Key, tree: Tree[T], temperature: Scalar) -> PolicyOutput[Tree[T]]:
    """Samples an action in proportion to `visits ** (1 / temperature)`; temperature 0 takes one with most visits."""
    weights = tree.summary().visit_probs
    logits = _log(weights)
    logits = logits - jnp.max(logits, axis=-1, keepdims=True)
    cold = jnp.maximum(jnp.finfo(logits.dtype).tiny, temperature)
    action = jax.random.categorical(rng_key, logits / cold)
    return PolicyOutput(action=action, action_weights=weights, search_tree=tree)


def add_dirichlet_noise(
    rng_key: Key, logits: Float[Array, "B A"], *, fraction: Scalar, alpha: Scalar
) -> Float[Array, "B A"]:
    """Returns the logits of the prior mixed with Dirichlet noise."""
    if isinstance(fraction, int | float) and fraction == 0:
        return _log(jax.nn.softmax(logits))
    batch_size, num_actions = logits.shape
    noise = dirichlet(rng_key, alpha, (batch_size, num_actions))
    return _log((1 - fraction) * jax.nn.softmax(logits) + fraction * noise.astype(logits.dtype))


def mask_logits(logits: Float[Array, "B A"], invalid_actions: ArrayLike | None) -> Float[Array, "B A"]:
    """Returns logits without mass on invalid actions. They are finite: a softmax over invalid ones alone is no NaN."""
    if invalid_actions is None:
        return logits
    invalid = inputs.read_invalid_actions(invalid_actions, logits)
    return jnp.where(invalid, jnp.finfo(logits.dtype).min, logits - jnp.max(logits, axis=-1, keepdims=True))


def _log(probs: Float[Array, "*B A"]) -> Float[Array, "*B A"]:
    return jnp.log(jnp.maximum(probs, jnp.finfo(probs.dtype).tiny))
