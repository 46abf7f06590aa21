"""Subtree reuse: the tree below an action of each root, and a search that goes on from there."""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from emcts.search.inputs import CheckedRoot
from emcts.search.tree import Tree
from emcts.types import T

_OF_EDGES = (  # fields of the edge into a node, which a root does not have
    "edge_rewards",
    "edge_reward_variances",
    "edge_discounts",
    "edge_qvalues",
    "edge_qvalue_stds",
)
_OF_NODES = ("raw_values", "raw_value_stds", "node_values", "node_value_stds")


def subtree(tree: Tree[T], action: ArrayLike, *, where: ArrayLike | None = None) -> Tree[T]:
    """Returns the tree below an action of each root, for `tree=` of the search at the state that the action led to.

    Statistics are kept, and nodes are numbered anew in their order. A row becomes empty, and its next search starts
    afresh, if the action was not visited, if it ended the episode (a discount of 0), or if `where` is False: give the
    episodes that go on, if something else can end or reset them.

    Args:
        tree: the tree of a search, with batch size B.
        action: integers [B], the actions that were taken.
        where: a mask [B] of the rows to keep; left out, all of them.
    """
    if tree.num_outcomes > 1:
        raise ValueError(
            f"a tree with {tree.num_outcomes} sampled outcomes for each action has no one tree below it: "
            "search afresh"
        )
    batch = tree.beta.shape
    chosen, goes_on = jnp.asarray(action), jnp.asarray(True if where is None else where, bool)
    if chosen.shape != batch or not jnp.issubdtype(chosen.dtype, jnp.integer):
        raise ValueError(
            f"action must be integers of shape {list(batch)}, got {chosen.dtype}{list(chosen.shape)}"
        )
    if goes_on.shape not in ((), batch):
        raise ValueError(f"where must have shape {list(batch)}, got {list(goes_on.shape)}")
    cut = _below if not batch else jax.vmap(_below)
    return cut(tree, chosen, jnp.broadcast_to(goes_on, batch))


def _below(tree: Tree[T], action: Int[Array, ""], goes_on: Bool[Array, ""]) -> Tree[T]:
    """The tree below one action."""
    num_nodes = tree.node_visits.shape[0]
    index = jnp.arange(num_nodes)
    child = tree.children_index[Tree.ROOT_INDEX, action]
    keep = goes_on & (child != Tree.UNVISITED) & (tree.edge_discounts[child] != 0)
    inside = _descends(tree.parents, child) & keep
    # Nodes that stay, in their order: a child still has a higher number than its parent.
    number = jnp.cumsum(inside) - 1
    source = jnp.argsort(~inside, stable=True)
    exists = index < jnp.sum(inside)
    interior = exists & (index > 0)

    def moved(field: Array, absent: int, where: Bool[Array, "N"]) -> Array:
        mask = where.reshape(-1, *[1] * (field.ndim - 1))
        return jnp.where(mask, field[source], jnp.asarray(absent, field.dtype))

    def renumbered(nodes: Array) -> Array:
        return jnp.where(nodes < 0, nodes, number[jnp.maximum(nodes, 0)])

    return tree.replace(
        node_visits=moved(tree.node_visits, 0, exists),
        **{name: moved(getattr(tree, name), 0, exists) for name in _OF_NODES},
        **{name: moved(getattr(tree, name), 0, interior) for name in _OF_EDGES},
        parents=moved(renumbered(tree.parents), Tree.NO_PARENT, interior),
        action_from_parent=moved(tree.action_from_parent, Tree.NO_PARENT, interior),
        children_index=moved(renumbered(tree.children_index), Tree.UNVISITED, exists),
        children_prior_logits=moved(tree.children_prior_logits, 0, exists),
        embeddings=jax.tree.map(lambda field: field[source], tree.embeddings),
    )


def _descends(parents: Int[Array, "N"], ancestor: Int[Array, ""]) -> Bool[Array, "N"]:
    """Whether each node is the ancestor or is below it: after k rounds, up to 2**k generations were looked at."""
    found = jnp.arange(parents.shape[0]) == ancestor
    above = jnp.maximum(parents, Tree.ROOT_INDEX)
    for _ in range(max(1, math.ceil(math.log2(parents.shape[0])))):
        found, above = found | found[above], above[above]
    return found


def room_for(num_simulations: int, max_nodes: int | None, continues: bool) -> int:
    """Returns the number of nodes of a tree: `max_nodes`, or by default room for as many old nodes as new ones."""
    if max_nodes is None:
        return 1 + (2 if continues else 1) * num_simulations
    if max_nodes < num_simulations + 1:
        raise ValueError(
            f"max_nodes is {max_nodes}: give at least {num_simulations + 1}, a root and a node for each simulation"
        )
    return max_nodes


def continue_tree(tree: Tree[object], fresh: Tree[T], root: CheckedRoot, num_simulations: int) -> Tree[T]:
    """Returns the trees of a search that goes on: `tree` with the new root's prior, or `fresh` where it is empty.

    Room is left for the nodes of `num_simulations`. If the tree has too many, the newest are cut off: their edges are
    unvisited again, and the values above keep what they contributed.
    """
    _refuse_other_shapes(tree, fresh)
    most = fresh.node_visits.shape[-1] - num_simulations
    kept = min(most, tree.node_visits.shape[-1])
    continues = tree.node_visits[:, Tree.ROOT_INDEX] > 0

    def placed(old: Array, new: Array) -> Array:
        mask = continues.reshape(-1, *[1] * (new.ndim - 1))
        empty = jnp.concatenate([old[:, :kept], new[:, kept:]], axis=1)
        return jnp.where(mask, empty, new)

    children = _cut(tree, most)
    logits = tree.children_prior_logits.at[:, Tree.ROOT_INDEX].set(root.prior_logits)
    embeddings = jax.tree.map(
        lambda old, new: old.at[:, Tree.ROOT_INDEX].set(new), tree.embeddings, root.embedding
    )
    fields = ("node_visits", *_OF_NODES, *_OF_EDGES, "parents", "action_from_parent")
    return fresh.replace(
        **{name: placed(getattr(tree, name), getattr(fresh, name)) for name in fields},
        children_index=placed(children, fresh.children_index),
        children_prior_logits=placed(logits, fresh.children_prior_logits),
        embeddings=jax.tree.map(placed, embeddings, fresh.embeddings),
    )


def visits_before(tree: Tree[object], most: int) -> Float[Array, "B A"]:
    """Returns the visits of root actions in a tree whose first `most` nodes are kept."""
    _refuse_no_tree(tree)
    children = _cut(tree, most)[:, Tree.ROOT_INDEX]
    visits = jnp.take_along_axis(tree.node_visits, jnp.maximum(children, 0), axis=-1)
    return jnp.where(children < 0, 0, visits).astype(jnp.float32)


def _cut(tree: Tree[object], most: int) -> Int[Array, "B N A"]:
    """The children of nodes, without those that are not kept."""
    return jnp.where(tree.children_index >= most, Tree.UNVISITED, tree.children_index)


def num_nodes(tree: Tree[object]) -> Int[Array, "B"]:
    """Returns the number of the first free node of each tree."""
    visited = tree.node_visits > 0
    return tree.node_visits.shape[-1] - jnp.argmax(visited[:, ::-1], axis=-1)


def _refuse_no_tree(tree: object) -> None:
    if not isinstance(tree, Tree):
        raise TypeError(f"tree must be a search_tree, or `emcts.subtree` of one, got {type(tree).__name__}")


def _refuse_other_shapes(tree: Tree[object], fresh: Tree[object]) -> None:
    _refuse_no_tree(tree)
    if tree.num_outcomes > 1 or fresh.num_outcomes > 1:
        raise ValueError("a tree with sampled outcomes cannot be continued: search afresh")
    pairs = {
        "batch size": (tree.beta.shape, fresh.beta.shape),
        "number of actions": (tree.num_actions, fresh.num_actions),
        "dtype of values": (tree.node_values.dtype, fresh.node_values.dtype),
        "kind of embedding": (_types(tree.embeddings), _types(fresh.embeddings)),
    }
    for what, (given, wanted) in pairs.items():
        if given != wanted:
            raise ValueError(
                f"tree has another {what} than the root: {given} instead of {wanted}. Give the tree of a search "
                "with the same model"
            )


def _types(embeddings: object) -> list[tuple[str, tuple[int, ...], str]]:
    return [
        (jax.tree_util.keystr(path), leaf.shape[2:], str(leaf.dtype))
        for path, leaf in jax.tree_util.tree_leaves_with_path(embeddings)
    ]
