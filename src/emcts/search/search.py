"""The search: one loop over simulations for every rule, with uncertainty or without."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from emcts.search import inputs
from emcts.search.propagation import Propagation, independent
from emcts.search.rules import row_rule
from emcts.search.selection import InteriorActionSelectionFn, RootActionSelectionFn
from emcts.search.tree import Tree, plant
from emcts.search.walk import Edge, descend_by_functions
from emcts.search.walkers import Walker, default_walker
from emcts.types import Key, LoopFn, Number, Params, RecurrentFn

# JAX's default generator makes `fold_in(key, i)` and `split(key, n)[i]` the same key. No split is this long.
_TIE_BREAK = 2**32 - 1

Descend = Callable[[Tree[Any], Key, Int[Array, ""], Int[Array, "B"]], Edge]


def search(
    params: Params,
    rng_key: Key,
    *,
    root: Any,
    recurrent_fn: RecurrentFn,
    root_action_selection_fn: RootActionSelectionFn,
    interior_action_selection_fn: InteriorActionSelectionFn,
    num_simulations: int,
    max_depth: int | None = None,
    invalid_actions: Any = None,
    extra_data: Any = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    walker: Walker | None = None,
) -> Tree[Any]:
    """Searches with any selection functions and returns the trees.

    Selection functions have mctx's signatures and are given trees whose values are scores `x + beta * std`.
    At the depth limit, and at a node that a discount of 0 leads to, the last edge is evaluated once more instead of
    going on. `walker` says what does the walking; left out, it is a GPU kernel where one applies.
    """
    root = inputs.read_root(root)
    num_simulations = inputs.read_count(num_simulations, "num_simulations")
    max_depth = num_simulations if max_depth is None else inputs.read_count(max_depth, "max_depth")
    walker = default_walker() if walker is None else walker
    tree = plant(
        root,
        num_simulations,
        invalid_actions=inputs.read_invalid_actions(invalid_actions, root),
        beta=inputs.read_beta(beta, root),
        extra_data=extra_data,
    )
    descend = _descent(
        tree,
        root_action_selection_fn,
        interior_action_selection_fn,
        max_depth,
        walker,
        jax.random.fold_in(rng_key, jnp.uint32(_TIE_BREAK)),
    )
    batch = jnp.arange(root.value.shape[0])

    def simulate(simulation: Int[Array, ""], state: tuple[Key, Tree[Any]]) -> tuple[Key, Tree[Any]]:
        key, tree = state
        key, descend_key, model_key = jax.random.split(key, 3)
        # The node that simulation i adds has index i + 1, as in mctx; one that adds none leaves it empty.
        new_node = jnp.full(batch.shape, simulation + 1, jnp.int32)
        edge = descend(tree, descend_key, simulation, new_node)
        embedding = jax.tree.map(lambda leaf: leaf[batch, edge.parent], tree.embeddings)
        step, embedding = inputs.read_step(recurrent_fn(params, model_key, edge.action, embedding), root)
        embeddings = jax.tree.map(
            lambda leaf, new: leaf.at[batch, edge.node].set(new), tree.embeddings, embedding
        )
        bare = walker.ascend(_bare(tree), edge, step, propagation)
        return key, bare.replace(embeddings=embeddings, extra_data=tree.extra_data)

    _, tree = loop_fn(0, num_simulations, simulate, (rng_key, tree))
    return tree


def _descent(
    tree: Tree[Any],
    root_fn: RootActionSelectionFn,
    interior_fn: InteriorActionSelectionFn,
    max_depth: int,
    walker: Walker,
    key: Key,
) -> Descend:
    """The way down: by rows if both functions are ours, else by calling them."""
    root_key, interior_key = jax.random.split(key)
    root_rule, interior_rule = row_rule(root_fn, tree, root_key), row_rule(interior_fn, tree, interior_key)
    if root_rule is None or interior_rule is None:
        return lambda tree, key, _, new_node: descend_by_functions(
            tree, root_fn, interior_fn, max_depth, new_node, key
        )
    return lambda tree, _, simulation, new_node: walker.descend(
        _bare(tree), root_rule.at(simulation), interior_rule, max_depth, new_node
    )


def _bare(tree: Tree[Any]) -> Tree[None]:
    """The tree without what only models and selection functions read."""
    return tree.replace(embeddings=None, extra_data=None)
