"""The search: one loop over simulations for every rule, with uncertainty or without."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from emcts.search import inputs
from emcts.search.backup import Backup, BackupRules, Propagation, independent, mean_backup
from emcts.search.outcomes import evaluate_outcome
from emcts.search.reuse import continue_tree, num_nodes, room_for
from emcts.search.selection import InteriorActionSelectionFn, RootActionSelectionFn
from emcts.search.soundness import refuse_gradient, stop_gradient
from emcts.search.traversal.backend import Backend, default_backend
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.traversal import Work
from emcts.search.tree import Tree, instantiate_tree_from_root, refuse_too_large
from emcts.types import Key, LoopFn, Number, Params, RecurrentFn, SampledOutcomes

# JAX's default generator makes `fold_in(key, i)` and `split(key, n)[i]` the same key. No split is this long.
_TIE_BREAK = 2**32 - 1
_OUTCOMES = 2**32 - 2


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
    backup: Backup = mean_backup,
    tree: Tree[Any] | None = None,
    max_nodes: int | None = None,
    backend: Backend | None = None,
) -> Tree[Any]:
    """Searches with any selection functions and returns the trees.

    Selection functions have mctx's signatures and are given trees whose values are scores `x + beta * std`.
    At the depth limit, and at a node that a discount of 0 leads to, a simulation evaluates the last edge once more
    instead of expanding below it. B is the batch, A the number of actions.

    Args:
        params: what `recurrent_fn` gets first, such as the weights of networks: any pytree.
        rng_key: a random key.
        root: a `RootFnOutput`, or mctx's record: prior logits [B, A], value [B], embedding [B, ...], variance [B].
        recurrent_fn: the model: `(params, rng_key, action [B], embedding)` to a `RecurrentFnOutput` and the next
            embedding; or a `SampledOutcomes`.
        root_action_selection_fn: selects the action at the root.
        interior_action_selection_fn: selects the action at every other node.
        num_simulations: how often the model is called for each batch element.
        max_depth: the longest path of a simulation; left out, as long as there are simulations.
        invalid_actions: a mask [B, A]: actions of the root that are not searched.
        extra_data: a pytree that selection functions read as `tree.extra_data`.
        loop_fn: the loop over simulations, with the signature of `jax.lax.fori_loop`.
        beta: the weight of stds in scores, one number or one for each batch element; 0 is plain MCTS.
        propagation: how variances pass an edge: `independent`, `correlated`, or a function of yours of
            `(reward_variance, discount, variance)`.
        backup: how the std of an edge follows from those of its returns: `mean_backup`, the paper's, `power_mean(p)`
            between mean and max, or an elementwise function of yours of `(std, count, new)`.
        tree: the result of `subtree`, from which the search goes on by `num_simulations` more.
        max_nodes: the number of nodes of the returned tree; left out, room for the simulations, and for as many nodes
            of `tree`.
        backend: traverses the trees; left out, GPU kernels where they apply, else plain JAX.
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
    traversal = backend.traversal(
        start,
        root_action_selection_fn,
        interior_action_selection_fn,
        max_depth=max_depth,
        num_simulations=num_simulations,
        first=num_nodes(start),
        continues=tree is not None,
        rules=BackupRules(propagation, backup),
        has_bonus=not (isinstance(beta, int | float) and beta == 0),
        rng_key=jax.random.fold_in(rng_key, jnp.uint32(_TIE_BREAK)),
    )
    outcome_key = jax.random.fold_in(rng_key, jnp.uint32(_OUTCOMES))

    def body(simulation: Int[Array, ""], state: tuple[Key, Work]) -> tuple[Key, Work]:
        key, work = state
        key, simulate_key, model_key = jax.random.split(key, 3)
        leaf, embedding = traversal.select(work, simulation, simulate_key)
        first_equal = None
        if isinstance(recurrent_fn, SampledOutcomes) and num_outcomes > 1:
            keys = _edge_keys(outcome_key, leaf, start.num_actions)
            found = evaluate_outcome(recurrent_fn, params, keys, leaf.action, embedding, leaf.outcome)
            output, first_equal = (found.output, found.after), found.first
        else:
            output = recurrent_fn(params, model_key, leaf.action, embedding)
        step, embedding = inputs.read_step(output, checked_root)
        return key, traversal.update(work, leaf, step, embedding, simulation, first_equal)

    _, grown = loop_fn(0, num_simulations, body, (rng_key, traversal.begin(start)))
    return refuse_gradient(traversal.end(grown, start), differentiated)


def _edge_keys(key: Key, leaf: LeafEdge, num_actions: int) -> Key:
    """Returns the key of each batch element's edge: the same whenever a simulation ends on it."""
    edges = leaf.parent_index * num_actions + leaf.action
    return jax.vmap(jax.random.fold_in)(jax.random.split(key, len(edges)), edges)
