"""The backends of a search: plain JAX anywhere, or Pallas kernels on an NVIDIA GPU. Both build the same trees."""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from emcts.search.backup import Propagation
from emcts.search.inputs import CheckedStep
from emcts.search.traversal import pallas, plain
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.rules import BoundRule
from emcts.search.tree import Tree

Result = TypeVar("Result")
Simulate = Callable[[Tree[object], BoundRule, BoundRule, int, Int[Array, "B"]], LeafEdge]
Backup = Callable[[Tree[object], LeafEdge, CheckedStep, Propagation], Tree[object]]


class Backend(NamedTuple):
    """The two traversals of a simulation, over trees without embeddings.

    `simulate(tree, root_rule, interior_rule, max_depth, new_node)` selects actions from the root down to a leaf, and
    `backup(tree, leaf, step, propagation)` writes the model's output for the leaf and averages it into all nodes above.
    """

    simulate: Simulate
    backup: Backup


def _merge_under_vmap(function: Callable[..., Result]) -> Callable[..., Result]:
    """Makes `vmap` of a function over batches one call with all elements in one batch.

    Each argument and result is a pytree of arrays with a leading batch axis, and rows must not depend on each other.
    Without this, `vmap` would turn the loops inside into selects over everything they carry.
    """
    merged = jax.custom_batching.custom_vmap(function)

    @merged.def_vmap
    def _(axis_size: int, in_batched: list[Any], *arguments: Any) -> tuple[Any, Any]:
        def join(leaf: Array, batched: bool) -> Array:
            if not batched:
                leaf = jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
            return jax.lax.collapse(leaf, 0, 2)

        results = merged(*jax.tree.map(join, arguments, tuple(in_batched)))
        split = jax.tree.map(
            lambda leaf: leaf.reshape(axis_size, len(leaf) // axis_size, *leaf.shape[1:]), results
        )
        return split, jax.tree.map(lambda _: True, results)

    return merged


def _merging(simulate: Simulate, backup: Backup) -> Backend:
    """Returns the backend of two traversals, with `vmap` over them merged into the batch."""

    def merged_simulate(
        tree: Tree[object],
        root_rule: BoundRule,
        interior_rule: BoundRule,
        max_depth: int,
        new_node: Int[Array, "B"],
    ) -> LeafEdge:
        @_merge_under_vmap
        def run(
            tree: Tree[object], root_rule: BoundRule, interior_rule: BoundRule, new_node: Int[Array, "B"]
        ) -> LeafEdge:
            return simulate(tree, root_rule, interior_rule, max_depth, new_node)

        return run(tree, root_rule, interior_rule, new_node)

    def merged_backup(
        tree: Tree[object], leaf: LeafEdge, step: CheckedStep, propagation: Propagation
    ) -> Tree[object]:
        return _merge_under_vmap(lambda tree, leaf, step: backup(tree, leaf, step, propagation))(
            tree, leaf, step
        )

    return Backend(merged_simulate, merged_backup)


def _simulate_by_platform(
    tree: Tree[object],
    root_rule: BoundRule,
    interior_rule: BoundRule,
    max_depth: int,
    new_node: Int[Array, "B"],
) -> LeafEdge:
    """Runs a kernel in a program compiled for CUDA, plain JAX on any other device of this process."""

    def by(simulate: Simulate) -> Callable[..., LeafEdge]:
        return lambda tree, root_rule, interior_rule, new_node: simulate(
            tree, root_rule, interior_rule, max_depth, new_node
        )

    in_jax = by(plain.simulate)
    on_cuda = by(pallas.simulate) if _fits(tree) else in_jax
    arguments = (tree, root_rule, interior_rule, new_node)
    return jax.lax.platform_dependent(*arguments, cuda=on_cuda, default=in_jax)


def _backup_by_platform(
    tree: Tree[object], leaf: LeafEdge, step: CheckedStep, propagation: Propagation
) -> Tree[object]:
    in_jax = functools.partial(plain.backup, propagation=propagation)
    on_cuda = functools.partial(pallas.backup, propagation=propagation) if _fits(tree) else in_jax
    return jax.lax.platform_dependent(tree, leaf, step, cuda=on_cuda, default=in_jax)


def _fits(tree: Tree[object]) -> bool:
    """Returns whether the kernels apply: to single precision, and to arrays within reach of 32-bit offsets."""
    floats = (tree.node_values.dtype, tree.children_prior_logits.dtype)
    return all(dtype == jnp.float32 for dtype in floats) and tree.children_index.size <= pallas.MAX_ELEMENTS


PLAIN = _merging(plain.simulate, plain.backup)
KERNELS = _merging(_simulate_by_platform, _backup_by_platform)
INTERPRETED_KERNELS = _merging(
    functools.partial(pallas.simulate, interpret=True), functools.partial(pallas.backup, interpret=True)
)


def default_backend() -> Backend:
    """Returns the kernels if this process has an NVIDIA GPU, unless the environment variable `EMCTS_KERNELS` is 0."""
    return KERNELS if _has_cuda() and os.environ.get("EMCTS_KERNELS", "1") != "0" else PLAIN


@functools.cache
def _has_cuda() -> bool:
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False
