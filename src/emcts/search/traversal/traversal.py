"""The traversals of a search: down to a leaf before the model is called, and up again with its output."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from emcts.search.backup import BackupRules
from emcts.search.inputs import ModelStep
from emcts.search.outcomes import mark_equal_draws
from emcts.search.traversal.plain import LeafEdge
from emcts.search.tree import Tree
from emcts.types import Key, MaybeArray, RecurrentState

Work = Any  # what a search keeps between two evaluations of the model


@runtime_checkable
class Traversal(Protocol):
    """Traverses the trees of one search."""

    def begin(self, tree: Tree[Any]) -> Work:
        """Returns what the search keeps before its first simulation."""

    def select(self, work: Work, simulation: Int[Array, ""], key: Key) -> tuple[LeafEdge, RecurrentState]:
        """Returns the leaf of a simulation, and the embedding of its parent."""

    def update(
        self,
        work: Work,
        leaf: LeafEdge,
        step: ModelStep,
        embedding: RecurrentState,
        simulation: Int[Array, ""],
        first_equal: MaybeArray = None,
    ) -> Work:
        """Writes the model's output for the leaf, and averages it into all nodes above.

        `first_equal` [B, K] are the first of the sampled outcomes of the edge that each of them is equal to.
        """

    def end(self, work: Work, start: Tree[Any]) -> Tree[Any]:
        """Returns the grown trees, given those that the search began with."""


@dataclasses.dataclass(frozen=True)
class SeparateTraversal:
    """The way down and the way up each by themselves, on trees.

    With `bare`, `simulate` is given trees without the fields that only models and selection functions read.
    """

    simulate: Callable[[Tree[Any], Int[Array, ""], Int[Array, "B"], Key], LeafEdge]
    backup: Callable[[Tree[Any], LeafEdge, ModelStep, BackupRules], Tree[Any]]
    first: Int[Array, "B"]  # node that the search adds
    rules: BackupRules
    bare: bool = False

    def begin(self, tree: Tree[Any]) -> Tree[Any]:
        return tree

    def select(
        self, work: Tree[Any], simulation: Int[Array, ""], key: Key
    ) -> tuple[LeafEdge, RecurrentState]:
        # The node that simulation i adds to a new tree has index i + 1, as in mctx; one that adds none leaves it empty.
        new_node = (self.first + simulation).astype(jnp.int32)
        leaf = self.simulate(_bare(work) if self.bare else work, simulation, new_node, key)
        batch = jnp.arange(new_node.shape[0])
        return leaf, jax.tree.map(lambda x: x[batch, leaf.parent_index], work.embeddings)

    def update(
        self,
        work: Tree[Any],
        leaf: LeafEdge,
        step: ModelStep,
        embedding: RecurrentState,
        simulation: Int[Array, ""],
        first_equal: MaybeArray = None,
    ) -> Tree[Any]:
        del simulation
        batch = jnp.arange(leaf.action.shape[0])
        embeddings = jax.tree.map(
            lambda x, new: x.at[batch, leaf.next_node_index].set(new), work.embeddings, embedding
        )
        if first_equal is not None:
            children = mark_equal_draws(
                work.children_index, leaf.parent_index, leaf.action, first_equal, work.num_actions
            )
            work = work.replace(children_index=children)
        grown = self.backup(_bare(work), leaf, step, self.rules)
        return grown.replace(embeddings=embeddings, extra_data=work.extra_data)

    def end(self, work: Tree[Any], start: Tree[Any]) -> Tree[Any]:
        del start
        return work


def trees_of(work: Work) -> Tree[Any]:
    """Returns the trees inside what a search keeps, for a `loop_fn` that looks at them; kernels keep no embeddings."""
    trees: Tree[Any] = work if isinstance(work, Tree) else work.tree
    return trees


def _bare(tree: Tree[Any]) -> Tree[Any]:
    """Returns the tree without the fields that only models and selection functions read."""
    return tree.replace(embeddings=None, extra_data=None)
