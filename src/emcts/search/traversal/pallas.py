"""The traversals as Pallas kernels for NVIDIA GPUs: one program for each batch element, updating trees in place.

In plain JAX each level of a traversal costs kernel launches and a round trip to the host; a kernel is one launch.
`advance` is the way up of one simulation and the way down of the next, with the embeddings that both move: a simulation
is one launch beside those of the model.

A traversal is a chain of loads that wait for each other, so a kernel keeps the nodes of a path: the way up loads the
numbers of many nodes at once, and only the returns are computed one after the other. What an interior rule selects at a
node changes only when a simulation passes through it. `advance` evaluates the rule at the nodes of a path, several at
once, and keeps what it selects: the way down then follows one number per level.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array, Int

from emcts.search.backup import (
    BackupRules,
    EdgeModel,
    NodeFields,
    Propagation,
    Return,
    RunningStats,
    back_up,
    evaluate,
    pass_up,
)
from emcts.search.inputs import ModelStep, with_variances
from emcts.search.outcomes import mean_over_outcomes, next_outcome, sum_over_outcomes
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.program import Program, Ref, Scalar, compiler_params, nodes_at_once, synchronise
from emcts.search.traversal.rules import BoundRule, NodeStats
from emcts.search.traversal.work import Descent, Work
from emcts.search.tree import Tree, score

BACKED_UP_AT_ONCE = 32  # nodes, one for each thread of a warp

RecordT = TypeVar("RecordT", "Work", Tree[object])


class DescentState(NamedTuple):
    """The position of a simulation on its way down: an edge of a node, at a depth."""

    node: Scalar
    child: Scalar
    depth: Scalar


class Selection(NamedTuple):
    """The edge that a rule selects at a node: its entry of `children_index`, and where it leads."""

    entry: Array
    child: Array


def begin(
    work: Work, descent: Descent, *, max_depth: int, num_simulations: int, interpret: bool = False
) -> Work:
    """Traverses trees by the rules to the first leaf of a search, and reads the embedding of its parent."""
    num_actions, barrier = work.tree.num_actions, (lambda: None) if interpret else synchronise

    def kernel(descent: Descent, work: Work) -> None:
        program, first = Program(num_actions), jnp.int32(0)
        _select_at_root(program, work, descent.root, first)
        barrier()
        _way_down(program, work, descent, max_depth, num_simulations, first)

    return _call(kernel, (descent,), work, "emcts_simulate", interpret)


def advance(
    work: Work,
    step: ModelStep,
    embedding: tuple[Array, ...],
    descent: Descent,
    simulation: Int[Array, ""],
    *,
    rules: BackupRules,
    max_depth: int,
    num_simulations: int,
    interpret: bool = False,
) -> Work:
    """Writes the model's output for a leaf, averages it into all nodes above, and traverses to the next leaf."""
    num_actions, barrier = work.tree.num_actions, (lambda: None) if interpret else synchronise
    at_once = nodes_at_once(num_actions, work.leaf.action.shape[0])

    def kernel(
        step: ModelStep,
        embedding: tuple[Ref, ...],
        descent: Descent,
        simulation: Ref,
        work: Work,
    ) -> None:
        program = Program(num_actions)
        following = program.load_common(simulation) + 1  # a kernel cannot read an array without axes
        length = program.load(work.path.length)
        arriving = _expand(
            program, work.tree, work.leaf, step, rules.propagation, (embedding, work.embeddings)
        )
        _back_up_path(program, work, length, arriving, rules)
        barrier()
        last = jnp.minimum(following, num_simulations - 1)
        _select_on_path(program, work, descent, last, length, at_once)
        barrier()
        _way_down(program, work, descent, max_depth, num_simulations, following)

    return _call(kernel, (step, embedding, descent, simulation.reshape(1)), work, "emcts_advance", interpret)


def backup(
    tree: Tree[object],
    leaf: LeafEdge,
    step: ModelStep,
    rules: BackupRules,
    *,
    interpret: bool = False,
) -> Tree[object]:
    """Does the same as `plain.backup`, for trees that selection functions traverse."""
    num_actions = tree.num_actions

    def kernel(leaf: LeafEdge, step: ModelStep, tree: Tree[object]) -> None:
        program = Program(num_actions)
        arriving = _expand(program, tree, leaf, step, rules.propagation)
        _back_up_parents(program, tree, leaf, arriving, rules)

    return _call(kernel, (leaf, step), tree, "emcts_backup", interpret)


def _call(
    kernel: Callable[..., None], arguments: tuple[Any, ...], updated: RecordT, name: str, interpret: bool
) -> RecordT:
    """Runs a kernel over batch elements that reads `arguments` and updates the arrays of a record in place.

    Masks of actions are not updated, and a kernel does not see them: Triton loads no booleans.
    """
    leaves, structure = jax.tree.flatten(updated)
    numbers = [leaf for leaf in leaves if leaf.dtype != bool]

    def rebuilt(given: Sequence[Any], masks: Sequence[Any]) -> RecordT:
        numbers, booleans = iter(given), iter(masks)
        return jax.tree.unflatten(
            structure, [next(booleans if leaf.dtype == bool else numbers) for leaf in leaves]
        )

    masks = [leaf for leaf in leaves if leaf.dtype == bool]

    def on_refs(arguments: Any, _: list[Ref], *refs: Ref) -> None:
        kernel(*arguments, rebuilt(refs, [None] * len(masks)))

    first = len(jax.tree.leaves(arguments))
    results = pl.pallas_call(
        on_refs,
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in numbers],
        grid=(leaves[0].shape[0],),
        input_output_aliases={first + i: i for i in range(len(numbers))},
        compiler_params=compiler_params(_tree(updated).num_actions),
        interpret=interpret,
        name=name,
    )(arguments, numbers)
    return rebuilt(results, masks)


def _tree(updated: Work | Tree[object]) -> Tree[object]:
    return updated.tree if isinstance(updated, Work) else updated


def _way_down(
    program: Program,
    work: Work,
    descent: Descent,
    max_depth: int,
    num_simulations: int,
    simulation: Scalar,
) -> None:
    """Follows the selected edges from the root down to the leaf of a simulation, and stores it.

    There is none after the last simulation: only the root's edge is followed then.
    """
    is_needed = (simulation < num_simulations).astype(jnp.int32)  # Triton selects no two constants
    deepest = 1 + (max_depth - 1) * is_needed
    new_node = program.load(descent.first) + jnp.minimum(simulation, num_simulations - 1)
    child = program.load(work.next_edges.child, jnp.int32(Tree.ROOT_INDEX))

    def follow(state: DescentState) -> DescentState:
        program.store(work.path.nodes, state.child, state.depth)
        return DescentState(state.child, program.load(work.next_edges.child, state.child), state.depth + 1)

    end = lax.while_loop(
        lambda state: (state.child >= 0) & (state.depth < deepest),
        follow,
        DescentState(0 * child, child, 1 + 0 * child),  # a loop in Triton carries no constants
    )
    entry = program.load(work.next_edges.entry, end.node)
    leaf = jnp.where(
        end.child >= 0, end.child, jnp.where(end.child == Tree.UNVISITED, new_node, ended(end.child))
    )
    for source, target in zip(work.embeddings, work.embedding, strict=True):
        program.copy(source, (end.node,), target, ())
    program.store(work.path.nodes, leaf, end.depth)
    program.store(work.path.length, end.depth)
    program.store(work.leaf.parent_index, end.node)
    program.store(work.leaf.action, lax.rem(entry, jnp.int32(program.num_actions)))
    program.store(work.leaf.outcome, lax.div(entry, jnp.int32(program.num_actions)))
    program.store(work.leaf.next_node_index, leaf)


def ended(node: Array) -> Array:
    """Converts a node below which nothing is expanded to the number that `NextEdges` has for it, and back."""
    return Tree.UNVISITED - 1 - node


def _select_at_root(program: Program, work: Work, root: BoundRule, simulation: Scalar) -> None:
    zero = jnp.int32(0)
    rule, beta = _load_rule(program, root, simulation), program.load(work.tree.beta)
    selected = _select(program, work, zero, zero, rule, beta)
    program.store(work.next_edges.entry, selected.entry, zero)
    program.store(work.next_edges.child, selected.child, zero)


def _select_on_path(
    program: Program, work: Work, descent: Descent, simulation: Scalar, length: Scalar, at_once: int
) -> None:
    """Evaluates the rules at all nodes of a path, several at once, and keeps which edges they select.

    A root with a rule of its own is evaluated by itself.
    """
    is_like_others = len({jax.tree.structure(rule) for rule in (descent.root, descent.interior)}) == 1
    if not is_like_others:
        _select_at_root(program, work, descent.root, simulation)
    at_interior = _load_rule(program, descent.interior, simulation)
    at_root = _load_rule(program, descent.root, simulation) if is_like_others else at_interior
    beta = program.load(work.tree.beta)
    lanes = lax.broadcasted_iota(jnp.int32, (at_once,), 0)

    def part(first: Scalar) -> Scalar:
        depths = jnp.minimum(first + lanes, length)  # the leaf, once more, where there is no further node
        nodes = program.load_at(work.path.nodes, depths)

        def rule_at(depth: Scalar) -> BoundRule:
            return jax.tree.map(
                lambda root, other: other if root is other else jnp.where(depth == 0, root, other),
                at_root,
                at_interior,
            )

        rules = jax.vmap(rule_at)(depths)
        selected = _select(program, work, nodes, depths, rules, beta)
        program.store_at(work.next_edges.entry, selected.entry, nodes)
        program.store_at(work.next_edges.child, selected.child, nodes)
        return first + at_once

    start = 0 * length if is_like_others else jnp.minimum(length, 1)
    lax.while_loop(lambda first: first <= length, part, start)


def _select(
    program: Program, work: Work, nodes: Array, depths: Array, rules: BoundRule, beta: Array
) -> Selection:
    """Evaluates a rule at a node, or at several, each with inputs of its own."""
    tree = work.tree
    children = program.rows_of_outcomes(tree.children_index, nodes, tree.num_outcomes, absent=Tree.UNVISITED)

    def of_children(ref: Ref) -> list[Array]:
        return [program.load_at(ref, jnp.maximum(child, 0), mask=child >= 0) for child in children]

    def number(ref: Ref) -> Array:
        return program.load_at(ref, nodes)

    visits = of_children(tree.node_visits)
    pairs = zip(of_children(tree.edge_qvalues), of_children(tree.edge_qvalue_stds), strict=True)
    stats = NodeStats(
        visits=sum_over_outcomes(visits).astype(jnp.float32),
        prior_logits=program.load_row(tree.children_prior_logits, nodes),
        qvalues=mean_over_outcomes(visits, [score(*pair, beta) for pair in pairs]),
        node_visits=number(tree.node_visits),
        node_value=score(number(tree.node_values), number(tree.node_value_stds), beta),
        raw_value=score(number(tree.raw_values), number(tree.raw_value_stds), beta),
    )

    def select(
        rule: BoundRule, stats: NodeStats, depth: Array, children: list[Array]
    ) -> tuple[Array, list[Array], Array]:
        action = rule.select(stats._replace(mask=program.mask), depth)
        return action, [program.pick(row, action) for row in children], program.pick(stats.visits, action)

    at_nodes = jax.vmap(select) if nodes.ndim else select
    action, entries, visits_of_action = at_nodes(rules, stats, depths, children)
    outcome, child = next_outcome(entries, visits_of_action)
    discount = program.load_at(tree.edge_discounts, jnp.maximum(child, 0))
    child = jnp.where((child >= 0) & (discount == 0), ended(child), child)
    return Selection(outcome * program.num_actions + action, child)


def loadable(bound: BoundRule) -> BoundRule:
    """Converts the mask of invalid actions to integers: Triton loads no booleans."""
    invalid = bound.inputs.invalid.astype(jnp.int32)
    return bound._replace(inputs=bound.inputs._replace(invalid=invalid))


def unloadable(bound: BoundRule) -> BoundRule:
    """Returns what `loadable` was given."""
    return bound._replace(inputs=bound.inputs._replace(invalid=bound.inputs.invalid != 0))


def _load_rule(program: Program, refs: BoundRule, simulation: Scalar) -> BoundRule:
    inputs = refs.inputs
    considered = inputs.considered_visit
    rest: BoundRule = jax.tree.map(
        program.load_any, refs._replace(inputs=inputs._replace(considered_visit=None))
    )
    if considered is not None:
        considered = program.load(considered, simulation)
    return unloadable(rest._replace(inputs=rest.inputs._replace(considered_visit=considered)))


def _expand(
    program: Program,
    tree: Tree[object],
    edge: LeafEdge,
    step: ModelStep,
    propagation: Propagation,
    embeddings: tuple[Sequence[Ref], Sequence[Ref]] = ((), ()),
) -> Return:
    """Writes the model's output to the leaf, its embeddings too, and returns what is backed up to its parent.

    What does not depend on each other is loaded before anything is stored.
    """
    fields, leaf = NodeFields.of(tree), jax.tree.map(program.load, edge)
    node = leaf.next_node_index
    evaluation = with_variances(jax.tree.map(program.load_any, step))
    running, reward = jax.tree.map(
        lambda ref: program.load(ref, node), (fields.running, fields.edge.edge_rewards)
    )
    for source, target in zip(*embeddings, strict=True):
        program.copy(source, (), target, (node,))
    new, arriving = evaluate(running, reward, evaluation, propagation)
    jax.tree.map(lambda ref, number: program.store(ref, number, node), fields, new)
    program.store(tree.parents, leaf.parent_index, node)
    program.store(tree.action_from_parent, leaf.action, node)
    program.store_row(tree.children_prior_logits, evaluation.prior_logits, node)
    entry = leaf.outcome * tree.num_actions + leaf.action
    program.store(tree.children_index, node, leaf.parent_index, entry)
    return arriving


class _Chunk(NamedTuple):
    """How much of a path lies above, and the return that arrives there."""

    length: Scalar
    arriving: Return


def _back_up_path(program: Program, work: Work, length: Scalar, arriving: Return, rules: BackupRules) -> None:
    """Averages a return into all nodes of a path above its leaf, from the leaf's parent on, many at once."""
    fields = NodeFields.of(work.tree)
    lanes = lax.broadcasted_iota(jnp.int32, (BACKED_UP_AT_ONCE,), 0)

    def part(chunk: _Chunk) -> _Chunk:
        positions = chunk.length - 1 - lanes
        exists = positions >= 0
        # What lies above the root reads the leaf: interpreted, a masked store writes back what was there.
        nodes = program.load_at(work.path.nodes, jnp.where(exists, positions, length))
        running, edge = jax.tree.map(lambda ref: program.load_at(ref, nodes), (fields.running, fields.edge))

        def one(lane: Scalar, state: tuple[Return, Return]) -> tuple[Return, Return]:
            here, (arriving, arrived) = lanes == lane, state
            arrived = jax.tree.map(lambda number, row: jnp.where(here, number, row), arriving, arrived)
            at_lane = jax.tree.map(lambda row: jnp.sum(jnp.where(here, row, jnp.zeros_like(row))), edge)
            return pass_up(at_lane, arriving, rules.propagation), arrived

        nothing = jnp.zeros_like(running.node_values)
        count = jnp.minimum(chunk.length, BACKED_UP_AT_ONCE)
        above, arrived = lax.fori_loop(0, count, one, (chunk.arriving, Return(nothing, nothing)))
        new, _ = back_up(running, edge, arrived, rules)
        jax.tree.map(
            lambda ref, numbers: program.store_at(ref, numbers, nodes, mask=exists), fields.running, new
        )
        return _Chunk(chunk.length - BACKED_UP_AT_ONCE, above)

    lax.while_loop(lambda chunk: chunk.length > 0, part, _Chunk(length, arriving))


class _Position(NamedTuple):
    """A node on the way up with its numbers, which were loaded while the node below was computed."""

    node: Scalar
    parent: Scalar
    running: RunningStats
    edge: EdgeModel


def _back_up_parents(
    program: Program, tree: Tree[object], leaf: LeafEdge, arriving: Return, rules: BackupRules
) -> None:
    """Averages a return into all nodes above a leaf, where no path is known."""
    fields = NodeFields.of(tree)

    def load(at: Scalar) -> _Position:
        running, edge = jax.tree.map(lambda ref: program.load(ref, at), (fields.running, fields.edge))
        return _Position(at, program.load(tree.parents, at), running, edge)

    def average(at: _Position, arriving: Return) -> Return:
        new, arriving = back_up(at.running, at.edge, arriving, rules)
        jax.tree.map(lambda ref, number: program.store(ref, number, at.node), fields.running, new)
        return arriving

    def body(state: tuple[_Position, Return]) -> tuple[_Position, Return]:
        at, arriving = state
        above = load(at.parent)
        return above, average(at, arriving)

    start = load(program.load(leaf.parent_index)), arriving
    root, arriving = lax.while_loop(lambda state: state[0].parent != Tree.NO_PARENT, body, start)
    average(root, arriving)
