"""Stochastic MuZero: decision nodes and chance nodes take turns, and chance nodes carry variance too.

A tree has `A + C` branches: actions below decision nodes, which stand at even depths, and outcomes below chance nodes.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from emcts.search import inputs
from emcts.search.policies import act_by_visits, add_dirichlet_noise, mask_logits
from emcts.search.propagation import Propagation, independent
from emcts.search.qtransforms import qtransform_by_parent_and_siblings
from emcts.search.search import search
from emcts.search.selection import QTransform, stochastic_action_selection
from emcts.search.tree import Tree
from emcts.search.walkers import Walker
from emcts.types import (
    ChanceRecurrentFn,
    DecisionRecurrentFn,
    Key,
    LoopFn,
    Number,
    Params,
    PolicyOutput,
    RecurrentFn,
    RecurrentFnOutput,
    RecurrentState,
    Replaceable,
    record,
)


@record
class StochasticRecurrentState(Replaceable):
    """Embeddings of a node: that of its kind counts, the other is a stand-in."""

    state_embedding: RecurrentState
    afterstate_embedding: RecurrentState
    is_decision_node: Any  # [B]


def stochastic_muzero_policy(
    params: Params,
    rng_key: Key,
    root: Any,
    decision_recurrent_fn: DecisionRecurrentFn,
    chance_recurrent_fn: ChanceRecurrentFn,
    num_simulations: int,
    invalid_actions: Any = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    qtransform: QTransform = qtransform_by_parent_and_siblings,
    dirichlet_fraction: Number = 0.25,
    dirichlet_alpha: Number = 0.3,
    pb_c_init: Number = 1.25,
    pb_c_base: Number = 19652,
    temperature: Number = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    walker: Walker | None = None,
) -> PolicyOutput[Tree[None]]:
    """Stochastic MuZero's search ("Planning in stochastic environments with a learned model"), scores for values."""
    root = inputs.read_root(root)
    batch_size, num_actions = root.prior_logits.shape
    action_key, dirichlet_key, search_key = jax.random.split(rng_key, 3)
    logits = mask_logits(
        add_dirichlet_noise(
            dirichlet_key, root.prior_logits, fraction=dirichlet_fraction, alpha=dirichlet_alpha
        ),
        invalid_actions,
    )
    stand_in = jnp.zeros([batch_size], jnp.int32)
    decision, afterstate = decision_recurrent_fn(params, action_key, stand_in, root.embedding)
    num_outcomes = decision.chance_logits.shape[-1]
    root = root.replace(
        prior_logits=_beside(logits, None, num_actions, num_outcomes),
        embedding=StochasticRecurrentState(root.embedding, afterstate, jnp.ones([batch_size], bool)),
    )
    interior = functools.partial(
        stochastic_action_selection,
        num_actions=num_actions,
        pb_c_init=pb_c_init,
        pb_c_base=pb_c_base,
        qtransform=qtransform,
    )
    tree = search(
        params,
        search_key,
        root=root,
        recurrent_fn=_alternate(decision_recurrent_fn, chance_recurrent_fn, num_actions, num_outcomes),
        root_action_selection_fn=functools.partial(interior, depth=0),
        interior_action_selection_fn=interior,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=_pad_mask(invalid_actions, num_outcomes),
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        walker=walker,
    )
    return act_by_visits(action_key, _decisions(tree, num_actions), temperature)


def _alternate(
    decide: DecisionRecurrentFn, chance: ChanceRecurrentFn, num_actions: int, num_outcomes: int
) -> RecurrentFn:
    """One model for both kinds of nodes: both are asked, and the node's kind says which answer counts."""

    def recurrent_fn(
        params: Params, rng_key: Key, branch: Any, state: StochasticRecurrentState
    ) -> tuple[RecurrentFnOutput, StochasticRecurrentState]:
        at_decision = state.is_decision_node
        decided, afterstate = decide(params, rng_key, branch, state.state_embedding)
        happened, next_state = chance(params, rng_key, branch - num_actions, state.afterstate_embedding)

        def either(decision: Any, outcome: Any) -> Any:
            mask = at_decision.reshape(-1, *[1] * (decision.ndim - 1))
            return jnp.where(mask, decision, outcome)

        nothing = jnp.zeros_like(happened.reward)
        step = RecurrentFnOutput(
            reward=either(nothing, happened.reward),
            discount=either(jnp.ones_like(happened.discount), happened.discount),
            prior_logits=either(
                _beside(None, decided.chance_logits, num_actions, num_outcomes),
                _beside(happened.action_logits, None, num_actions, num_outcomes),
            ),
            value=either(decided.afterstate_value, happened.value),
            reward_variance=either(nothing, _or_zero(happened, "reward_variance", nothing)),
            value_variance=either(
                _or_zero(decided, "afterstate_value_variance", nothing),
                _or_zero(happened, "value_variance", nothing),
            ),
        )
        return step, StochasticRecurrentState(next_state, afterstate, ~at_decision)

    return recurrent_fn


def _or_zero(output: Any, field: str, zero: Array) -> Array:
    value = getattr(output, field, None)
    return zero if value is None else value


def _beside(actions: Any, outcomes: Any, num_actions: int, num_outcomes: int) -> Float[Array, "B branches"]:
    """Logits of all branches of a node, the other kind's closed."""
    given = actions if outcomes is None else outcomes
    actions = jnp.full((given.shape[0], num_actions), -jnp.inf, given.dtype) if actions is None else actions
    outcomes = (
        jnp.full((given.shape[0], num_outcomes), -jnp.inf, given.dtype) if outcomes is None else outcomes
    )
    return jnp.concatenate([actions, outcomes], axis=-1)


def _pad_mask(invalid_actions: Any, num_outcomes: int) -> Bool[Array, "B branches"] | None:
    if invalid_actions is None:
        return None
    return jnp.pad(jnp.asarray(invalid_actions).astype(bool), ((0, 0), (0, num_outcomes)))


def _decisions(tree: Tree[None], num_actions: int) -> Tree[None]:
    """The tree with branches of decision nodes alone."""
    return tree.replace(
        children_index=tree.children_index[..., :num_actions],
        children_prior_logits=tree.children_prior_logits[..., :num_actions],
        root_invalid_actions=tree.root_invalid_actions[..., :num_actions],
    )
