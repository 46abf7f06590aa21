"""A search by kernels: one launch for the way up of a simulation, the way down of the next, and their embeddings."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from emcts.search.backup import BackupRules
from emcts.search.inputs import ModelStep
from emcts.search.outcomes import mark_equal_draws
from emcts.search.traversal import pallas, plain
from emcts.search.traversal.merging import merge_under_vmap
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.program import MAX_ELEMENTS
from emcts.search.traversal.rules import BoundRule, stats_of_children
from emcts.search.traversal.work import Descent, NextEdges, Path, Work
from emcts.search.tree import Tree
from emcts.types import Key, MaybeArray, RecurrentState

LONGEST_ROW = 4096  # numbers; a longer embedding is moved faster by all threads of the GPU


class Kernels(NamedTuple):
    """`pallas.begin` and `pallas.advance`, or functions that do the same."""

    begin: Callable[..., Work]
    advance: Callable[..., Work]


class FusedState(NamedTuple):
    """What a search keeps between two evaluations of the model; `large` are embeddings that kernels do not move."""

    work: Work
    large: tuple[Array, ...]

    @property
    def tree(self) -> Tree[object]:
        return self.work.tree


@dataclasses.dataclass(frozen=True)
class FusedTraversal:
    """The traversals of one search by kernels. The leaf of a simulation is found when the one before it is updated."""

    kernels: Kernels
    descent: Descent
    max_depth: int
    num_simulations: int
    rules: BackupRules
    continues: bool  # whether the trees have more nodes than their roots already
    embedding: PyTree  # of `_Field`

    @classmethod
    def make(
        cls,
        kernels: Kernels,
        tree: Tree[Any],
        root: BoundRule,
        interior: BoundRule,
        first: Int[Array, "B"],
        **constants: Any,
    ) -> "FusedTraversal":
        descent = Descent(pallas.loadable(root), pallas.loadable(interior), first.astype(jnp.int32))
        # Behind a barrier, XLA does not fill arrays of constants anew in each turn of the loop.
        descent = jax.lax.optimization_barrier(descent)
        return cls(kernels, descent, embedding=jax.tree.map(_Field.of, tree.embeddings), **constants)

    def begin(self, tree: Tree[Any]) -> FusedState:
        small, large = self._split(tree.embeddings)
        zero = jnp.zeros_like(self.descent.first)
        work = Work(
            tree=tree.replace(embeddings=None, extra_data=None),
            next_edges=_next_edges(tree, self.descent.interior) if self.continues else _no_edges(tree),
            path=Path(jnp.zeros_like(tree.parents), zero),
            leaf=LeafEdge(zero, zero, zero, zero),
            embeddings=small,
            embedding=tuple(jnp.zeros_like(leaf[:, 0]) for leaf in small),
        )
        run = functools.partial(
            self.kernels.begin, max_depth=self.max_depth, num_simulations=self.num_simulations
        )
        return FusedState(merge_under_vmap(run)(work, self.descent), large)

    def select(
        self, work: FusedState, simulation: Int[Array, ""], key: Key
    ) -> tuple[LeafEdge, RecurrentState]:
        del simulation, key
        leaf, batch = work.work.leaf, jnp.arange(self.descent.first.shape[0])
        large = [array[batch, leaf.parent_index] for array in work.large]
        return leaf, self._join(work.work.embedding, large)

    def update(
        self,
        work: FusedState,
        leaf: LeafEdge,
        step: ModelStep,
        embedding: RecurrentState,
        simulation: Int[Array, ""],
        first_equal: MaybeArray = None,
    ) -> FusedState:
        small, large = self._split(embedding, lead=1)
        batch, state = jnp.arange(leaf.action.shape[0]), work.work
        if first_equal is not None:
            tree = state.tree
            children = mark_equal_draws(
                tree.children_index, leaf.parent_index, leaf.action, first_equal, tree.num_actions
            )
            state = state.replace(tree=tree.replace(children_index=children))
        run = functools.partial(
            self.kernels.advance,
            rules=self.rules,
            max_depth=self.max_depth,
            num_simulations=self.num_simulations,
        )
        count = jnp.asarray(simulation, jnp.int32)
        return FusedState(
            merge_under_vmap(run)(state, step, small, self.descent, count),
            tuple(
                array.at[batch, leaf.next_node_index].set(row)
                for array, row in zip(work.large, large, strict=True)
            ),
        )

    def end(self, work: FusedState, start: Tree[Any]) -> Tree[Any]:
        embeddings = self._join(work.work.embeddings, work.large)
        return work.work.tree.replace(embeddings=embeddings, extra_data=start.extra_data)

    def _split(
        self, embeddings: RecurrentState, lead: int = 2
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Returns small embeddings as rows of numbers behind `lead` axes, and large ones as they are."""
        pairs = list(zip(jax.tree.leaves(embeddings), jax.tree.leaves(self.embedding), strict=True))
        small = tuple(_to_row(leaf, lead) for leaf, field in pairs if field.is_small)
        return small, tuple(leaf for leaf, field in pairs if not field.is_small)

    def _join(self, small: Sequence[Array], large: Sequence[Array]) -> RecurrentState:
        """Returns what `_split` was given."""
        rows, others = iter(small), iter(large)
        return jax.tree.map(
            lambda field: field.from_row(next(rows)) if field.is_small else next(others), self.embedding
        )


@dataclasses.dataclass(frozen=True)
class _Field:
    """An array of the embedding of a node, and whether kernels move it."""

    shape: tuple[int, ...]
    dtype: Any
    key_impl: Any  # of random keys
    is_small: bool

    @classmethod
    def of(cls, leaf: Array) -> "_Field":
        """Reads the field of an array [B, N, ...]."""
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        numbers = jax.eval_shape(lambda leaf: _to_row(leaf, 2), leaf)
        loadable = numbers.dtype.itemsize <= 4 and not jnp.issubdtype(numbers.dtype, jnp.complexfloating)
        fits = 0 < numbers.shape[-1] <= LONGEST_ROW and numbers.size <= MAX_ELEMENTS
        impl = jax.random.key_impl(leaf) if is_key else None
        return cls(leaf.shape[2:], leaf.dtype, impl, bool(loadable and fits))

    def from_row(self, row: Array) -> Array:
        """Returns what `_to_row` was given."""
        if self.key_impl is None:
            return row.reshape(*row.shape[:-1], *self.shape).astype(self.dtype)
        per_key = row.shape[-1] // math.prod(self.shape)
        data = row.reshape(*row.shape[:-1], *self.shape, per_key)
        return jax.random.wrap_key_data(data, impl=self.key_impl)


def _to_row(leaf: Array, lead: int) -> Array:
    """Returns an array as numbers that Triton loads, with one axis behind the first `lead`."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    numbers = leaf.astype(jnp.int8) if leaf.dtype == bool else leaf
    return numbers.reshape(*numbers.shape[:lead], math.prod(numbers.shape[lead:]))


def fits(tree: Tree[object]) -> bool:
    """Returns whether the kernels apply: to single precision, and to arrays within reach of 32-bit offsets."""
    floats = (tree.node_values.dtype, tree.children_prior_logits.dtype)
    return all(dtype == jnp.float32 for dtype in floats) and tree.children_index.size <= MAX_ELEMENTS


def _no_edges(tree: Tree[Any]) -> NextEdges:
    """Returns what is not read before a simulation has passed through a node."""
    nothing = jnp.full_like(tree.parents, Tree.UNVISITED)
    return NextEdges(nothing, nothing)


def _next_edges(tree: Tree[Any], interior: BoundRule) -> NextEdges:
    """Returns the edges that a rule selects next at all nodes."""
    scored, rule = tree.scored(), pallas.unloadable(interior)
    nodes = jnp.arange(tree.parents.shape[1])

    def select(tree: Tree[Any], rule: BoundRule, depths: Int[Array, "N"]) -> tuple[Array, Array]:
        stats = jax.vmap(stats_of_children, in_axes=(None, 0, 0))(tree, nodes, tree.children_index)
        actions = jax.vmap(rule.select)(stats, depths)
        selected = plain.follow(tree.children_index, stats, actions, tree.num_outcomes)
        has_ended = (selected.child >= 0) & (tree.edge_discounts[selected.child] == 0)
        child = jnp.where(has_ended, pallas.ended(selected.child), selected.child)
        return selected.outcome * tree.num_actions + actions, child

    return NextEdges(*jax.vmap(select)(scored, rule, jax.vmap(_depths)(tree.parents)))


def _depths(parents: Int[Array, "N"]) -> Int[Array, "N"]:
    """Returns how many edges lie above each node: after k rounds, up to 2**k of them were counted."""
    depths, above = (parents >= 0).astype(jnp.int32), jnp.maximum(parents, Tree.ROOT_INDEX)
    for _ in range(math.ceil(math.log2(parents.shape[0]))):
        depths, above = depths + depths[above], above[above]
    return depths


def _plain_begin(work: Work, descent: Descent, *, max_depth: int, num_simulations: int) -> Work:
    del num_simulations
    return _plain_descent(work, descent, jnp.int32(0), max_depth)


def _plain_advance(
    work: Work,
    step: ModelStep,
    embedding: tuple[Array, ...],
    descent: Descent,
    simulation: Int[Array, ""],
    *,
    rules: BackupRules,
    max_depth: int,
    num_simulations: int,
) -> Work:
    """Does the same as the kernel but for what plain JAX does not read: `next_edges` and `path`."""
    batch = jnp.arange(descent.first.shape[0])
    embeddings = tuple(
        array.at[batch, work.leaf.next_node_index].set(row)
        for array, row in zip(work.embeddings, embedding, strict=True)
    )
    grown = work.replace(tree=plain.backup(work.tree, work.leaf, step, rules), embeddings=embeddings)
    return _plain_descent(grown, descent, jnp.minimum(simulation + 1, num_simulations - 1), max_depth)


def _plain_descent(work: Work, descent: Descent, simulation: Int[Array, ""], max_depth: int) -> Work:
    root, interior = pallas.unloadable(descent.root).at(simulation), pallas.unloadable(descent.interior)
    leaf = plain.simulate(work.tree.scored(), root, interior, max_depth, descent.first + simulation)
    batch = jnp.arange(descent.first.shape[0])
    parents = tuple(array[batch, leaf.parent_index] for array in work.embeddings)
    return work.replace(leaf=leaf, embedding=parents)


def _by_platform(kernel: Callable[..., Work], in_jax: Callable[..., Work]) -> Callable[..., Work]:
    """Runs a kernel in a program compiled for CUDA, plain JAX on any other device of this process."""

    def run(*arguments: Any, **constants: Any) -> Work:
        on_cuda, default = (functools.partial(function, **constants) for function in (kernel, in_jax))
        found: Work = jax.lax.platform_dependent(*arguments, cuda=on_cuda, default=default)
        return found

    return run


BY_PLATFORM = Kernels(_by_platform(pallas.begin, _plain_begin), _by_platform(pallas.advance, _plain_advance))
INTERPRETED = Kernels(
    functools.partial(pallas.begin, interpret=True), functools.partial(pallas.advance, interpret=True)
)
