"""The backends of a search: plain JAX anywhere, or Pallas kernels on an NVIDIA GPU. Both build the same trees."""

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
from jaxtyping import Array, Int

from emcts.search.backup import BackupRules
from emcts.search.inputs import ModelStep
from emcts.search.selection import InteriorActionSelectionFn, RootActionSelectionFn, node_rule
from emcts.search.traversal import plain
from emcts.search.traversal.merging import merge_under_vmap
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.rules import BoundRule
from emcts.search.traversal.traversal import SeparateTraversal, Traversal
from emcts.search.tree import Tree
from emcts.types import Key

if TYPE_CHECKING:
    from emcts.search.traversal.fused import Kernels

Simulate = Callable[[Tree[object], BoundRule, BoundRule, int, Int[Array, "B"]], LeafEdge]
Backup = Callable[[Tree[object], LeafEdge, ModelStep, BackupRules], Tree[object]]


class Backend(NamedTuple):
    """How trees without embeddings are traversed.

    `simulate(tree, root_rule, interior_rule, max_depth, new_node)` selects actions from the root down to a leaf, in
    trees whose values are scores. `backup(tree, leaf, step, rules)` writes the model's output for the leaf and
    averages it into all nodes above. `kernels` do both at once, for trees that fit them.
    """

    simulate: Simulate  # from the root down to a leaf
    backup: Backup  # from the leaf up to the root
    kernels: "Kernels | None" = None  # both at once

    def traversal(
        self,
        tree: Tree[object],
        root_fn: RootActionSelectionFn,
        interior_fn: InteriorActionSelectionFn,
        *,
        max_depth: int,
        num_simulations: int,
        first: Int[Array, "B"],
        continues: bool,
        rules: BackupRules,
        has_bonus: bool,
        rng_key: Key,
    ) -> Traversal:
        """Returns the traversals of a search that adds nodes from `first` on: by rules, or by calling functions.

        If it `continues`, the tree has more nodes than its root already. Without a bonus, `beta` is known to be 0, and
        values are scores.
        """
        root_rule, interior_rule = node_rule(root_fn), node_rule(interior_fn)
        if root_rule is None or interior_rule is None:

            def by_functions(tree: Tree[object], _: Array, new_node: Int[Array, "B"], key: Key) -> LeafEdge:
                tree = tree.scored() if has_bonus else tree
                return plain.simulate_by_functions(tree, root_fn, interior_fn, max_depth, new_node, key)

            return SeparateTraversal(by_functions, self.backup, first, rules)
        root_key, interior_key = jax.random.split(rng_key)
        at_root = BoundRule.bind(root_rule, root_key, tree)
        at_interior = BoundRule.bind(interior_rule, interior_key, tree)
        if self.kernels is not None:
            from emcts.search.traversal import fused

            if fused.fits(tree):
                return fused.FusedTraversal.make(
                    self.kernels,
                    tree,
                    at_root,
                    at_interior,
                    first,
                    max_depth=max_depth,
                    num_simulations=num_simulations,
                    continues=continues,
                    rules=rules,
                )

        def by_rules(tree: Tree[object], simulation: Array, new_node: Int[Array, "B"], _: Key) -> LeafEdge:
            tree = tree.scored() if has_bonus else tree
            return self.simulate(tree, at_root.at(simulation), at_interior, max_depth, new_node)

        return SeparateTraversal(by_rules, self.backup, first, rules, bare=True)


def merged_simulate(
    tree: Tree[object],
    root_rule: BoundRule,
    interior_rule: BoundRule,
    max_depth: int,
    new_node: Int[Array, "B"],
) -> LeafEdge:
    @merge_under_vmap
    def run(
        tree: Tree[object], root_rule: BoundRule, interior_rule: BoundRule, new_node: Int[Array, "B"]
    ) -> LeafEdge:
        return plain.simulate(tree, root_rule, interior_rule, max_depth, new_node)

    return run(tree, root_rule, interior_rule, new_node)


def merging(backup: Backup) -> Backup:
    def merged(tree: Tree[object], leaf: LeafEdge, step: ModelStep, rules: BackupRules) -> Tree[object]:
        return merge_under_vmap(lambda tree, leaf, step: backup(tree, leaf, step, rules))(tree, leaf, step)

    return merged


# The backend in plain JAX, which runs anywhere: `backend=emcts.plain_backend`.
PLAIN = Backend(merged_simulate, merging(plain.backup))


def default_backend() -> Backend:
    """Returns the kernels if this process has an NVIDIA GPU and JAX has Pallas's Triton backend.

    The environment variable `EMCTS_KERNELS` set to 0 turns them off.
    """
    if os.environ.get("EMCTS_KERNELS", "1") == "0" or not _has_cuda():
        return PLAIN
    # Importing Pallas takes longer than importing the rest of the search.
    from emcts.search.traversal import kernels

    return kernels.KERNELS if kernels.can_run() else PLAIN


@functools.cache
def _has_cuda() -> bool:
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False
