"""Selection of an action at a node: each rule as a record over one node's statistics, and under mctx's name."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from emcts.search.qtransforms import (
    QTRANSFORMS,
    Unchanged,
    qtransform_by_parent_and_siblings,
    qtransform_completed_by_mix_value,
)
from emcts.search.traversal.rules import (
    NodeQTransform,
    NodeStats,
    QTransform,
    RuleInputs,
    SelectionRule,
    read_rule,
)
from emcts.search.tree import Tree
from emcts.types import Key, MaybeArray, Replaceable, Scalar, record

# Selects an action at the root: `(rng_key, tree, node_index) -> action`, for one tree without a batch axis.
RootActionSelectionFn = Callable[[Key, Tree[Any], ArrayLike], Array]
# Selects an action below the root: `(rng_key, tree, node_index, depth) -> action`, for one tree without a batch axis.
InteriorActionSelectionFn = Callable[[Key, Tree[Any], ArrayLike, ArrayLike], Array]

TIE_BREAK = 1e-7  # as small as mctx's: it decides between equal scores only


@record
class PuctRule(SelectionRule):
    """MuZero's rule, and with scores for values EPUCT (`eq:EPUCT`)."""

    pb_c_init: Scalar = 1.25
    pb_c_base: Scalar = 19652.0
    qtransform: QTransform = qtransform_by_parent_and_siblings

    def inputs(self, rng_key: Key, tree: Tree[Any]) -> RuleInputs:
        invalid = tree.root_invalid_actions
        return RuleInputs(
            invalid, noise=TIE_BREAK * jax.random.uniform(rng_key, (invalid.size,)).reshape(invalid.shape)
        )

    def choose(
        self, stats: NodeStats, qvalues: Float[Array, "A"], inputs: RuleInputs, depth: ArrayLike
    ) -> Int[Array, ""]:
        pb_c = self.pb_c_init + jnp.log((stats.node_visits + self.pb_c_base + 1.0) / self.pb_c_base)
        prior = stats.softmax(stats.prior_logits)
        policy_score = jnp.sqrt(stats.node_visits.astype(prior.dtype)) * pb_c * prior / (stats.visits + 1)
        return stats.argmax(_mask(qvalues + policy_score + inputs.noise, inputs, depth))


@record
class UctRule(SelectionRule):
    """EUCT (`eq:EUCT`): untried actions first, lowest index first, then the upper confidence bound of the score.

    A prior logit of -inf (or the lowest finite number) marks an action that does not exist at this node.
    """

    c: Scalar = 1.0
    qtransform: QTransform = Unchanged()

    def choose(
        self, stats: NodeStats, qvalues: Float[Array, "A"], inputs: RuleInputs, depth: ArrayLike
    ) -> Int[Array, ""]:
        total = stats.sum(stats.visits)
        bound = qvalues + self.c * jnp.sqrt(2 * jnp.log(jnp.maximum(total, 1)) / jnp.maximum(stats.visits, 1))
        missing = stats.prior_logits <= jnp.finfo(stats.prior_logits.dtype).min
        score = jnp.where(missing, -jnp.inf, jnp.where(stats.visits > 0, bound, jnp.inf))
        return stats.argmax(_mask(score, inputs, depth))


@record
class GumbelRootRule(SelectionRule):
    """Sequential Halving with Gumbel: the best of the actions with the considered number of visits."""

    num_simulations: int = dataclasses.field(metadata={"static": True})
    max_num_considered_actions: int = dataclasses.field(metadata={"static": True})
    qtransform: QTransform = qtransform_completed_by_mix_value
    continues: bool = dataclasses.field(
        default=False, metadata={"static": True}
    )  # a tree of an earlier search

    def inputs(self, rng_key: Key, tree: Tree[Any]) -> RuleInputs:
        del rng_key
        invalid = tree.root_invalid_actions
        table = jnp.asarray(visits_table(self.max_num_considered_actions, self.num_simulations))
        num_considered = jnp.minimum(self.max_num_considered_actions, jnp.sum(~invalid, axis=-1))
        before = tree.extra_data.root_visits if self.continues else None
        return RuleInputs(invalid, tree.extra_data.root_gumbel, table[num_considered], before)

    def choose(
        self, stats: NodeStats, qvalues: Float[Array, "A"], inputs: RuleInputs, depth: ArrayLike
    ) -> Int[Array, ""]:
        logits = stats.prior_logits - stats.max(stats.prior_logits)
        # Bounded below, so that the only action left is taken even if its logit is that of an invalid one.
        score = jnp.maximum(-1e9, inputs.noise + logits + qvalues)
        visits = stats.visits if inputs.visits_before is None else stats.visits - inputs.visits_before
        score = jnp.where(visits == inputs.considered_visit, score, -jnp.inf)
        return stats.argmax(jnp.where(inputs.invalid, -jnp.inf, score))


@record
class GumbelInteriorRule(SelectionRule):
    """The action whose share of the visits is furthest behind the improved policy."""

    qtransform: QTransform = qtransform_completed_by_mix_value

    def choose(
        self, stats: NodeStats, qvalues: Float[Array, "A"], inputs: RuleInputs, depth: ArrayLike
    ) -> Int[Array, ""]:
        del inputs, depth
        improved = stats.softmax(stats.prior_logits + qvalues)
        return stats.argmax(improved - stats.visits / (1 + stats.sum(stats.visits)))


def _mask(score: Float[Array, "A"], inputs: RuleInputs, depth: ArrayLike) -> Float[Array, "A"]:
    """Returns the scores without those of invalid actions, which count at depth 0 alone."""
    return jnp.where(inputs.invalid & (depth == 0), -jnp.inf, score)


@functools.lru_cache
def considered_visits(num_considered: int, num_simulations: int) -> tuple[int, ...]:
    """Returns the visit count that each simulation considers, in Sequential Halving of `num_considered` actions."""
    if num_considered <= 1:
        return tuple(range(num_simulations))
    rounds = math.ceil(math.log2(num_considered))
    sequence: list[int] = []
    visits = 0
    remaining = num_considered
    while len(sequence) < num_simulations:
        for _ in range(max(1, int(num_simulations / (rounds * remaining)))):
            sequence.extend([visits] * remaining)
            visits += 1
        remaining = max(2, remaining // 2)
    return tuple(sequence[:num_simulations])


def visits_table(max_num_considered: int, num_simulations: int) -> Int[np.ndarray, "M S"]:
    """Returns a table whose row `m` has the considered visits for `m` actions."""
    rows = [considered_visits(m, num_simulations) for m in range(max_num_considered + 1)]
    return np.array(rows, dtype=np.int32)


@record
class GumbelMuZeroExtraData(Replaceable):
    """The Gumbel noise of a search's root actions, and their visits before the search, if its tree had any."""

    root_gumbel: Array  # [B, A]
    root_visits: MaybeArray = None  # [B, A]


GumbelMuZeroExtraDataType = TypeVar("GumbelMuZeroExtraDataType", bound=GumbelMuZeroExtraData)


def muzero_action_selection(
    rng_key: Key,
    tree: Tree[object],
    node_index: ArrayLike,
    depth: ArrayLike,
    *,
    pb_c_init: Scalar = 1.25,
    pb_c_base: Scalar = 19652.0,
    qtransform: QTransform = qtransform_by_parent_and_siblings,
) -> Int[Array, ""]:
    """Returns the action that maximises PUCT at a node; invalid actions count at depth 0 alone."""
    return PuctRule(pb_c_init, pb_c_base, qtransform)(rng_key, tree, node_index, depth)


def uct_action_selection(
    rng_key: Key, tree: Tree[object], node_index: ArrayLike, depth: ArrayLike, *, c: Scalar = 1.0
) -> Int[Array, ""]:
    """Returns the action that maximises UCT at a node; invalid actions count at depth 0 alone."""
    return UctRule(c)(rng_key, tree, node_index, depth)


def gumbel_muzero_root_action_selection(
    rng_key: Key,
    tree: Tree[GumbelMuZeroExtraDataType],
    node_index: ArrayLike,
    *,
    num_simulations: int,
    max_num_considered_actions: int,
    qtransform: QTransform = qtransform_completed_by_mix_value,
) -> Int[Array, ""]:
    """Returns the root action that Sequential Halving with Gumbel visits next."""
    rule = GumbelRootRule(num_simulations, max_num_considered_actions, qtransform)
    return rule(rng_key, tree, node_index)


def gumbel_muzero_interior_action_selection(
    rng_key: Key,
    tree: Tree[object],
    node_index: ArrayLike,
    depth: ArrayLike,
    *,
    qtransform: QTransform = qtransform_completed_by_mix_value,
) -> Int[Array, ""]:
    """Returns the interior action that brings the visits closest to the improved policy."""
    return GumbelInteriorRule(qtransform)(rng_key, tree, node_index, depth)


_SELECTIONS: dict[Callable[..., object], type[SelectionRule]] = {
    muzero_action_selection: PuctRule,
    uct_action_selection: UctRule,
    gumbel_muzero_root_action_selection: GumbelRootRule,
    gumbel_muzero_interior_action_selection: GumbelInteriorRule,
}


def node_rule(function: Callable[..., Array]) -> SelectionRule | None:
    """Returns a selection function as a rule over one node's statistics; None if it, or its q-transform, is no such."""
    rule = read_rule(function, SelectionRule, _SELECTIONS)
    qtransform = None if rule is None else read_rule(rule.qtransform, NodeQTransform, QTRANSFORMS)
    return None if rule is None or qtransform is None else rule.replace(qtransform=qtransform)
