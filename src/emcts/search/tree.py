"""The search tree. An edge's statistics are stored on the node it leads to: two arrays of size N x A are enough.

Where the model is stochastic an edge leads to several nodes, one for each outcome that was sampled. Its statistics are
then means over the visits of all of them.
"""

import math
import os
from collections.abc import Sequence
from typing import ClassVar, Generic

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, Float, Int

from emcts.search.inputs import CheckedRoot
from emcts.search.outcomes import SAME, mean_over_outcomes, sum_over_outcomes
from emcts.search.reading import TreeNode, read_tree, to_html, to_text
from emcts.types import RecurrentState, Replaceable, T, T_co, record


@record
class SearchSummary(Replaceable):
    """Statistics of the roots after a search."""

    visit_counts: Float[Array, "*B A"]  # the visits of each action
    visit_probs: Float[Array, "*B A"]  # the same, divided by their sum
    value: Float[
        Array, "*B"
    ]  # the value of the root: the mean return of its simulations and its own estimate
    qvalues: Float[Array, "*B A"]  # the value of each action
    value_std: Float[Array, "*B"]  # the epistemic std of `value`
    qvalues_std: Float[Array, "*B A"]  # the epistemic std of each q-value


@record
class Tree(Replaceable, Generic[T_co]):
    """Trees of a batch of searches, or one tree without the batch axis inside a selection function.

    A value is a mean of returns, and its std the mean of the stds of the same returns (`eq:ucb_variance`), the raw
    estimate of the node included. The edge into a node has the node's visits.

    With K outcomes per action, `children_index` has K entries for each: outcome k of action a is at `k * A + a`.
    An outcome that was drawn twice is one node: the entry of the second is `SAME - k`, where k is the first.
    """

    node_visits: Int[Array, "*B N"]  # simulations through each node
    raw_values: Float[Array, "*B N"]  # the model's value of each node
    raw_value_stds: Float[Array, "*B N"]  # the std of that
    node_values: Float[Array, "*B N"]  # the mean return from each node on
    node_value_stds: Float[Array, "*B N"]  # the mean of the stds of these returns
    edge_rewards: Float[Array, "*B N"]  # of the edge into each node
    edge_reward_variances: Float[Array, "*B N"]  # the same
    edge_discounts: Float[Array, "*B N"]  # the same
    edge_qvalues: Float[Array, "*B N"]  # the mean return of the edge into each node
    edge_qvalue_stds: Float[Array, "*B N"]  # the mean of the stds of these returns
    parents: Int[Array, "*B N"]  # `NO_PARENT` at the root
    action_from_parent: Int[Array, "*B N"]  # `NO_PARENT` at the root
    children_index: Int[Array, "*B N KA"]  # the node that each action leads to, or `UNVISITED`
    children_prior_logits: Float[Array, "*B N A"]  # the prior at each node
    embeddings: RecurrentState  # the state at each node: leaves [*B, N, ...]
    root_invalid_actions: Bool[Array, "*B A"]  # actions of the root that are not searched
    beta: Float[Array, "*B"]  # the weight of stds in scores
    extra_data: T_co  # what selection functions read

    ROOT_INDEX: ClassVar[int] = 0
    NO_PARENT: ClassVar[int] = -1
    UNVISITED: ClassVar[int] = -1
    SAME: ClassVar[int] = SAME

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return self.children_prior_logits.shape[-1]

    @property
    def num_outcomes(self) -> int:
        """The number of outcomes that each action keeps: 1 unless the model is a `SampledOutcomes`."""
        return self.children_index.shape[-1] // self.num_actions

    @property
    def num_simulations(self) -> int:
        """The number of nodes besides the root."""
        return self.node_visits.shape[-1] - 1

    @property
    def children_visits(self) -> Int[Array, "*B N A"]:
        """The visits of each action at each node."""
        return sum_over_outcomes(self._outcomes(self.node_visits, self.children_index))

    @property
    def children_rewards(self) -> Float[Array, "*B N A"]:
        """The reward of each action at each node."""
        return self._gather_children(self.edge_rewards)

    @property
    def children_reward_variances(self) -> Float[Array, "*B N A"]:
        """The epistemic variance of these rewards."""
        return self._gather_children(self.edge_reward_variances)

    @property
    def children_discounts(self) -> Float[Array, "*B N A"]:
        """The discount of each action at each node."""
        return self._gather_children(self.edge_discounts)

    @property
    def children_values(self) -> Float[Array, "*B N A"]:
        """The value of the node that each action leads to."""
        return self._gather_children(self.node_values)

    @property
    def children_value_stds(self) -> Float[Array, "*B N A"]:
        """The epistemic std of these values."""
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
            raw_values=score(self.raw_values, self.raw_value_stds, beta),
            node_values=score(self.node_values, self.node_value_stds, beta),
            edge_qvalues=score(self.edge_qvalues, self.edge_qvalue_stds, beta),
        )

    def summary(self) -> SearchSummary:
        """Returns the statistics of the roots of a batch of trees."""
        roots = jnp.full(self.beta.shape, Tree.ROOT_INDEX)
        value = self.node_values[..., Tree.ROOT_INDEX]
        visits = sum_over_outcomes(self._outcomes(self.node_visits, self._rows(roots))).astype(value.dtype)
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

    def read(self, batch_index: int = 0) -> TreeNode:
        """Returns the root of one of the trees, as nested records of Python numbers."""
        return read_tree(self, batch_index)

    def to_text(self, batch_index: int = 0, depth: int = 3, actions: Sequence[str] | None = None) -> str:
        """Returns one of the trees to read: a line for each edge down to `depth`, the best first.

        `actions` are their names. The last line is the principal variation, the path of most visits.
        """
        root = self.read(batch_index)
        return to_text(root, depth, actions, self._beta(batch_index))

    def _repr_html_(self) -> str:
        """What a notebook shows: the first tree of the batch."""
        return to_html(self.read(), 3, None, self._beta(0))

    def _beta(self, batch_index: int) -> float:
        return float(self.beta[batch_index] if self.beta.ndim else self.beta)

    def _gather_children(self, node_field: Array) -> Array:
        return self._mean(node_field, self.children_index)

    def _gather_edges(self, node_field: Array, indices: ArrayLike) -> Array:
        return self._mean(node_field, self._rows(indices))

    def _rows(self, indices: ArrayLike) -> Int[Array, "*B KA"]:
        if jnp.asarray(indices).ndim == 0:
            return self.children_index[..., indices, :]
        return jax.vmap(lambda index, node: index[node])(self.children_index, indices)

    def _mean(self, node_field: Array, index: Array) -> Array:
        return mean_over_outcomes(self._outcomes(self.node_visits, index), self._outcomes(node_field, index))

    def _outcomes(self, node_field: Array, index: Array) -> list[Array]:
        """Returns the field of the nodes that `index` leads to: for each outcome, those of all actions."""
        found = _gather(node_field, index.reshape(*node_field.shape[:-1], -1)).reshape(index.shape)
        return jnp.split(found, self.num_outcomes, axis=-1)


def score(
    value: Float[Array, "*S"], std: Float[Array, "*S"], beta: Float[Array, "..."]
) -> Float[Array, "*S"]:
    """Returns `value + beta * std`; with a beta of 0 the value, also where the std is NaN."""
    return value + jnp.where(beta == 0, jnp.zeros_like(std), beta * std)


def _gather(node_field: Array, index: Array) -> Array:
    found = jnp.take_along_axis(node_field, jnp.maximum(index, 0), axis=-1)
    return jnp.where(index < 0, jnp.zeros_like(found), found)


def instantiate_tree_from_root(
    root: CheckedRoot,
    num_simulations: int,
    *,
    root_invalid_actions: Bool[Array, "B A"],
    beta: Float[Array, "B"],
    extra_data: T,
    num_outcomes: int = 1,
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
        children_index=jnp.full(
            (batch_size, num_nodes, num_outcomes * num_actions), Tree.UNVISITED, jnp.int32
        ),
        children_prior_logits=rows(root.prior_logits),
        embeddings=jax.tree.map(rows, root.embedding),
        root_invalid_actions=root_invalid_actions,
        beta=beta,
        extra_data=extra_data,
    )


def refuse_too_large(root: CheckedRoot, num_simulations: int, num_outcomes: int = 1) -> None:
    """Raises an error if trees of so many simulations need more memory than there is."""
    batch_size, num_actions = root.prior_logits.shape
    shapes = jax.eval_shape(
        lambda root: instantiate_tree_from_root(
            root,
            1,
            root_invalid_actions=jnp.zeros(root.prior_logits.shape, bool),
            beta=jnp.zeros_like(root.value),
            extra_data=None,
            num_outcomes=num_outcomes,
        ),
        root,
    )
    per_node = sum(leaf.dtype.itemsize * math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(shapes))
    needed, there = batch_size * (num_simulations + 1) * per_node, _memory()
    if needed > there:
        raise ValueError(
            f"num_simulations is {num_simulations:,}: trees of {batch_size:,} batch elements and {num_actions} "
            f"actions then need {needed / 2**30:,.0f} GiB, and there are {there / 2**30:,.0f} GiB: give fewer "
            "simulations, or a smaller batch"
        )


def _memory() -> int:
    """Returns the bytes of memory of the device, or of the machine if the device does not say."""
    device: int = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    return device or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
