"""The search: one loop over simulations for every rule, with uncertainty or without."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from emcts.search import inputs
from emcts.search.backup import Propagation, independent
from emcts.search.outcomes import evaluate_outcome
from emcts.search.reuse import continue_tree, num_nodes, room_for
from emcts.search.selection import InteriorActionSelectionFn, RootActionSelectionFn, node_rule
from emcts.search.soundness import refuse_gradient, stop_gradient
from emcts.search.traversal.backend import Backend, default_backend
from emcts.search.traversal.plain import LeafEdge, simulate_by_functions
from emcts.search.traversal.rules import BoundRule
from emcts.search.tree import Tree, instantiate_tree_from_root, refuse_too_large
from emcts.types import Key, LoopFn, Number, Params, RecurrentFn, SampledOutcomes, T

# JAX's default generator makes `fold_in(key, i)` and `split(key, n)[i]` the same key. No split is this long.
_TIE_BREAK = 2**32 - 1
_OUTCOMES = 2**32 - 2

Simulate = Callable[[Tree[object], Key, Int[Array, ""], Int[Array, "B"]], LeafEdge]


def search(
    params: Params,
    rng_key: Key,
    *,
    root: object,
    recurrent_fn: RecurrentFn,
    root_action_selection_fn: RootActionSelectionFn,
    interior_action_selection_fn: InteriorActionSelectionFn,
    num_simulations: int,
    max_depth: int | None = None,
    invalid_actions: ArrayLike | None = None,
    extra_data: Any = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    tree: Tree[Any] | None = None,
    max_nodes: int | None = None,
    backend: Backend | None = None,
) -> Tree[Any]:
    """Searches with any selection functions and returns the trees.

    Selection functions have mctx's signatures and are given trees whose values are scores `x + beta * std`.
    At the depth limit, and at a node that a discount of 0 leads to, a simulation evaluates the last edge once more
    instead of expanding below it. `backend` traverses the trees; by default GPU kernels where they apply.

    With `tree`, the result of `subtree`, the search goes on from there by `num_simulations` more. The returned tree has
    `max_nodes` nodes: by default room for the simulations, and for as many nodes of `tree`.
    """
    checked_root = inputs.read_root(root)
    differentiated = (checked_root, params, beta)
    checked_root, params, beta = stop_gradient(differentiated)
    num_simulations = inputs.read_count(num_simulations, "num_simulations")
    room = room_for(num_simulations, max_nodes, continues=tree is not None)
    max_depth = room - 1 if max_depth is None else inputs.read_count(max_depth, "max_depth")
    backend = default_backend() if backend is None else backend
    num_outcomes = recurrent_fn.num_outcomes if isinstance(recurrent_fn, SampledOutcomes) else 1
    refuse_too_large(checked_root, room - 1, num_outcomes)
    start = instantiate_tree_from_root(
        checked_root,
        room - 1,
        root_invalid_actions=inputs.read_invalid_actions(invalid_actions, checked_root.prior_logits),
        beta=inputs.read_beta(beta, checked_root),
        extra_data=extra_data,
        num_outcomes=num_outcomes,
    )
    if tree is not None:
        start = continue_tree(stop_gradient(tree), start, checked_root, num_simulations)
    first = num_nodes(start)
    simulate = _simulation(
        start,
        root_action_selection_fn,
        interior_action_selection_fn,
        max_depth,
        backend,
        jax.random.fold_in(rng_key, jnp.uint32(_TIE_BREAK)),
    )
    batch = jnp.arange(checked_root.value.shape[0])
    outcome_key = jax.random.fold_in(rng_key, jnp.uint32(_OUTCOMES))

    def body(simulation: Int[Array, ""], state: tuple[Key, Tree[object]]) -> tuple[Key, Tree[object]]:
        key, tree = state
        key, simulate_key, model_key = jax.random.split(key, 3)
        # The node that simulation i adds to a new tree has index i + 1, as in mctx; one that adds none leaves it empty.
        new_node = (first + simulation).astype(jnp.int32)
        leaf = simulate(tree, simulate_key, simulation, new_node)
        embedding = jax.tree.map(lambda x: x[batch, leaf.parent_index], tree.embeddings)
        if isinstance(recurrent_fn, SampledOutcomes) and tree.num_outcomes > 1:
            keys = _edge_keys(outcome_key, leaf, tree.num_actions)
            found = evaluate_outcome(recurrent_fn, params, keys, leaf.action, embedding, leaf.outcome)
            tree = _mark_equal_draws(tree, leaf, found.first)
            output = (found.output, found.after)
        else:
            output = recurrent_fn(params, model_key, leaf.action, embedding)
        step, embedding = inputs.read_step(output, checked_root)
        embeddings = jax.tree.map(
            lambda x, new: x.at[batch, leaf.next_node_index].set(new), tree.embeddings, embedding
        )
        bare = backend.backup(_bare(tree), leaf, step, propagation)
        return key, bare.replace(embeddings=embeddings, extra_data=tree.extra_data)

    _, grown = loop_fn(0, num_simulations, body, (rng_key, start))
    return refuse_gradient(grown, differentiated)


def _simulation(
    tree: Tree[object],
    root_fn: RootActionSelectionFn,
    interior_fn: InteriorActionSelectionFn,
    max_depth: int,
    backend: Backend,
    rng_key: Key,
) -> Simulate:
    """Returns the traversal to a leaf: by the backend if both functions are rules, else by calling them."""
    root_rule, interior_rule = node_rule(root_fn), node_rule(interior_fn)
    if root_rule is None or interior_rule is None:
        return lambda tree, key, _, new_node: simulate_by_functions(
            tree, root_fn, interior_fn, max_depth, new_node, key
        )
    root_key, interior_key = jax.random.split(rng_key)
    at_root = BoundRule.bind(root_rule, root_key, tree)
    at_interior = BoundRule.bind(interior_rule, interior_key, tree)
    return lambda tree, _, simulation, new_node: backend.simulate(
        _bare(tree), at_root.at(simulation), at_interior, max_depth, new_node
    )


def _bare(tree: Tree[object]) -> Tree[object]:
    """Returns the tree without the fields that only models and selection functions read."""
    return tree.replace(embeddings=None, extra_data=None)


def _edge_keys(key: Key, leaf: LeafEdge, num_actions: int) -> Key:
    """Returns the key of each batch element's edge: the same whenever a simulation ends on it."""
    edges = leaf.parent_index * num_actions + leaf.action
    return jax.vmap(jax.random.fold_in)(jax.random.split(key, len(edges)), edges)


def _mark_equal_draws(tree: Tree[T], leaf: LeafEdge, first: Int[Array, "B K"]) -> Tree[T]:
    """Marks the draws of an edge that are equal to an earlier one, so that their visits go there."""
    draws = jnp.arange(tree.num_outcomes)
    batch, parent = jnp.arange(len(first))[:, None], leaf.parent_index[:, None]
    entries = draws[None] * tree.num_actions + leaf.action[:, None]
    children = tree.children_index[batch, parent, entries]
    marked = jnp.where(first == draws[None], children, Tree.SAME - first)
    return tree.replace(children_index=tree.children_index.at[batch, parent, entries].set(marked))
