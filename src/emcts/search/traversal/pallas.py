"""The two traversals as Pallas kernels for NVIDIA GPUs: one program for each batch element, updating trees in place.

In plain JAX each level of a traversal costs kernel launches and a round trip to the host; a kernel is one launch.
"""

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Int

from emcts.search.backup import NodeFields, Propagation, Return, back_up, evaluate
from emcts.search.inputs import CheckedStep
from emcts.search.outcomes import mean_over_outcomes, next_outcome, sum_over_outcomes
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.rules import BoundRule, NodeStats
from emcts.search.tree import Tree, score
from emcts.types import record

MAX_ELEMENTS = 2**31 - 1  # offsets in a kernel are 32 bits wide
FieldsT = TypeVar("FieldsT")
Ref = Any  # a reference to an array in device memory
Scalar = Int[Array, ""]


class State(NamedTuple):
    """The position of a simulation on its way down."""

    node: Scalar
    action: Scalar
    outcome: Scalar
    child: Scalar
    depth: Scalar
    is_continuing: Array


class Program:
    """Loads and stores of one batch element: single numbers, and rows with one entry per action.

    Triton needs rows of a power of two; `mask` marks the entries that exist.
    """

    def __init__(self, num_actions: int):
        self.batch = pl.program_id(0)
        self.actions = lax.broadcasted_iota(jnp.int32, (pl.next_power_of_2(num_actions),), 0)
        self.mask = self.actions < num_actions

    def load(self, ref: Ref, *node: Scalar) -> Array:
        return plt.load(ref.at[(self.batch, *node)])

    def store(self, ref: Ref, value: Array, *node: Scalar) -> None:
        plt.store(ref.at[(self.batch, *node)], value)

    def load_row(self, ref: Ref, *node: Scalar, start: int = 0) -> Array:
        return plt.load(ref.at[(self.batch, *node, start + self.actions)], mask=self.mask, other=0)

    def store_row(self, ref: Ref, row: Array, *node: Scalar) -> None:
        plt.store(ref.at[(self.batch, *node, self.actions)], row, mask=self.mask)

    def gather(self, ref: Ref, nodes: Array) -> Array:
        """Returns a number of each node of a row; 0 where there is no node."""
        found = nodes >= 0
        return plt.load(ref.at[self.batch, jnp.where(found, nodes, 0)], mask=found, other=0)

    def pick(self, row: Array, action: Scalar) -> Array:
        """Returns the entry of one action."""
        return jnp.sum(jnp.where(self.actions == action, row, jnp.zeros_like(row)))


def _compiler_params(num_actions: int) -> plt.CompilerParams:
    """Chooses enough threads for a few actions each."""
    num_warps = min(8, max(1, pl.next_power_of_2(num_actions) // 128))
    return plt.CompilerParams(num_warps=num_warps, num_stages=1)


def simulate(
    tree: Tree[object],
    root_rule: BoundRule,
    interior_rule: BoundRule,
    max_depth: int,
    new_node: Int[Array, "B"],
    *,
    interpret: bool = False,
) -> LeafEdge:
    """Does the same as `plain.simulate`."""
    batch_size, _, num_actions = tree.children_prior_logits.shape

    def kernel(
        tree: Tree[object], root_refs: BoundRule, interior_refs: BoundRule, new_node: Ref, leaf: LeafEdge
    ) -> None:
        program = Program(num_actions)
        beta = program.load(tree.beta)

        def step(rule: BoundRule, at: Scalar, depth: Scalar) -> State:
            children = _children(program, tree, at)
            stats = _node_stats(program, tree, children, at, beta)
            action = rule.select(stats, depth)
            entries = [program.pick(row, action) for row in children]
            outcome, child = next_outcome(entries, program.pick(stats.visits, action))
            is_new = child == Tree.UNVISITED
            discount = program.load(tree.edge_discounts, jnp.where(is_new, 0, child))
            is_continuing = ~(is_new | (discount == 0)) & (depth + 1 < max_depth)
            # With one outcome this would be a constant, which a loop in Triton cannot carry: add a loaded number.
            return State(at, action, outcome + 0 * action, child, depth + 1, is_continuing)

        interior = _load_rule(program, interior_refs)
        zero = jnp.int32(0)
        end = jax.lax.while_loop(
            lambda state: state.is_continuing,
            lambda state: step(interior, state.child, state.depth),
            step(_load_rule(program, root_refs), zero, zero),
        )
        node = jnp.where(end.child == Tree.UNVISITED, program.load(new_node), end.child)
        program.store(leaf.parent_index, end.node)
        program.store(leaf.action, end.action)
        program.store(leaf.outcome, end.outcome)
        program.store(leaf.next_node_index, node)

    return pl.pallas_call(
        kernel,
        out_shape=jax.eval_shape(LeafEdge, new_node, new_node, new_node, new_node),
        grid=(batch_size,),
        compiler_params=_compiler_params(num_actions),
        interpret=interpret,
        name="emcts_simulate",
    )(tree, _loadable(root_rule), _loadable(interior_rule), new_node)


def _children(program: Program, tree: Tree[object], at: Scalar) -> list[Array]:
    """Returns the entries of a node's actions in `children_index`, a row for each outcome."""
    rows = [
        program.load_row(tree.children_index, at, start=outcome * tree.num_actions)
        for outcome in range(tree.num_outcomes)
    ]
    return [jnp.where(program.mask, row, Tree.UNVISITED) for row in rows]


def _node_stats(
    program: Program, tree: Tree[object], children: list[Array], at: Scalar, beta: Array
) -> NodeStats:
    def by_outcome(ref: Ref) -> list[Array]:
        return [program.gather(ref, row) for row in children]

    visits = by_outcome(tree.node_visits)
    scores = [
        score(*pair, beta)
        for pair in zip(by_outcome(tree.edge_qvalues), by_outcome(tree.edge_qvalue_stds), strict=True)
    ]
    return NodeStats(
        visits=sum_over_outcomes(visits).astype(jnp.float32),
        prior_logits=program.load_row(tree.children_prior_logits, at),
        qvalues=mean_over_outcomes(visits, scores),
        node_visits=program.load(tree.node_visits, at),
        node_value=score(program.load(tree.node_values, at), program.load(tree.node_value_stds, at), beta),
        raw_value=score(program.load(tree.raw_values, at), program.load(tree.raw_value_stds, at), beta),
        mask=program.mask,
    )


def _loadable(bound: BoundRule) -> BoundRule:
    """Converts the mask of invalid actions to integers: Triton loads no booleans."""
    invalid = bound.inputs.invalid.astype(jnp.int32)
    return bound._replace(inputs=bound.inputs._replace(invalid=invalid))


def _load_rule(program: Program, refs: BoundRule) -> BoundRule:
    bound: BoundRule = jax.tree.map(
        lambda ref: program.load(ref) if ref.ndim == 1 else program.load_row(ref), refs
    )
    return bound._replace(inputs=bound.inputs._replace(invalid=bound.inputs.invalid != 0))


@record
class _Updated:
    """The arrays of a tree that a backup updates in place."""

    fields: NodeFields
    parents: Array
    action_from_parent: Array
    children_index: Array
    children_prior_logits: Array


def backup(
    tree: Tree[object],
    leaf: LeafEdge,
    step: CheckedStep,
    propagation: Propagation,
    *,
    interpret: bool = False,
) -> Tree[object]:
    """Does the same as `plain.backup`."""
    batch_size, _, num_actions = tree.children_prior_logits.shape

    def kernel(leaf: LeafEdge, step: CheckedStep, _: _Updated, refs: _Updated) -> None:
        program = Program(num_actions)
        parent, node = program.load(leaf.parent_index), program.load(leaf.next_node_index)
        action, outcome = program.load(leaf.action), program.load(leaf.outcome)

        def load(fields: FieldsT, at: Scalar) -> FieldsT:
            return jax.tree.map(lambda ref: program.load(ref, at), fields)

        def store(fields: FieldsT, numbers: FieldsT, at: Scalar) -> None:
            jax.tree.map(lambda ref, number: program.store(ref, number, at), fields, numbers)

        fields = refs.fields
        evaluation = CheckedStep(
            reward=program.load(step.reward),
            discount=program.load(step.discount),
            prior_logits=program.load_row(step.prior_logits),
            value=program.load(step.value),
            reward_variance=program.load(step.reward_variance),
            value_variance=program.load(step.value_variance),
        )
        reward = program.load(fields.edge.edge_rewards, node)
        new, arriving = evaluate(load(fields.running, node), reward, evaluation, propagation)
        store(fields, new, node)
        program.store(refs.parents, parent, node)
        program.store(refs.action_from_parent, action, node)
        program.store_row(refs.children_prior_logits, evaluation.prior_logits, node)
        program.store(refs.children_index, node, parent, outcome * num_actions + action)

        def body(state: tuple[Scalar, Return]) -> tuple[Scalar, Return]:
            at, arriving = state
            new, arriving = back_up(load(fields.running, at), load(fields.edge, at), arriving, propagation)
            above = program.load(refs.parents, at)
            store(fields.running, new, at)
            return above, arriving

        jax.lax.while_loop(lambda state: state[0] != Tree.NO_PARENT, body, (parent, arriving))

    arrays = _Updated(
        NodeFields.of(tree),
        tree.parents,
        tree.action_from_parent,
        tree.children_index,
        tree.children_prior_logits,
    )
    first = len(jax.tree.leaves((leaf, step)))
    updated = pl.pallas_call(
        kernel,
        out_shape=jax.eval_shape(lambda arrays: arrays, arrays),
        grid=(batch_size,),
        input_output_aliases={first + i: i for i in range(len(jax.tree.leaves(arrays)))},
        compiler_params=_compiler_params(num_actions),
        interpret=interpret,
        name="emcts_backup",
    )(leaf, step, arrays)
    return updated.fields.write(tree).replace(
        parents=updated.parents,
        action_from_parent=updated.action_from_parent,
        children_index=updated.children_index,
        children_prior_logits=updated.children_prior_logits,
    )
