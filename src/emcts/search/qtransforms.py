"""Monotonic transformations of q-values: each as a record that transforms one node's, and under mctx's name."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from emcts.search.traversal.rules import NodeQTransform, NodeStats
from emcts.search.tree import Tree
from emcts.types import Scalar, record


@record
class Unchanged(NodeQTransform):
    """Q-values as they are."""

    def transform(self, stats: NodeStats) -> Float[Array, "A"]:
        return stats.qvalues


@record
class ByMinMax(NodeQTransform):
    """Q-values as shares of the range from `min_value` to `max_value`; untried actions have 0."""

    min_value: Scalar
    max_value: Scalar

    def transform(self, stats: NodeStats) -> Float[Array, "A"]:
        value = jnp.where(stats.visits > 0, stats.qvalues, self.min_value)
        return (value - self.min_value) / (self.max_value - self.min_value)


@record
class ByParentAndSiblings(NodeQTransform):
    """Q-values as shares of the range spanned by the node's value and its q-values; untried actions have 0."""

    epsilon: Scalar = 1e-8

    def transform(self, stats: NodeStats) -> Float[Array, "A"]:
        tried = stats.visits > 0
        known = jnp.where(tried, stats.qvalues, stats.node_value)
        low = jnp.minimum(stats.node_value, stats.min(known))
        high = jnp.maximum(stats.node_value, stats.max(known))
        return (jnp.where(tried, stats.qvalues, low) - low) / jnp.maximum(high - low, self.epsilon)


@record
class CompletedByMixValue(NodeQTransform):
    """Q-values, untried ones filled with the mixed (or raw) value, times `value_scale` and the visits.

    The completion of "Policy improvement by planning with Gumbel", appendix D.
    """

    value_scale: Scalar = 0.1
    maxvisit_init: Scalar = 50.0
    rescale_values: bool = dataclasses.field(default=True, metadata={"static": True})
    use_mixed_value: bool = dataclasses.field(default=True, metadata={"static": True})
    epsilon: Scalar = 1e-8

    def transform(self, stats: NodeStats) -> Float[Array, "A"]:
        value = _mixed_value(stats) if self.use_mixed_value else stats.raw_value
        completed = jnp.where(stats.visits > 0, stats.qvalues, value)
        if self.rescale_values:
            low, high = stats.min(completed), stats.max(completed)
            completed = (completed - low) / jnp.maximum(high - low, self.epsilon)
        return (self.maxvisit_init + stats.max(stats.visits)) * self.value_scale * completed


def _mixed_value(stats: NodeStats) -> Float[Array, ""]:
    """Returns the raw value, mixed with the prior's mean over the actions tried so far."""
    tried = stats.visits > 0
    probs = stats.softmax(stats.prior_logits)
    # A tried action may have a prior of zero; the mean over such actions alone must not divide by zero.
    probs = jnp.maximum(jnp.finfo(probs.dtype).tiny, probs)
    total_prob = stats.sum(jnp.where(tried, probs, 0))
    weighted = stats.sum(jnp.where(tried, probs * stats.qvalues, 0)) / jnp.where(
        total_prob > 0, total_prob, 1
    )
    visits = stats.sum(stats.visits)
    return (stats.raw_value + visits * weighted) / (visits + 1)


def qtransform_by_min_max(
    tree: Tree[object], node_index: ArrayLike, *, min_value: Scalar, max_value: Scalar
) -> Float[Array, "A"]:
    """Evaluates `ByMinMax` at a node."""
    return ByMinMax(min_value, max_value)(tree, node_index)


def qtransform_by_parent_and_siblings(
    tree: Tree[object], node_index: ArrayLike, *, epsilon: Scalar = 1e-8
) -> Float[Array, "A"]:
    """Evaluates `ByParentAndSiblings` at a node."""
    return ByParentAndSiblings(epsilon)(tree, node_index)


def qtransform_completed_by_mix_value(
    tree: Tree[object],
    node_index: ArrayLike,
    *,
    value_scale: Scalar = 0.1,
    maxvisit_init: Scalar = 50.0,
    rescale_values: bool = True,
    use_mixed_value: bool = True,
    epsilon: Scalar = 1e-8,
) -> Float[Array, "A"]:
    """Evaluates `CompletedByMixValue` at a node."""
    transform = CompletedByMixValue(value_scale, maxvisit_init, rescale_values, use_mixed_value, epsilon)
    return transform(tree, node_index)


QTRANSFORMS: dict[Callable[..., object], type[NodeQTransform]] = {
    qtransform_by_min_max: ByMinMax,
    qtransform_by_parent_and_siblings: ByParentAndSiblings,
    qtransform_completed_by_mix_value: CompletedByMixValue,
}
