"""Which action a simulation takes at a node: each rule as a function of a row, and under mctx's names of a tree."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.search.qtransforms import qtransform_by_parent_and_siblings, qtransform_completed_by_mix_value
from emcts.search.row import Row, read_row
from emcts.search.seq_halving import score_considered, visits_table
from emcts.search.tree import Tree
from emcts.types import Key, Number, Replaceable, Scalar, record

QTransform = Callable[[Tree[Any], Any], Float[Array, "A"]]
RootActionSelectionFn = Callable[[Key, Tree[Any], Any], Any]
InteriorActionSelectionFn = Callable[[Key, Tree[Any], Any, Any], Any]

TIE_BREAK = 1e-7  # as small as mctx's: it decides between equal scores, and between nothing else


@record
class GumbelMuZeroExtraData(Replaceable):
    """The Gumbel noise of a search's root actions."""

    root_gumbel: Any  # [B, A]


GumbelMuZeroExtraDataType = TypeVar("GumbelMuZeroExtraDataType", bound=GumbelMuZeroExtraData)


def puct(
    row: Row,
    value_score: Float[Array, "A"],
    noise: Float[Array, "A"],
    invalid: Bool[Array, "A"] | None,
    *,
    pb_c_init: Scalar = 1.25,
    pb_c_base: Scalar = 19652.0,
) -> Int[Array, ""]:
    """MuZero's rule, and with scores for values EPUCT (`eq:EPUCT`)."""
    pb_c = pb_c_init + jnp.log((row.node_visits + pb_c_base + 1.0) / pb_c_base)
    prior = row.softmax(row.prior_logits)
    policy_score = jnp.sqrt(row.node_visits.astype(prior.dtype)) * pb_c * prior / (row.visits + 1)
    return row.argmax(_mask(value_score + policy_score + noise, invalid))


def uct(row: Row, invalid: Bool[Array, "A"] | None, *, c: Scalar = 1.0) -> Int[Array, ""]:
    """EUCT (`eq:EUCT`): untried actions first, lowest index first, then the upper confidence bound of the score.

    A prior logit of -inf (or the lowest finite number) marks an action that does not exist at this node.
    """
    total = row.sum(row.visits)
    bound = row.qvalues + c * jnp.sqrt(2 * jnp.log(jnp.maximum(total, 1)) / jnp.maximum(row.visits, 1))
    missing = row.prior_logits <= jnp.finfo(row.prior_logits.dtype).min
    score = jnp.where(missing, -jnp.inf, jnp.where(row.visits > 0, bound, jnp.inf))
    return row.argmax(_mask(score, invalid))


def gumbel_root(
    row: Row,
    completed_qvalues: Float[Array, "A"],
    gumbel: Float[Array, "A"],
    considered_visit: Int[Array, ""] | Float[Array, ""],
    invalid: Bool[Array, "A"] | None,
) -> Int[Array, ""]:
    """Sequential Halving with Gumbel: the best of the actions whose turn it is."""
    return row.argmax(_mask(score_considered(row, completed_qvalues, gumbel, considered_visit), invalid))


def gumbel_interior(row: Row, completed_qvalues: Float[Array, "A"]) -> Int[Array, ""]:
    """The action whose share of the visits is furthest behind the improved policy."""
    improved = row.softmax(row.prior_logits + completed_qvalues)
    return row.argmax(improved - row.visits / (1 + row.sum(row.visits)))


def chance(row: Row) -> Int[Array, ""]:
    """The outcome whose share of the visits is furthest behind its probability."""
    return row.argmax(row.softmax(row.prior_logits) / (row.visits + 1))


def _mask(score: Float[Array, "A"], invalid: Bool[Array, "A"] | None) -> Float[Array, "A"]:
    return score if invalid is None else jnp.where(invalid, -jnp.inf, score)


def muzero_action_selection(
    rng_key: Key,
    tree: Tree[Any],
    node_index: Any,
    depth: Any,
    *,
    pb_c_init: Number = 1.25,
    pb_c_base: Number = 19652.0,
    qtransform: QTransform = qtransform_by_parent_and_siblings,
) -> Int[Array, ""]:
    """The action that maximises PUCT at a node; invalid actions count at depth 0 alone."""
    row = read_row(tree, node_index)
    noise = TIE_BREAK * jax.random.uniform(rng_key, (tree.num_actions,))
    invalid = tree.root_invalid_actions & (depth == 0)
    value_score = qtransform(tree, node_index)
    return puct(row, value_score, noise, invalid, pb_c_init=pb_c_init, pb_c_base=pb_c_base)


def uct_action_selection(
    rng_key: Key, tree: Tree[Any], node_index: Any, depth: Any, *, c: Number = 1.0
) -> Int[Array, ""]:
    """The action that maximises UCT at a node; invalid actions count at depth 0 alone."""
    del rng_key
    return uct(read_row(tree, node_index), tree.root_invalid_actions & (depth == 0), c=c)


def gumbel_muzero_root_action_selection(
    rng_key: Key,
    tree: Tree[GumbelMuZeroExtraDataType],
    node_index: Any,
    *,
    num_simulations: int,
    max_num_considered_actions: int,
    qtransform: QTransform = qtransform_completed_by_mix_value,
) -> Int[Array, ""]:
    """The root action that Sequential Halving with Gumbel visits next."""
    del rng_key
    row = read_row(tree, node_index)
    schedule = visit_schedule(tree.root_invalid_actions, max_num_considered_actions, num_simulations)
    considered_visit = schedule[row.sum(row.visits).astype(jnp.int32)]
    completed = qtransform(tree, node_index)
    return gumbel_root(
        row, completed, tree.extra_data.root_gumbel, considered_visit, tree.root_invalid_actions
    )


def gumbel_muzero_interior_action_selection(
    rng_key: Key,
    tree: Tree[Any],
    node_index: Any,
    depth: Any,
    *,
    qtransform: QTransform = qtransform_completed_by_mix_value,
) -> Int[Array, ""]:
    """The interior action that brings the visits closest to the improved policy."""
    del rng_key, depth
    return gumbel_interior(read_row(tree, node_index), qtransform(tree, node_index))


def stochastic_action_selection(
    rng_key: Key,
    tree: Tree[Any],
    node_index: Any,
    depth: Any,
    *,
    num_actions: int,
    pb_c_init: Number = 1.25,
    pb_c_base: Number = 19652.0,
    qtransform: QTransform = qtransform_by_parent_and_siblings,
) -> Int[Array, ""]:
    """PUCT over the first `num_actions` branches at even depths; at odd ones the chance outcome that is due."""
    decisions = tree.replace(
        children_index=tree.children_index[:, :num_actions],
        children_prior_logits=tree.children_prior_logits[:, :num_actions],
        root_invalid_actions=tree.root_invalid_actions[:num_actions],
    )
    action = muzero_action_selection(
        rng_key, decisions, node_index, depth, pb_c_init=pb_c_init, pb_c_base=pb_c_base, qtransform=qtransform
    )
    outcome = chance(branches(read_row(tree, node_index), num_actions, outcomes=True))
    return jnp.where(jnp.asarray(depth) % 2 == 0, action, outcome)


def branches(row: Row, num_actions: int, *, outcomes: bool) -> Row:
    """The row of a stochastic tree's node with its actions, or its chance outcomes, for lanes."""
    lane = jax.lax.broadcasted_iota(jnp.int32, row.visits.shape, 0)
    wanted = (lane >= num_actions) if outcomes else (lane < num_actions)
    return row._replace(lanes=wanted if row.lanes is None else wanted & row.lanes)


def visit_schedule(
    invalid_actions: Bool[Array, "A"], max_num_considered_actions: int, num_simulations: int
) -> Int[Array, "S"]:
    """The visits that each simulation looks for at a root with these invalid actions."""
    table = jnp.asarray(visits_table(max_num_considered_actions, num_simulations))
    num_valid = jnp.sum(~invalid_actions)
    return table[jnp.minimum(max_num_considered_actions, num_valid)]
