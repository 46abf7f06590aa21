"""The two traversals in plain JAX.

mctx carries the whole tree through a vmapped `while_loop`, which JAX turns into a select over every array at every
step. Here the batch goes level by level with small carries, and writes are scatters that drop finished elements.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from emcts.search.backup import EdgeModel, NodeFields, Propagation, Return, RunningStats, back_up, evaluate
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


Select = Callable[[MaybeArray, Int[Array, "B"], Int[Array, ""]], Selected]


def simulate(
    tree: Tree[object],
    root_rule: BoundRule,
    interior_rule: BoundRule,
    max_depth: int,
    new_node: Int[Array, "B"],
) -> LeafEdge:
    """Traverses trees by rules until an unvisited action, a terminal node or `max_depth`."""
    scored = tree.scored()

    def select_at(stats: NodeStats, depth: Int[Array, ""]) -> Int[Array, "B"]:
        def by(rule: BoundRule) -> Int[Array, "B"]:
            return jax.vmap(BoundRule.select, in_axes=(0, 0, None))(rule, stats, depth)

        if len({jax.tree.structure(rule) for rule in (root_rule, interior_rule)}) == 1:
            return by(jax.tree.map(lambda *inputs: jnp.where(depth == 0, *inputs), root_rule, interior_rule))
        return jax.lax.cond(depth == 0, lambda: by(root_rule), lambda: by(interior_rule))

    def select(_: MaybeArray, node_index: Int[Array, "B"], depth: Int[Array, ""]) -> Selected:
        children = jax.vmap(entry)(scored.children_index, node_index)
        stats = jax.vmap(stats_of_children)(scored, node_index, children)
        return follow(children, stats, select_at(stats, depth), scored.num_outcomes)

    return _simulate(scored, select, max_depth, new_node, keys=None)


def simulate_by_functions(
    tree: Tree[object],
    root_fn: RootActionSelectionFn,
    interior_fn: InteriorActionSelectionFn,
    max_depth: int,
    new_node: Int[Array, "B"],
    rng_key: Key,
) -> LeafEdge:
    """Traverses trees by any selection functions, each called with one scored tree and with mctx's keys."""
    scored = tree.scored()

    def select(keys: MaybeArray, node_index: Int[Array, "B"], depth: Int[Array, ""]) -> Selected:
        def by_root() -> Array:
            return jax.vmap(root_fn)(keys, scored, node_index).astype(jnp.int32)

        def by_interior() -> Array:
            select = jax.vmap(interior_fn, in_axes=(0, 0, 0, None))
            return select(keys, scored, node_index, depth).astype(jnp.int32)

        children = jax.vmap(entry)(scored.children_index, node_index)
        stats = jax.vmap(stats_of_children)(scored, node_index, children)
        return follow(children, stats, jax.lax.cond(depth == 0, by_root, by_interior), scored.num_outcomes)

    keys = jax.random.split(rng_key, new_node.shape[0])
    return _simulate(scored, select, max_depth, new_node, keys)


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
        discount = jax.vmap(entry)(tree.edge_discounts, jnp.maximum(child, 0))
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


def backup(tree: Tree[object], leaf: LeafEdge, output: ModelStep, propagation: Propagation) -> Tree[object]:
    """Writes the model's output to the leaf, and averages the return into all nodes above it."""
    step = with_variances(output)
    batch = jnp.arange(leaf.action.shape[0])
    num_nodes = tree.node_visits.shape[-1]
    at_leaf = (batch, leaf.next_node_index)
    entry = leaf.outcome * tree.num_actions + leaf.action
    fields = NodeFields.of(tree)
    running = jax.tree.map(lambda field: field[at_leaf], fields.running)
    new, arriving = evaluate(running, fields.edge.edge_rewards[at_leaf], step, propagation)
    fields = jax.tree.map(lambda field, number: field.at[at_leaf].set(number), fields, new)
    tree = fields.write(tree).replace(
        parents=tree.parents.at[at_leaf].set(leaf.parent_index),
        action_from_parent=tree.action_from_parent.at[at_leaf].set(leaf.action),
        children_prior_logits=tree.children_prior_logits.at[at_leaf].set(step.prior_logits),
        children_index=tree.children_index.at[batch, leaf.parent_index, entry].set(leaf.next_node_index),
    )

    def body(state: _BackupState) -> _BackupState:
        at = (batch, jnp.where(state.node_index == Tree.NO_PARENT, num_nodes, state.node_index))

        def read(field: Array, absent: int = 0) -> Array:
            return field.at[at].get(mode="fill", fill_value=absent)

        edge: EdgeModel = jax.tree.map(read, fields.edge)
        new, arriving = back_up(jax.tree.map(read, state.running), edge, state.arriving, propagation)
        running = jax.tree.map(
            lambda field, number: field.at[at].set(number, mode="drop"), state.running, new
        )
        return _BackupState(read(tree.parents, Tree.NO_PARENT), arriving, running)

    start = _BackupState(leaf.parent_index, arriving, fields.running)
    end = jax.lax.while_loop(lambda state: jnp.any(state.node_index != Tree.NO_PARENT), body, start)
    return tree.replace(**end.running._asdict())
