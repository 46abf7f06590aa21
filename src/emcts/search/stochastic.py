"""Stochastic MuZero: decision nodes and chance nodes alternate, and chance nodes have variances too.

A tree has `A + C` branches: actions below decision nodes, which are at even depths, and outcomes below chance nodes.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from emcts.search import inputs
from emcts.search.backup import Backup, Propagation, independent, mean_backup
from emcts.search.policies import act_by_visits, add_dirichlet_noise, mask_logits, puct_ranges
from emcts.search.qtransforms import qtransform_by_parent_and_siblings
from emcts.search.search import search
from emcts.search.selection import PuctRule
from emcts.search.soundness import mark_unusable_rows
from emcts.search.traversal.backend import Backend
from emcts.search.traversal.rules import NodeStats, QTransform, RuleInputs, node_stats
from emcts.search.tree import Tree
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
    Scalar,
    T,
    record,
)


@record
class StochasticRecurrentState(Replaceable):
    """Embeddings of a node: the one of its kind, and a placeholder for the other."""

    state_embedding: RecurrentState
    afterstate_embedding: RecurrentState
    is_decision_node: Bool[Array, "*B"]


@record
class StochasticPuctRule(PuctRule):
    """PUCT over the first `num_actions` branches at even depths.

    At odd depths, the chance outcome whose share of the visits is furthest behind its probability.
    """

    num_actions: int = dataclasses.field(kw_only=True, metadata={"static": True})

    def select(self, stats: NodeStats, inputs: RuleInputs, depth: ArrayLike) -> Int[Array, ""]:
        is_action = jax.lax.broadcasted_iota(jnp.int32, stats.visits.shape, 0) < self.num_actions
        action = super().select(_restrict(stats, is_action), inputs, depth)
        return self._alternate(action, stats, ~is_action, depth)

    def __call__(
        self, rng_key: Key, tree: Tree[object], node_index: ArrayLike, depth: ArrayLike = 0
    ) -> Int[Array, ""]:
        stats = node_stats(tree, node_index)
        action = super().__call__(rng_key, _decisions(tree, self.num_actions), node_index, depth)
        return self._alternate(action, stats, jnp.arange(tree.num_actions) >= self.num_actions, depth)

    def _alternate(
        self, action: Int[Array, ""], stats: NodeStats, is_outcome: Bool[Array, "A"], depth: ArrayLike
    ) -> Int[Array, ""]:
        outcomes = _restrict(stats, is_outcome)
        outcome = outcomes.argmax(outcomes.softmax(outcomes.prior_logits) / (outcomes.visits + 1))
        return jnp.where(jnp.asarray(depth) % 2 == 0, action, outcome)


def _restrict(stats: NodeStats, branches: Bool[Array, "A"]) -> NodeStats:
    """Returns the statistics of a node with some of its branches alone."""
    return stats._replace(mask=branches if stats.mask is None else branches & stats.mask)


def stochastic_muzero_policy(
    params: Params,
    rng_key: Key,
    root: object,
    decision_recurrent_fn: DecisionRecurrentFn,
    chance_recurrent_fn: ChanceRecurrentFn,
    num_simulations: int,
    invalid_actions: ArrayLike | None = None,
    max_depth: int | None = None,
    loop_fn: LoopFn = jax.lax.fori_loop,
    *,
    qtransform: QTransform = qtransform_by_parent_and_siblings,
    dirichlet_fraction: Scalar = 0.25,
    dirichlet_alpha: Scalar = 0.3,
    pb_c_init: Scalar = 1.25,
    pb_c_base: Scalar = 19652,
    temperature: Scalar = 1.0,
    beta: Number = 0.0,
    propagation: Propagation = independent,
    backup: Backup = mean_backup,
    backend: Backend | None = None,
) -> PolicyOutput[Tree[None]]:
    """Runs Stochastic MuZero's search ("Planning in stochastic environments with a learned model") on scores."""
    checked = inputs.read_root(root)
    usable = [
        *puct_ranges(dirichlet_fraction, dirichlet_alpha, pb_c_init, pb_c_base),
        inputs.read_range(temperature, "temperature"),
    ]
    batch_size, num_actions = checked.prior_logits.shape
    action_key, dirichlet_key, search_key = jax.random.split(rng_key, 3)
    logits = mask_logits(
        add_dirichlet_noise(
            dirichlet_key, checked.prior_logits, fraction=dirichlet_fraction, alpha=dirichlet_alpha
        ),
        invalid_actions,
    )
    placeholder = jnp.zeros([batch_size], jnp.int32)
    decision, afterstate = decision_recurrent_fn(params, action_key, placeholder, checked.embedding)
    num_outcomes = decision.chance_logits.shape[-1]
    decision_root = checked.replace(
        prior_logits=_action_logits(logits, num_outcomes),
        embedding=StochasticRecurrentState(checked.embedding, afterstate, jnp.ones([batch_size], bool)),
    )
    rule = StochasticPuctRule(pb_c_init, pb_c_base, qtransform, num_actions=num_actions)
    tree = search(
        params,
        search_key,
        root=decision_root,
        recurrent_fn=_alternate(decision_recurrent_fn, chance_recurrent_fn, num_actions, num_outcomes),
        root_action_selection_fn=rule,
        interior_action_selection_fn=rule,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=_pad_mask(invalid_actions, num_outcomes),
        loop_fn=loop_fn,
        beta=beta,
        propagation=propagation,
        backup=backup,
        backend=backend,
    )
    decided = act_by_visits(action_key, _decisions(tree, num_actions), temperature)
    return mark_unusable_rows(decided, tree, usable)


def _alternate(
    decide: DecisionRecurrentFn, chance: ChanceRecurrentFn, num_actions: int, num_outcomes: int
) -> RecurrentFn:
    """Returns one model for both kinds of nodes: it evaluates both, and selects by the node's kind."""

    def recurrent_fn(
        params: Params, rng_key: Key, branch: Int[Array, "B"], state: StochasticRecurrentState
    ) -> tuple[RecurrentFnOutput, StochasticRecurrentState]:
        at_decision = state.is_decision_node
        decided, afterstate = decide(params, rng_key, branch, state.state_embedding)
        happened, next_state = chance(params, rng_key, branch - num_actions, state.afterstate_embedding)

        def either(decision: Array, outcome: Array) -> Array:
            mask = at_decision.reshape(-1, *[1] * (decision.ndim - 1))
            return jnp.where(mask, decision, outcome)

        nothing = jnp.zeros_like(happened.reward)
        step = RecurrentFnOutput(
            reward=either(nothing, happened.reward),
            discount=either(jnp.ones_like(happened.discount), happened.discount),
            prior_logits=either(
                _outcome_logits(decided.chance_logits, num_actions),
                _action_logits(happened.action_logits, num_outcomes),
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


def _or_zero(output: object, field: str, zero: Array) -> Array:
    value = getattr(output, field, None)
    return zero if value is None else value


def _action_logits(logits: Float[Array, "B A"], num_outcomes: int) -> Float[Array, "B branches"]:
    """Returns the logits of all branches of a decision node."""
    return jnp.concatenate([logits, jnp.full((len(logits), num_outcomes), -jnp.inf, logits.dtype)], axis=-1)


def _outcome_logits(logits: Float[Array, "B C"], num_actions: int) -> Float[Array, "B branches"]:
    """Returns the logits of all branches of a chance node."""
    return jnp.concatenate([jnp.full((len(logits), num_actions), -jnp.inf, logits.dtype), logits], axis=-1)


def _pad_mask(invalid_actions: ArrayLike | None, num_outcomes: int) -> Bool[Array, "B branches"] | None:
    if invalid_actions is None:
        return None
    return jnp.pad(jnp.asarray(invalid_actions).astype(bool), ((0, 0), (0, num_outcomes)))


def _decisions(tree: Tree[T], num_actions: int) -> Tree[T]:
    """Returns the tree with the branches of decision nodes alone."""
    return tree.replace(
        children_index=tree.children_index[..., :num_actions],
        children_prior_logits=tree.children_prior_logits[..., :num_actions],
        root_invalid_actions=tree.root_invalid_actions[..., :num_actions],
    )
