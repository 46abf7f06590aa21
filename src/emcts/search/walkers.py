"""Who walks the tree: plain JAX anywhere, or Pallas kernels on an NVIDIA GPU. Both give the same trees."""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from emcts.search import kernels, walk
from emcts.search.batching import merge_under_vmap
from emcts.search.kernels.lanes import MAX_ELEMENTS
from emcts.search.propagation import Propagation
from emcts.search.rules import RowRule, Side
from emcts.search.tree import Tree
from emcts.search.walk import Edge
from emcts.types import RecurrentFnOutput

Descend = Callable[[Tree[Any], RowRule, RowRule, int, Int[Array, "B"]], Edge]
Ascend = Callable[[Tree[Any], Edge, RecurrentFnOutput, Propagation], Tree[Any]]


class Walker(NamedTuple):
    """The two walks of a simulation, over a tree without embeddings."""

    descend: Descend
    ascend: Ascend


def _merging(descend: Descend, ascend: Ascend) -> Walker:
    """The same walks, with `vmap` over them merged into the batch."""

    def merged_descend(
        tree: Tree[Any], root_rule: RowRule, interior_rule: RowRule, max_depth: int, new_node: Int[Array, "B"]
    ) -> Edge:
        @merge_under_vmap
        def run(tree: Tree[Any], root_side: Side, side: Side, new_node: Int[Array, "B"]) -> Edge:
            root = RowRule(root_rule.choose, root_side)
            return descend(tree, root, RowRule(interior_rule.choose, side), max_depth, new_node)

        return run(tree, root_rule.side, interior_rule.side, new_node)

    def merged_ascend(
        tree: Tree[Any], edge: Edge, step: RecurrentFnOutput, propagation: Propagation
    ) -> Tree[Any]:
        @merge_under_vmap
        def run(tree: Tree[Any], edge: Edge, step: RecurrentFnOutput) -> Tree[Any]:
            return ascend(tree, edge, step, propagation)

        return run(tree, edge, step)

    return Walker(merged_descend, merged_ascend)


PLAIN = _merging(walk.descend_by_rows, walk.ascend)
INTERPRETED_KERNELS = _merging(
    functools.partial(kernels.descend, interpret=True), functools.partial(kernels.ascend, interpret=True)
)


def _descend_where_it_runs(
    tree: Tree[Any], root_rule: RowRule, interior_rule: RowRule, max_depth: int, new_node: Int[Array, "B"]
) -> Edge:
    """Kernels where the program is compiled for CUDA, plain JAX on any other device of this process."""

    def by(descend: Descend) -> Any:
        return lambda tree, root_side, side, new_node: descend(
            tree,
            RowRule(root_rule.choose, root_side),
            RowRule(interior_rule.choose, side),
            max_depth,
            new_node,
        )

    plain, fast = by(walk.descend_by_rows), by(kernels.descend)
    arguments = (tree, root_rule.side, interior_rule.side, new_node)
    return jax.lax.platform_dependent(*arguments, cuda=fast if _fits(tree) else plain, default=plain)


def _ascend_where_it_runs(
    tree: Tree[Any], edge: Edge, step: RecurrentFnOutput, propagation: Propagation
) -> Tree[Any]:
    def by(ascend: Ascend) -> Any:
        return lambda tree, edge, step: ascend(tree, edge, step, propagation)

    plain, fast = by(walk.ascend), by(kernels.ascend)
    return jax.lax.platform_dependent(tree, edge, step, cuda=fast if _fits(tree) else plain, default=plain)


def _fits(tree: Tree[Any]) -> bool:
    """What the kernels are written for: single precision, and arrays within reach of 32-bit offsets."""
    floats = (tree.node_values.dtype, tree.children_prior_logits.dtype)
    return all(dtype == jnp.float32 for dtype in floats) and tree.children_index.size <= MAX_ELEMENTS


KERNELS = _merging(_descend_where_it_runs, _ascend_where_it_runs)


def default_walker() -> Walker:
    """Kernels if this process has an NVIDIA GPU, unless the environment variable `EMCTS_KERNELS` is 0."""
    return KERNELS if _has_cuda() and os.environ.get("EMCTS_KERNELS", "1") != "0" else PLAIN


@functools.cache
def _has_cuda() -> bool:
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False
