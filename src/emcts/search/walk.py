"""The two walks of a simulation: down the tree to the edge that is expanded, and back up with what was found there.

mctx carries the whole tree through a vmapped `while_loop`, which JAX turns into a select over every array at every
step. Here the batch goes level by level with small carries, and writes are scatters that drop finished elements.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.search.propagation import Propagation
from emcts.search.row import read_row
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


Choose = Callable[[Any, Tree[Any], Int[Array, "B"], Int[Array, ""]], Int[Array, "B"]]


def descend_by_rows(
    tree: Tree[Any], root_rule: RowRule, interior_rule: RowRule, max_depth: int, new_node: Int[Array, "B"]
) -> Edge:
    """Walks down by rules over rows."""

    def choose(rule: RowRule) -> Choose:
        def at(_: Any, scored: Tree[Any], node: Int[Array, "B"], depth: Int[Array, ""]) -> Int[Array, "B"]:
            rows = jax.vmap(read_row)(scored, node)
            return jax.vmap(rule.choose, in_axes=(0, 0, None))(rows, rule.side, depth)

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

    def at_root(
        keys: Any, scored: Tree[Any], node: Int[Array, "B"], depth: Int[Array, ""]
    ) -> Int[Array, "B"]:
        del depth
        return jax.vmap(root_fn)(keys, scored, node)

    def inside(keys: Any, scored: Tree[Any], node: Int[Array, "B"], depth: Int[Array, ""]) -> Int[Array, "B"]:
        return jax.vmap(interior_fn, in_axes=(0, 0, 0, None))(keys, scored, node, depth)

    keys = jax.random.split(key, new_node.shape[0])
    return _descend(tree.scored(), at_root, inside, max_depth, new_node, keys)


def _descend(
    tree: Tree[Any], at_root: Choose, inside: Choose, max_depth: int, new_node: Int[Array, "B"], keys: Any
) -> Edge:
    batch = jnp.arange(new_node.shape[0])

    def step(choose: Choose, position: _Position) -> _Position:
        node = jnp.where(position.walking, position.child, position.parent)
        keys, choice_keys = _split_each(position.keys)
        chosen = choose(choice_keys, tree, node, position.depth).astype(jnp.int32)
        action = jnp.where(position.walking, chosen, position.action)
        child = tree.children_index[batch, node, action]
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
    tree, nu, variance = _expand(tree, edge, step, propagation)
    batch = jnp.arange(edge.node.shape[0])
    num_nodes = tree.node_visits.shape[-1]

    class Climb(NamedTuple):
        node: Int[Array, "B"]
        nu: Float[Array, "B"]
        variance: Float[Array, "B"]
        visits: Int[Array, "B N"]
        values: Float[Array, "B N"]
        value_stds: Float[Array, "B N"]
        qvalues: Float[Array, "B N"]
        qvalue_stds: Float[Array, "B N"]

    def climb(state: Climb) -> Climb:
        at = jnp.where(state.node == Tree.NO_PARENT, num_nodes, state.node)

        def read(of_nodes: Array) -> Array:
            return of_nodes.at[batch, at].get(mode="fill", fill_value=0)

        def write(of_nodes: Array, new: Array) -> Array:
            return of_nodes.at[batch, at].set(new, mode="drop")

        visits = read(state.visits)
        value = average(read(state.values), visits, state.nu)
        value_std = average(read(state.value_stds), visits, jnp.sqrt(state.variance))
        reward, discount = read(tree.edge_rewards), read(tree.edge_discounts)
        variance = propagation(read(tree.edge_reward_variances), discount, state.variance)
        # The edge into a node was visited as often as the node.
        qvalue_std = average(read(state.qvalue_stds), visits, jnp.sqrt(variance))
        return Climb(
            node=tree.parents.at[batch, at].get(mode="fill", fill_value=Tree.NO_PARENT),
            nu=reward + discount * state.nu,
            variance=variance,
            visits=write(state.visits, visits + 1),
            values=write(state.values, value),
            value_stds=write(state.value_stds, value_std),
            qvalues=write(state.qvalues, reward + discount * value),
            qvalue_stds=write(state.qvalue_stds, qvalue_std),
        )

    start = Climb(
        edge.parent,
        nu,
        variance,
        tree.node_visits,
        tree.node_values,
        tree.node_value_stds,
        tree.edge_qvalues,
        tree.edge_qvalue_stds,
    )
    end = jax.lax.while_loop(lambda state: jnp.any(state.node != Tree.NO_PARENT), climb, start)
    return tree.replace(
        node_visits=end.visits,
        node_values=end.values,
        node_value_stds=end.value_stds,
        edge_qvalues=end.qvalues,
        edge_qvalue_stds=end.qvalue_stds,
    )


def _expand(
    tree: Tree[Any], edge: Edge, step: RecurrentFnOutput, propagation: Propagation
) -> tuple[Tree[Any], Float[Array, "B"], Float[Array, "B"]]:
    """Fills in the node at the end of the edge; returns the return and variance that arrive at its parent."""
    batch = jnp.arange(edge.node.shape[0])
    visits = tree.node_visits[batch, edge.node]
    variance = propagation(step.reward_variance, step.discount, step.value_variance)
    qvalue_std = average(tree.edge_qvalue_stds[batch, edge.node], visits, jnp.sqrt(variance))
    nu = step.reward + step.discount * step.value
    std = jnp.sqrt(step.value_variance)

    def write(of_nodes: Array, new: Array) -> Array:
        return of_nodes.at[batch, edge.node].set(new)

    tree = tree.replace(
        node_visits=write(tree.node_visits, visits + 1),
        raw_values=write(tree.raw_values, step.value),
        raw_value_stds=write(tree.raw_value_stds, std),
        node_values=write(tree.node_values, step.value),
        node_value_stds=write(tree.node_value_stds, std),
        edge_rewards=write(tree.edge_rewards, step.reward),
        edge_reward_variances=write(tree.edge_reward_variances, step.reward_variance),
        edge_discounts=write(tree.edge_discounts, step.discount),
        edge_qvalues=write(tree.edge_qvalues, nu),
        edge_qvalue_stds=write(tree.edge_qvalue_stds, qvalue_std),
        parents=write(tree.parents, edge.parent),
        action_from_parent=write(tree.action_from_parent, edge.action),
        children_prior_logits=write(tree.children_prior_logits, step.prior_logits),
        children_index=tree.children_index.at[batch, edge.parent, edge.action].set(edge.node),
    )
    return tree, nu, variance


def average(mean: Array, count: Array, new: Array) -> Array:
    """A running mean of `count` values after one more."""
    return (mean * count + new) / (count + 1)
