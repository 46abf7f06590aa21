"""One node as a selection rule sees it. Rules are functions of a row alone, so that they run in a GPU kernel too."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from emcts.search.tree import Tree


class Row(NamedTuple):
    """The statistics of one node, values as scores.

    `lanes` marks the actions that exist, where a kernel has padded the row to a power of two; else it is None.
    """

    visits: Float[Array, "A"]
    prior_logits: Float[Array, "A"]
    qvalues: Float[Array, "A"]
    node_visits: Int[Array, ""]
    node_value: Float[Array, ""]
    raw_value: Float[Array, ""]
    lanes: Bool[Array, "A"] | None = None

    def max(self, of_actions: Array) -> Array:
        return jnp.max(self._fill(of_actions, -jnp.inf))

    def min(self, of_actions: Array) -> Array:
        return jnp.min(self._fill(of_actions, jnp.inf))

    def sum(self, of_actions: Array) -> Array:
        return jnp.sum(self._fill(of_actions, 0))

    def softmax(self, logits: Float[Array, "A"]) -> Float[Array, "A"]:
        weights = jnp.exp(logits - self.max(logits))
        return weights / self.sum(weights)

    def argmax(self, of_actions: Float[Array, "A"]) -> Int[Array, ""]:
        """The first action with the largest entry. Two plain reductions: on CPUs they beat an argmax after PUCT."""
        filled = self._fill(of_actions, -jnp.inf)
        last = filled.shape[0] - 1
        lane = lax.broadcasted_iota(jnp.int32, filled.shape, 0)
        return jnp.min(jnp.where(filled == jnp.max(filled), lane, last))

    def _fill(self, of_actions: Array, filler: Any) -> Array:
        if self.lanes is None:
            return of_actions
        return jnp.where(self.lanes, of_actions, jnp.asarray(filler, of_actions.dtype))


def read_row(tree: Tree[Any], node_index: Any) -> Row:
    """The row of a node of one tree, with the tree's values as they are: pass a scored tree to get scores."""
    return row_of_children(tree, node_index, tree.children_index[node_index])


def row_of_children(tree: Tree[Any], node_index: Any, child: Int[Array, "A"]) -> Row:
    """The same, where the node's children are known."""
    exists = child != Tree.UNVISITED
    at = jnp.maximum(child, 0)
    return Row(
        visits=jnp.where(exists, tree.node_visits[at], 0).astype(jnp.float32),
        prior_logits=tree.children_prior_logits[node_index],
        qvalues=jnp.where(exists, tree.edge_qvalues[at], 0),
        node_visits=tree.node_visits[node_index],
        node_value=tree.node_values[node_index],
        raw_value=tree.raw_values[node_index],
    )
