"""The traversals as Pallas kernels for NVIDIA GPUs: one program for each batch element, updating trees in place.

In plain JAX each level of a traversal costs kernel launches and a round trip to the host; a kernel is one launch.
`advance` is the way up of one simulation and the way down of the next, with the embeddings that both move: a simulation
is one launch beside those of the model.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float, Int

from emcts.search.backup import EdgeModel, NodeFields, Propagation, Return, RunningStats, back_up, evaluate
from emcts.search.inputs import CheckedStep
from emcts.search.outcomes import mean_over_outcomes, next_outcome, pick_outcome, sum_over_outcomes
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.program import Program, Ref, Scalar, compiler_params
from emcts.search.traversal.rules import BoundRule, NodeStats
from emcts.search.tree import Tree, score
from emcts.types import Replaceable, record

RecordT = TypeVar("RecordT", "Work", Tree[object])


@record
class EdgeRows:
    """Statistics of the edges below each node, beside those on the nodes that they lead to.

    A traversal then waits once for memory at each level, and not for the children's indices first. Entries are in the
    order of `children_index`, 0 where there is no child.
    """

    visits: Int[Array, "B N KA"]
    qvalues: Float[Array, "B N KA"]
    qvalue_stds: Float[Array, "B N KA"]
    discounts: Float[Array, "B N KA"]


@record
class Work(Replaceable):
    """What a search with kernels keeps between two evaluations of the model.

    `tree` has no embeddings, and `action_from_parent` are entries of `children_index`. `embeddings` are those of all
    nodes, one row of numbers each, and `embedding` are the rows of the leaf's parent.
    """

    tree: Tree[object]
    rows: EdgeRows
    leaf: LeafEdge
    embeddings: tuple[Array, ...]  # [B, N, E] each
    embedding: tuple[Array, ...]  # [B, E] each


class Descent(NamedTuple):
    """What the way down reads: the rules, how deep it may go, and the first node that the search adds."""

    root: BoundRule
    interior: BoundRule
    first: Int[Array, "B"]


class State(NamedTuple):
    """The position of a simulation on its way down."""

    node: Scalar
    action: Scalar
    outcome: Scalar
    child: Scalar
    depth: Scalar
    is_continuing: Array


def begin(
    work: Work, descent: Descent, *, max_depth: int, num_simulations: int, interpret: bool = False
) -> Work:
    """Traverses trees by the rules to the first leaf of a search, and reads the embedding of its parent."""
    num_actions = work.tree.num_actions

    def kernel(descent: Descent, work: Work) -> None:
        program = Program(num_actions)
        _way_down(program, work, descent, max_depth, num_simulations, jnp.int32(0))

    return _call(kernel, (descent,), work, "emcts_simulate", interpret)


def advance(
    work: Work,
    step: CheckedStep,
    embedding: tuple[Array, ...],
    descent: Descent,
    simulation: Int[Array, ""],
    *,
    propagation: Propagation,
    max_depth: int,
    num_simulations: int,
    interpret: bool = False,
) -> Work:
    """Writes the model's output for a leaf, averages it into all nodes above, and traverses to the next leaf."""
    num_actions = work.tree.num_actions

    def kernel(
        step: CheckedStep,
        embedding: tuple[Ref, ...],
        descent: Descent,
        simulation: Ref,
        work: Work,
    ) -> None:
        program = Program(num_actions)
        node = program.load(work.leaf.next_node_index)
        for source, target in zip(embedding, work.embeddings, strict=True):
            program.copy(source, (), target, (node,))
        _way_up(program, work.tree, work.rows, work.leaf, step, propagation)
        if not interpret:
            plt.debug_barrier()  # what one thread wrote, another is about to read
        following = plt.load(simulation.at[jnp.int32(0)]) + 1  # a kernel cannot read an array without axes
        _way_down(program, work, descent, max_depth, num_simulations, following)

    return _call(kernel, (step, embedding, descent, simulation.reshape(1)), work, "emcts_advance", interpret)


def backup(
    tree: Tree[object],
    leaf: LeafEdge,
    step: CheckedStep,
    propagation: Propagation,
    *,
    interpret: bool = False,
) -> Tree[object]:
    """Does the same as `plain.backup`, for trees that selection functions traverse."""
    num_actions = tree.num_actions

    def kernel(leaf: LeafEdge, step: CheckedStep, tree: Tree[object]) -> None:
        _way_up(Program(num_actions), tree, None, leaf, step, propagation)

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
    """Selects actions from the root down to the leaf of a simulation, and stores it.

    There is none after the last simulation: the rule is asked at the root alone then.
    """
    tree, beta = work.tree, program.load(work.tree.beta)
    is_needed = (simulation < num_simulations).astype(jnp.int32)  # Triton selects no two constants
    deepest = 1 + (max_depth - 1) * is_needed
    last = jnp.minimum(simulation, num_simulations - 1)

    def step(rule: BoundRule, at: Scalar, depth: Scalar) -> State:
        children = program.rows_of_outcomes(tree.children_index, at, tree.num_outcomes, Tree.UNVISITED)
        discounts = program.rows_of_outcomes(work.rows.discounts, at, tree.num_outcomes)
        stats = _node_stats(program, work, at, beta)
        action = rule.select(stats, depth)
        entries = [program.pick(row, action) for row in children]
        outcome, child = next_outcome(entries, program.pick(stats.visits, action))
        discount = pick_outcome([program.pick(row, action) for row in discounts], outcome)
        is_continuing = (child != Tree.UNVISITED) & (discount != 0) & (depth + 1 < deepest)
        # With one outcome this would be a constant, which a loop in Triton cannot carry: add a loaded number.
        return State(at, action, outcome + 0 * action, child, depth + 1, is_continuing)

    interior = _load_rule(program, descent.interior, last)
    zero = jnp.int32(0)
    end = lax.while_loop(
        lambda state: state.is_continuing,
        lambda state: step(interior, state.child, state.depth),
        step(_load_rule(program, descent.root, last), zero, zero),
    )
    new_node = program.load(descent.first) + last
    node = jnp.where(end.child == Tree.UNVISITED, new_node, end.child)
    program.store(work.leaf.parent_index, end.node)
    program.store(work.leaf.action, end.action)
    program.store(work.leaf.outcome, end.outcome)
    program.store(work.leaf.next_node_index, node)
    for source, target in zip(work.embeddings, work.embedding, strict=True):
        program.copy(source, (end.node,), target, ())


def _node_stats(program: Program, work: Work, at: Scalar, beta: Array) -> NodeStats:
    tree, rows = work.tree, work.rows

    def by_outcome(ref: Ref) -> list[Array]:
        return program.rows_of_outcomes(ref, at, tree.num_outcomes)

    visits = by_outcome(rows.visits)
    pairs = zip(by_outcome(rows.qvalues), by_outcome(rows.qvalue_stds), strict=True)
    return NodeStats(
        visits=sum_over_outcomes(visits).astype(jnp.float32),
        prior_logits=program.load_row(tree.children_prior_logits, at),
        qvalues=mean_over_outcomes(visits, [score(*pair, beta) for pair in pairs]),
        node_visits=program.load(tree.node_visits, at),
        node_value=score(program.load(tree.node_values, at), program.load(tree.node_value_stds, at), beta),
        raw_value=score(program.load(tree.raw_values, at), program.load(tree.raw_value_stds, at), beta),
        mask=program.mask,
    )


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


class _Position(NamedTuple):
    """A node on the way up with its numbers, which were loaded while the node below was computed."""

    node: Scalar
    parent: Scalar
    entry: Scalar
    running: RunningStats
    edge: EdgeModel


def _way_up(
    program: Program,
    tree: Tree[object],
    rows: EdgeRows | None,
    leaf: LeafEdge,
    step: CheckedStep,
    propagation: Propagation,
) -> None:
    """Writes the model's output to the leaf, and averages the return into all nodes above it."""
    fields = NodeFields.of(tree)

    def load(at: Scalar) -> _Position:
        running, edge = jax.tree.map(lambda ref: program.load(ref, at), (fields.running, fields.edge))
        parent, entry = program.load(tree.parents, at), program.load(tree.action_from_parent, at)
        return _Position(at, parent, entry, running, edge)

    def store_row(parent: Scalar, entry: Scalar, running: RunningStats) -> None:
        if rows is not None:
            program.store(rows.visits, running.node_visits, parent, entry)
            program.store(rows.qvalues, running.edge_qvalues, parent, entry)
            program.store(rows.qvalue_stds, running.edge_qvalue_stds, parent, entry)

    def average(at: _Position, arriving: Return) -> tuple[RunningStats, Return]:
        new, arriving = back_up(at.running, at.edge, arriving, propagation)
        jax.tree.map(lambda ref, number: program.store(ref, number, at.node), fields.running, new)
        return new, arriving

    parent, action = program.load(leaf.parent_index), program.load(leaf.action)
    entry = program.load(leaf.outcome) * tree.num_actions + action
    above = load(parent)
    node = program.load(leaf.next_node_index)
    evaluation: CheckedStep = jax.tree.map(program.load_any, step)
    new, arriving = _evaluate(program, fields, node, evaluation, propagation)
    program.store(tree.parents, parent, node)
    program.store(tree.action_from_parent, action if rows is None else entry, node)
    program.store_row(tree.children_prior_logits, evaluation.prior_logits, node)
    program.store(tree.children_index, node, parent, entry)
    store_row(parent, entry, new.running)
    if rows is not None:
        program.store(rows.discounts, new.edge.edge_discounts, parent, entry)

    def body(state: tuple[_Position, Return]) -> tuple[_Position, Return]:
        at, arriving = state
        above = load(at.parent)
        new, arriving = average(at, arriving)
        store_row(at.parent, at.entry, new)
        return above, arriving

    root, arriving = lax.while_loop(lambda state: state[0].parent != Tree.NO_PARENT, body, (above, arriving))
    average(root, arriving)


def _evaluate(
    program: Program, fields: NodeFields, node: Scalar, step: CheckedStep, propagation: Propagation
) -> tuple[NodeFields, Return]:
    """Writes the numbers of a leaf after an evaluation, given the numbers of the step."""
    running = jax.tree.map(lambda ref: program.load(ref, node), fields.running)
    reward = program.load(fields.edge.edge_rewards, node)
    new, arriving = evaluate(running, reward, step, propagation)
    jax.tree.map(lambda ref, number: program.store(ref, number, node), fields, new)
    return new, arriving
