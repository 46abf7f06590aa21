"""Monotonic transformations of q-values: each as a function of a row, and under mctx's name as one of a tree."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.search.row import Row, read_row
from emcts.search.tree import Tree
from emcts.types import Number, Scalar


def by_min_max(row: Row, *, min_value: Scalar, max_value: Scalar) -> Float[Array, "A"]:
    value = jnp.where(row.visits > 0, row.qvalues, min_value)
    return (value - min_value) / (max_value - min_value)


def by_parent_and_siblings(row: Row, *, epsilon: Scalar = 1e-8) -> Float[Array, "A"]:
    tried = row.visits > 0
    known = jnp.where(tried, row.qvalues, row.node_value)
    low = jnp.minimum(row.node_value, row.min(known))
    high = jnp.maximum(row.node_value, row.max(known))
    return (jnp.where(tried, row.qvalues, low) - low) / jnp.maximum(high - low, epsilon)


def completed_by_mix_value(
    row: Row,
    *,
    value_scale: Scalar = 0.1,
    maxvisit_init: Scalar = 50.0,
    rescale_values: bool = True,
    use_mixed_value: bool = True,
    epsilon: Scalar = 1e-8,
) -> Float[Array, "A"]:
    value = _mixed_value(row) if use_mixed_value else row.raw_value
    completed = jnp.where(row.visits > 0, row.qvalues, value)
    if rescale_values:
        low, high = row.min(completed), row.max(completed)
        completed = (completed - low) / jnp.maximum(high - low, epsilon)
    return (maxvisit_init + row.max(row.visits)) * value_scale * completed


def _mixed_value(row: Row) -> Float[Array, ""]:
    """The raw value, mixed with the prior's mean over the actions tried so far."""
    tried = row.visits > 0
    probs = row.softmax(row.prior_logits)
    # A tried action may have a prior of zero; the mean over such actions alone must not divide by zero.
    probs = jnp.maximum(jnp.finfo(probs.dtype).tiny, probs)
    total_prob = row.sum(jnp.where(tried, probs, 0))
    weighted = row.sum(jnp.where(tried, probs * row.qvalues, 0)) / jnp.where(total_prob > 0, total_prob, 1)
    visits = row.sum(row.visits)
    return (row.raw_value + visits * weighted) / (visits + 1)


def qtransform_by_min_max(
    tree: Tree[Any], node_index: Any, *, min_value: Number, max_value: Number
) -> Float[Array, "A"]:
    """Q-values as shares of the range from `min_value` to `max_value`; untried actions have 0."""
    return by_min_max(read_row(tree, node_index), min_value=min_value, max_value=max_value)


def qtransform_by_parent_and_siblings(
    tree: Tree[Any], node_index: Any, *, epsilon: Number = 1e-8
) -> Float[Array, "A"]:
    """Q-values as shares of the range spanned by the node's value and its q-values; untried actions have 0."""
    return by_parent_and_siblings(read_row(tree, node_index), epsilon=epsilon)


def qtransform_completed_by_mix_value(
    tree: Tree[Any],
    node_index: Any,
    *,
    value_scale: Number = 0.1,
    maxvisit_init: Number = 50.0,
    rescale_values: bool = True,
    use_mixed_value: bool = True,
    epsilon: Number = 1e-8,
) -> Float[Array, "A"]:
    """Q-values, untried ones filled with the mixed (or raw) value, times `value_scale` and the visits.

    The completion of "Policy improvement by planning with Gumbel", appendix D.
    """
    return completed_by_mix_value(
        read_row(tree, node_index),
        value_scale=value_scale,
        maxvisit_init=maxvisit_init,
        rescale_values=rescale_values,
        use_mixed_value=use_mixed_value,
        epsilon=epsilon,
    )
