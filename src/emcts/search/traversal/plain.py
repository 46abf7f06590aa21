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
from emcts.search.traversal.rules import BoundRule, NodeStats, stats_of_children
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

    def select_by(bound_rule: BoundRule) -> Select:
        def select(_: MaybeArray, node_index: Int[Array, "B"], depth: Int[Array, ""]) -> Selected:
            children = jax.vmap(lambda index, node: index[node])(scored.children_index, node_index)
            stats = jax.vmap(stats_of_children)(scored, node_index, children)
            action = jax.vmap(BoundRule.select, in_axes=(0, 0, None))(bound_rule, stats, depth)
            return follow(children, stats, action, scored.num_outcomes)

        return select

    return _simulate(scored, select_by(root_rule), select_by(interior_rule), max_depth, new_node, keys=None)


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
    batch = jnp.arange(new_node.shape[0])

    def follow_at(node_index: Int[Array, "B"], action: Array) -> Selected:
        children = scored.children_index[batch, node_index]
        stats = jax.vmap(stats_of_children)(scored, node_index, children)
        return follow(children, stats, action.astype(jnp.int32), scored.num_outcomes)

    def at_root(keys: MaybeArray, node_index: Int[Array, "B"], depth: Int[Array, ""]) -> Selected:
        del depth
        return follow_at(node_index, jax.vmap(root_fn)(keys, scored, node_index))

    def at_interior(keys: MaybeArray, node_index: Int[Array, "B"], depth: Int[Array, ""]) -> Selected:
        select = jax.vmap(interior_fn, in_axes=(0, 0, 0, None))
        return follow_at(node_index, select(keys, scored, node_index, depth))

    keys = jax.random.split(rng_key, new_node.shape[0])
    return _simulate(scored, at_root, at_interior, max_depth, new_node, keys)


def follow(
    children: Int[Array, "B KA"], stats: NodeStats, action: Int[Array, "B"], num_outcomes: int
) -> Selected:
    """Returns the outcome of each selected action that is visited next."""

    def of_action(row: Array) -> Array:
        return jnp.take_along_axis(row, action[:, None], axis=-1)[:, 0]

    entries = [of_action(row) for row in jnp.split(children, num_outcomes, axis=-1)]
    return Selected(action, *next_outcome(entries, of_action(stats.visits)))


def _simulate(
    tree: Tree[object],
    at_root: Select,
    at_interior: Select,
    max_depth: int,
    new_node: Int[Array, "B"],
    keys: MaybeArray,
) -> LeafEdge:
    batch = jnp.arange(new_node.shape[0])

    def step(select: Select, state: _SimulationState) -> _SimulationState:
        continuing = state.is_continuing
        node_index = jnp.where(continuing, state.next_node_index, state.node_index)
        keys, select_keys = _split_each(state.keys)
        selected = select(select_keys, node_index, state.depth)
        action = jnp.where(continuing, selected.action, state.action)
        outcome = jnp.where(continuing, selected.outcome, state.outcome)
        child = jnp.where(continuing, selected.child, state.next_node_index)
        # A terminal node is evaluated again, but nothing is expanded below it.
        ended = (child == Tree.UNVISITED) | (tree.edge_discounts[batch, child] == 0)
        depth = state.depth + 1
        return _SimulationState(
            node_index, action, outcome, child, continuing & ~ended & (depth < max_depth), depth, keys
        )

    root = jnp.full_like(new_node, Tree.ROOT_INDEX)
    depth = jnp.zeros((), jnp.int32)
    start = _SimulationState(root, root, root, root, jnp.ones_like(new_node, bool), depth, keys)
    below_root = step(at_root, start)
    end = jax.lax.while_loop(
        lambda state: jnp.any(state.is_continuing), lambda state: step(at_interior, state), below_root
    )
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
