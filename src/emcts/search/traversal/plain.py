"""The two traversals in plain JAX.

mctx carries the whole tree through a vmapped `while_loop`, which JAX turns into a select over every array at every
step. Here the batch goes level by level with small carries, and writes are scatters that drop finished elements.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from emcts.search.backup import (
    BackupRules,
    NodeFields,
    Return,
    RunningStats,
    back_up,
    evaluate,
)
from emcts.search.inputs import ModelStep, with_variances
from emcts.search.outcomes import next_outcome
from emcts.search.selection import InteriorActionSelectionFn, RootActionSelectionFn
from emcts.search.traversal.rules import BoundRule, NodeStats, entry, stats_of_children
from emcts.search.tree import Tree
from emcts.types import Key, MaybeArray, record


@record
class LeafEdge:
    """The edge that a simulation ends on, its outcome, and the node there: a new one, or one to evaluate once more."""

    parent_index: Int[Array, "B"]
    action: Int[Array, "B"]
    outcome: Int[Array, "B"]
    next_node_index: Int[Array, "B"]


class _SimulationState(NamedTuple):
    """The position of each batch element on its way down. `keys` is None for rules, which need none."""

    node_index: Int[Array, "B"]
    action: Int[Array, "B"]
    outcome: Int[Array, "B"]
    next_node_index: Int[Array, "B"]
    is_continuing: Bool[Array, "B"]
    depth: Int[Array, ""]
    keys: MaybeArray


class Selected(NamedTuple):
    """The actions selected at nodes, the outcomes to visit next, and the nodes that these lead to."""

    action: Int[Array, "B"]
    outcome: Int[Array, "B"]
    child: Int[Array, "B"]


_OF_TREES = ("parents", "action_from_parent", "children_index", "children_prior_logits")

Select = Callable[[MaybeArray, Int[Array, "B"], Int[Array, ""]], Selected]


def simulate(
    tree: Tree[object],
    root_rule: BoundRule,
    interior_rule: BoundRule,
    max_depth: int,
    new_node: Int[Array, "B"],
) -> LeafEdge:
    """Traverses trees, whose values are scores, by rules until an unvisited action, a terminal node or `max_depth`."""

    def select_at(stats: NodeStats, depth: Int[Array, ""]) -> Int[Array, "B"]:
        def by(rule: BoundRule) -> Int[Array, "B"]:
            return jax.vmap(BoundRule.select, in_axes=(0, 0, None))(rule, stats, depth)

        if len({jax.tree.structure(rule) for rule in (root_rule, interior_rule)}) == 1:
            return by(jax.tree.map(lambda *inputs: jnp.where(depth == 0, *inputs), root_rule, interior_rule))
        return jax.lax.cond(depth == 0, lambda: by(root_rule), lambda: by(interior_rule))

    def select(_: MaybeArray, node_index: Int[Array, "B"], depth: Int[Array, ""]) -> Selected:
        return _follow_from(tree, node_index, lambda stats: select_at(stats, depth))

    return _simulate(tree, select, max_depth, new_node, keys=None)


def simulate_by_functions(
    tree: Tree[object],
    root_fn: RootActionSelectionFn,
    interior_fn: InteriorActionSelectionFn,
    max_depth: int,
    new_node: Int[Array, "B"],
    rng_key: Key,
) -> LeafEdge:
    """Traverses trees by any selection functions, each called with one tree of scores and with mctx's keys."""

    def select(keys: MaybeArray, node_index: Int[Array, "B"], depth: Int[Array, ""]) -> Selected:
        def by_root() -> Array:
            return jax.vmap(root_fn)(keys, tree, node_index).astype(jnp.int32)

        def by_interior() -> Array:
            select = jax.vmap(interior_fn, in_axes=(0, 0, 0, None))
            return select(keys, tree, node_index, depth).astype(jnp.int32)

        return _follow_from(tree, node_index, lambda _: jax.lax.cond(depth == 0, by_root, by_interior))

    keys = jax.random.split(rng_key, new_node.shape[0])
    return _simulate(tree, select, max_depth, new_node, keys)


def _follow_from(
    tree: Tree[object], node_index: Int[Array, "B"], select: Callable[[NodeStats], Int[Array, "B"]]
) -> Selected:
    """Returns what is selected at a node of each tree, given the statistics of these nodes."""
    # One tree with the nodes of all; what belongs to a root is that of the first, and no rule reads it.
    nodes = tree.replace(
        **{name: _joined(getattr(tree, name)) for name in (*NodeFields.names(), *_OF_TREES)},
        root_invalid_actions=tree.root_invalid_actions[0],
        beta=tree.beta[0],
    )
    at = _places(tree, node_index)
    children = entry(nodes.children_index, at)
    # Not under vmap, where reading rows by a scalar each takes four times as long.
    stats = stats_of_children(nodes, at, _places(tree, children))
    return follow(children, stats, select(stats), tree.num_outcomes)


def follow(
    children: Int[Array, "B KA"], stats: NodeStats, action: Int[Array, "B"], num_outcomes: int
) -> Selected:
    """Returns the outcome of each selected action that is visited next."""

    def of_action(row: Array) -> Array:
        return jnp.take_along_axis(row, action[:, None], axis=-1, mode="promise_in_bounds")[:, 0]

    entries = [of_action(row) for row in jnp.split(children, num_outcomes, axis=-1)]
    return Selected(action, *next_outcome(entries, of_action(stats.visits)))


def _simulate(
    tree: Tree[object],
    select: Select,
    max_depth: int,
    new_node: Int[Array, "B"],
    keys: MaybeArray,
) -> LeafEdge:
    """Traverses trees level by level. All depths are one loop: a step for the root alone would be compiled too."""

    def step(state: _SimulationState) -> _SimulationState:
        continuing = state.is_continuing
        node_index = jnp.where(continuing, state.next_node_index, state.node_index)
        keys, select_keys = _split_each(state.keys)
        selected = select(select_keys, node_index, state.depth)
        action = jnp.where(continuing, selected.action, state.action)
        outcome = jnp.where(continuing, selected.outcome, state.outcome)
        child = jnp.where(continuing, selected.child, state.next_node_index)
        # A terminal node is evaluated again, but nothing is expanded below it.
        discount = entry(_joined(tree.edge_discounts), _places(tree, jnp.maximum(child, 0)))
        ended = (child == Tree.UNVISITED) | (discount == 0)
        depth = state.depth + 1
        return _SimulationState(
            node_index, action, outcome, child, continuing & ~ended & (depth < max_depth), depth, keys
        )

    root = jnp.full_like(new_node, Tree.ROOT_INDEX)
    depth = jnp.zeros((), jnp.int32)
    start = _SimulationState(root, root, root, root, jnp.ones_like(new_node, bool), depth, keys)
    end = jax.lax.while_loop(lambda state: jnp.any(state.is_continuing), step, start)
    next_node_index = jnp.where(end.next_node_index == Tree.UNVISITED, new_node, end.next_node_index)
    return LeafEdge(end.node_index, end.action, end.outcome, next_node_index)


def _split_each(keys: MaybeArray) -> tuple[MaybeArray, MaybeArray]:
    if keys is None:
        return None, None
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


class _BackupState(NamedTuple):
    """The position of each batch element on its way up; the parent of a root is `NO_PARENT`."""

    node_index: Int[Array, "B"]
    arriving: Return
    running: RunningStats


def backup(
    tree: Tree[object],
    leaf: LeafEdge,
    output: ModelStep,
    rules: BackupRules,
) -> Tree[object]:
    """Writes the model's output to the leaf, and averages the return into all nodes above it."""
    step = with_variances(output)
    at_leaf, at_parent = (_places(tree, index) for index in (leaf.next_node_index, leaf.parent_index))
    branch = leaf.outcome * tree.num_actions + leaf.action
    fields = jax.tree.map(_joined, NodeFields.of(tree))
    running = jax.tree.map(lambda field: entry(field, at_leaf), fields.running)
    new, arriving = evaluate(running, entry(fields.edge.edge_rewards, at_leaf), step, rules.propagation)
    fields = jax.tree.map(lambda field, number: _write(field, number, at_leaf), fields, new)
    parents = _write(_joined(tree.parents), leaf.parent_index, at_leaf)
    tree = tree.replace(
        parents=parents.reshape(tree.parents.shape),
        action_from_parent=_written(tree.action_from_parent, leaf.action, at_leaf),
        children_prior_logits=_written(tree.children_prior_logits, step.prior_logits, at_leaf),
        children_index=_written(tree.children_index, leaf.next_node_index, at_parent, branch),
    )

    def body(state: _BackupState) -> _BackupState:
        is_node = state.node_index != Tree.NO_PARENT
        at = jnp.maximum(_places(tree, state.node_index), 0)
        old, edge = jax.tree.map(lambda field: entry(field, at), (state.running, fields.edge))
        new, arriving = back_up(old, edge, state.arriving, rules)
        to = jnp.where(is_node, at, len(parents))
        running = jax.tree.map(
            lambda field, number: field.at[to].set(number, mode="drop"), state.running, new
        )
        parent = jnp.where(is_node, entry(parents, at), Tree.NO_PARENT)
        return _BackupState(parent, arriving, running)

    start = _BackupState(leaf.parent_index, arriving, fields.running)
    end = jax.lax.while_loop(lambda state: jnp.any(state.node_index != Tree.NO_PARENT), body, start)
    fields = fields._replace(running=end.running)
    return jax.tree.map(lambda field: field.reshape(tree.parents.shape), fields).write(tree)


def _written(field: Array, numbers: Array, *places: Int[Array, "B"]) -> Array:
    return _write(_joined(field), numbers, *places).reshape(field.shape)


def _write(joined: Array, numbers: Array, *places: Int[Array, "B"]) -> Array:
    """Returns a field of joined nodes with numbers at places that exist, a different one for each batch element."""
    return joined.at[places].set(numbers, mode="promise_in_bounds", unique_indices=True)


def _joined(field: Array) -> Array:
    """Returns a field with the nodes of all trees on one axis: one number indexes it, which is less to compile."""
    return jax.lax.collapse(field, 0, 2)


def _places(tree: Tree[object], index: Int[Array, "B *A"]) -> Int[Array, "B *A"]:
    """Returns the places of nodes in a joined field; negative numbers, which are no node, stay."""
    num_nodes = tree.node_visits.shape[1]
    first = num_nodes * jax.lax.broadcasted_iota(jnp.int32, index.shape, 0)
    return jnp.where(index < 0, index, first + index)
