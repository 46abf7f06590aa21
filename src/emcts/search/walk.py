"""The two walks of a simulation: down the tree to the edge that is expanded, and back up with what was found there.

mctx carries the whole tree through a vmapped `while_loop`, which JAX turns into a select over every array at every
step. Here the batch goes level by level with small carries, and writes are scatters that drop finished elements.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from emcts.search import backup
from emcts.search.propagation import Propagation
from emcts.search.row import row_of_children
from emcts.search.rules import RowRule
from emcts.search.selection import InteriorActionSelectionFn, RootActionSelectionFn
from emcts.search.tree import Tree
from emcts.types import Key, RecurrentFnOutput


class Edge(NamedTuple):
    """The edge that a simulation ends on, and the node there: a new one, or one that is evaluated once more."""

    parent: Int[Array, "B"]
    action: Int[Array, "B"]
    node: Int[Array, "B"]


class _Position(NamedTuple):
    """Where each element of the batch stands on its way down."""

    parent: Int[Array, "B"]
    action: Int[Array, "B"]
    child: Int[Array, "B"]
    walking: Bool[Array, "B"]
    depth: Int[Array, ""]
    keys: Any


Chosen = tuple[Int[Array, "B"], Int[Array, "B"]]  # actions, and the nodes they lead to
Choose = Callable[[Any, Tree[Any], Int[Array, "B"], Int[Array, ""]], Chosen]


def descend_by_rows(
    tree: Tree[Any], root_rule: RowRule, interior_rule: RowRule, max_depth: int, new_node: Int[Array, "B"]
) -> Edge:
    """Walks down by rules over rows."""

    def choose(rule: RowRule) -> Choose:
        def at(_: Any, scored: Tree[Any], node: Int[Array, "B"], depth: Int[Array, ""]) -> Chosen:
            children = jax.vmap(lambda index, node: index[node])(scored.children_index, node)
            rows = jax.vmap(row_of_children)(scored, node, children)
            action = jax.vmap(rule.choose, in_axes=(0, 0, None))(rows, rule.side, depth)
            return action, jnp.take_along_axis(children, action[:, None], axis=-1)[:, 0]

        return at

    return _descend(tree.scored(), choose(root_rule), choose(interior_rule), max_depth, new_node, keys=None)


def descend_by_functions(
    tree: Tree[Any],
    root_fn: RootActionSelectionFn,
    interior_fn: InteriorActionSelectionFn,
    max_depth: int,
    new_node: Int[Array, "B"],
    key: Key,
) -> Edge:
    """Walks down by anyone's selection functions, each called with one scored tree, and with mctx's keys."""

    batch = jnp.arange(new_node.shape[0])

    def lead(scored: Tree[Any], node: Int[Array, "B"], action: Any) -> Chosen:
        action = action.astype(jnp.int32)
        return action, scored.children_index[batch, node, action]

    def at_root(keys: Any, scored: Tree[Any], node: Int[Array, "B"], depth: Int[Array, ""]) -> Chosen:
        del depth
        return lead(scored, node, jax.vmap(root_fn)(keys, scored, node))

    def inside(keys: Any, scored: Tree[Any], node: Int[Array, "B"], depth: Int[Array, ""]) -> Chosen:
        return lead(scored, node, jax.vmap(interior_fn, in_axes=(0, 0, 0, None))(keys, scored, node, depth))

    keys = jax.random.split(key, new_node.shape[0])
    return _descend(tree.scored(), at_root, inside, max_depth, new_node, keys)


def _descend(
    tree: Tree[Any], at_root: Choose, inside: Choose, max_depth: int, new_node: Int[Array, "B"], keys: Any
) -> Edge:
    batch = jnp.arange(new_node.shape[0])

    def step(choose: Choose, position: _Position) -> _Position:
        node = jnp.where(position.walking, position.child, position.parent)
        keys, choice_keys = _split_each(position.keys)
        action, child = choose(choice_keys, tree, node, position.depth)
        action = jnp.where(position.walking, action, position.action)
        child = jnp.where(position.walking, child, position.child)
        # A terminal node is evaluated again, but nothing is expanded below it.
        ended = (child == Tree.UNVISITED) | (tree.edge_discounts[batch, child] == 0)
        depth = position.depth + 1
        return _Position(node, action, child, position.walking & ~ended & (depth < max_depth), depth, keys)

    root = jnp.full_like(new_node, Tree.ROOT_INDEX)
    start = _Position(root, root, root, jnp.ones_like(new_node, bool), jnp.zeros((), jnp.int32), keys)
    below_root = step(at_root, start)
    end = jax.lax.while_loop(lambda p: jnp.any(p.walking), lambda p: step(inside, p), below_root)
    node = jnp.where(end.child == Tree.UNVISITED, new_node, end.child)
    return Edge(end.parent, end.action, node)


def _split_each(keys: Any) -> tuple[Any, Any]:
    if keys is None:
        return None, None
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


def ascend(tree: Tree[Any], edge: Edge, step: RecurrentFnOutput, propagation: Propagation) -> Tree[Any]:
    """Writes what the model said of the edge and its node, and averages the return into all nodes above."""
    batch = jnp.arange(edge.node.shape[0])
    num_nodes = tree.node_visits.shape[-1]
    found = {name: getattr(tree, name)[batch, edge.node] for name in backup.EXPANDED_FROM}
    expanded, arriving = backup.expand(found, step, propagation)
    expanded |= {
        "parents": edge.parent,
        "action_from_parent": edge.action,
        "children_prior_logits": step.prior_logits,
    }
    tree = tree.replace(
        children_index=tree.children_index.at[batch, edge.parent, edge.action].set(edge.node),
        **{name: getattr(tree, name).at[batch, edge.node].set(new) for name, new in expanded.items()},
    )

    def climb(state: _Climb) -> _Climb:
        at = jnp.where(state.node == Tree.NO_PARENT, num_nodes, state.node)

        def read(of_nodes: Array, absent: int = 0) -> Array:
            return of_nodes.at[batch, at].get(mode="fill", fill_value=absent)

        node = {name: read(state.climbed.get(name, getattr(tree, name))) for name in backup.CLIMBED_FROM}
        new, arriving = backup.climb(node, state.arriving, propagation)
        climbed = {name: state.climbed[name].at[batch, at].set(new[name], mode="drop") for name in new}
        return _Climb(read(tree.parents, Tree.NO_PARENT), arriving, climbed)

    start = _Climb(edge.parent, arriving, {name: getattr(tree, name) for name in backup.CLIMBED})
    end = jax.lax.while_loop(lambda state: jnp.any(state.node != Tree.NO_PARENT), climb, start)
    return tree.replace(**end.climbed)


class _Climb(NamedTuple):
    """Where each element of the batch stands on its way up; those at the top have no parent left."""

    node: Int[Array, "B"]
    arriving: backup.Return
    climbed: backup.Fields
