"""The search tree. An edge's statistics are stored on the node it leads to: two arrays of size N x A are enough."""

from typing import ClassVar, Generic

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, Float, Int

from emcts.search.inputs import CheckedRoot
from emcts.types import RecurrentState, Replaceable, T, T_co, record


@record
class SearchSummary(Replaceable):
    """Statistics of the roots after a search."""

    visit_counts: Float[Array, "*B A"]
    visit_probs: Float[Array, "*B A"]
    value: Float[Array, "*B"]
    qvalues: Float[Array, "*B A"]
    value_std: Float[Array, "*B"]
    qvalues_std: Float[Array, "*B A"]


@record
class Tree(Replaceable, Generic[T_co]):
    """Trees of a batch of searches, or one tree without the batch axis inside a selection function.

    A value is a mean of returns, and its std the mean of the stds of the same returns (`eq:ucb_variance`), the raw
    estimate of the node included. The edge into a node has the node's visits.
    """

    node_visits: Int[Array, "*B N"]
    raw_values: Float[Array, "*B N"]
    raw_value_stds: Float[Array, "*B N"]
    node_values: Float[Array, "*B N"]
    node_value_stds: Float[Array, "*B N"]
    edge_rewards: Float[Array, "*B N"]
    edge_reward_variances: Float[Array, "*B N"]
    edge_discounts: Float[Array, "*B N"]
    edge_qvalues: Float[Array, "*B N"]
    edge_qvalue_stds: Float[Array, "*B N"]
    parents: Int[Array, "*B N"]
    action_from_parent: Int[Array, "*B N"]
    children_index: Int[Array, "*B N A"]
    children_prior_logits: Float[Array, "*B N A"]
    embeddings: RecurrentState
    root_invalid_actions: Bool[Array, "*B A"]
    beta: Float[Array, "*B"]
    extra_data: T_co

    ROOT_INDEX: ClassVar[int] = 0
    NO_PARENT: ClassVar[int] = -1
    UNVISITED: ClassVar[int] = -1

    @property
    def num_actions(self) -> int:
        return self.children_index.shape[-1]

    @property
    def num_simulations(self) -> int:
        return self.node_visits.shape[-1] - 1

    @property
    def children_visits(self) -> Int[Array, "*B N A"]:
        return self._gather_children(self.node_visits)

    @property
    def children_rewards(self) -> Float[Array, "*B N A"]:
        return self._gather_children(self.edge_rewards)

    @property
    def children_reward_variances(self) -> Float[Array, "*B N A"]:
        return self._gather_children(self.edge_reward_variances)

    @property
    def children_discounts(self) -> Float[Array, "*B N A"]:
        return self._gather_children(self.edge_discounts)

    @property
    def children_values(self) -> Float[Array, "*B N A"]:
        return self._gather_children(self.node_values)

    @property
    def children_value_stds(self) -> Float[Array, "*B N A"]:
        return self._gather_children(self.node_value_stds)

    def qvalues(self, indices: ArrayLike) -> Float[Array, "*B A"]:
        """Returns the q-values of all actions at a node; with an array of indices, at one node of each tree."""
        return self._gather_edges(self.edge_qvalues, indices)

    def qvalues_std(self, indices: ArrayLike) -> Float[Array, "*B A"]:
        """Returns the epistemic stds of the q-values, indexed as `qvalues`."""
        return self._gather_edges(self.edge_qvalue_stds, indices)

    def scored(self) -> "Tree[T_co]":
        """Returns the tree with every value replaced by its score `x + beta * std(x)`, for selection functions."""
        beta = self.beta[..., None]
        return self.replace(
            raw_values=self.raw_values + beta * self.raw_value_stds,
            node_values=self.node_values + beta * self.node_value_stds,
            edge_qvalues=self.edge_qvalues + beta * self.edge_qvalue_stds,
        )

    def summary(self) -> SearchSummary:
        """Returns the statistics of the roots of a batch of trees."""
        roots = jnp.full(self.beta.shape, Tree.ROOT_INDEX)
        value = self.node_values[..., Tree.ROOT_INDEX]
        visits = self._gather_edges(self.node_visits, roots).astype(value.dtype)
        total = jnp.sum(visits, axis=-1, keepdims=True)
        probs = jnp.where(total > 0, visits / jnp.maximum(total, 1), 1 / self.num_actions)
        return SearchSummary(
            visit_counts=visits,
            visit_probs=probs,
            value=value,
            qvalues=self.qvalues(roots),
            value_std=self.node_value_stds[..., Tree.ROOT_INDEX],
            qvalues_std=self.qvalues_std(roots),
        )

    def _gather_children(self, node_field: Array) -> Array:
        index = self.children_index
        flat = index.reshape(*index.shape[:-2], -1)
        return _gather(node_field, flat).reshape(index.shape)

    def _gather_edges(self, node_field: Array, indices: ArrayLike) -> Array:
        if jnp.asarray(indices).ndim == 0:
            return _gather(node_field, self.children_index[..., indices, :])
        rows = jax.vmap(lambda index, node: index[node])(self.children_index, indices)
        return _gather(node_field, rows)


def _gather(node_field: Array, index: Array) -> Array:
    found = jnp.take_along_axis(node_field, jnp.maximum(index, 0), axis=-1)
    return jnp.where(index == Tree.UNVISITED, jnp.zeros_like(found), found)


def instantiate_tree_from_root(
    root: CheckedRoot,
    num_simulations: int,
    *,
    root_invalid_actions: Bool[Array, "B A"],
    beta: Float[Array, "B"],
    extra_data: T,
) -> Tree[T]:
    """Returns trees that hold their roots, with room for one more node per simulation."""
    batch_size, num_actions = root.prior_logits.shape
    num_nodes = num_simulations + 1
    dtype = root.value.dtype

    def nodes(at_root: ArrayLike, elsewhere: int, dtype: DTypeLike) -> Array:
        return jnp.full((batch_size, num_nodes), elsewhere, dtype).at[:, 0].set(at_root)

    def rows(at_root: Array) -> Array:
        return jnp.zeros((batch_size, num_nodes, *at_root.shape[1:]), at_root.dtype).at[:, 0].set(at_root)

    std = jnp.sqrt(root.value_variance)
    return Tree(
        node_visits=nodes(1, 0, jnp.int32),
        raw_values=nodes(root.value, 0, dtype),
        raw_value_stds=nodes(std, 0, dtype),
        node_values=nodes(root.value, 0, dtype),
        node_value_stds=nodes(std, 0, dtype),
        edge_rewards=nodes(0, 0, dtype),
        edge_reward_variances=nodes(0, 0, dtype),
        edge_discounts=nodes(0, 0, dtype),
        edge_qvalues=nodes(0, 0, dtype),
        edge_qvalue_stds=nodes(0, 0, dtype),
        parents=nodes(Tree.NO_PARENT, Tree.NO_PARENT, jnp.int32),
        action_from_parent=nodes(Tree.NO_PARENT, Tree.NO_PARENT, jnp.int32),
        children_index=jnp.full((batch_size, num_nodes, num_actions), Tree.UNVISITED, jnp.int32),
        children_prior_logits=rows(root.prior_logits),
        embeddings=jax.tree.map(rows, root.embedding),
        root_invalid_actions=root_invalid_actions,
        beta=beta,
        extra_data=extra_data,
    )
