"""The interface of selection rules: functions of one node's statistics, which run in plain JAX and in GPU kernels."""

import abc
import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from emcts.search.outcomes import mean_over_outcomes, sum_over_outcomes
from emcts.search.tree import Tree
from emcts.types import Key, MaybeArray, Replaceable, Scalar

QTransform = Callable[[Tree[Any], ArrayLike], Float[Array, "A"]]
RuleT = TypeVar("RuleT")


class NodeStats(NamedTuple):
    """Statistics of one node and its actions, values as scores.

    `mask` marks the actions that exist, for a kernel that pads to a power of two; None means all.
    """

    visits: Float[Array, "A"]
    prior_logits: Float[Array, "A"]
    qvalues: Float[Array, "A"]
    node_visits: Int[Array, ""]
    node_value: Float[Array, ""]
    raw_value: Float[Array, ""]
    mask: Bool[Array, "A"] | None = None

    def max(self, per_action: Array) -> Array:
        return jnp.max(self._fill(per_action, -jnp.inf))

    def min(self, per_action: Array) -> Array:
        return jnp.min(self._fill(per_action, jnp.inf))

    def sum(self, per_action: Array) -> Array:
        return jnp.sum(self._fill(per_action, 0))

    def softmax(self, logits: Float[Array, "A"]) -> Float[Array, "A"]:
        weights = jnp.exp(logits - self.max(logits))
        return weights / self.sum(weights)

    def argmax(self, per_action: Float[Array, "A"]) -> Int[Array, ""]:
        """Returns the first action with the largest entry. On CPUs two plain reductions beat an argmax after PUCT."""
        filled = self._fill(per_action, -jnp.inf)
        last = filled.shape[0] - 1
        action = lax.broadcasted_iota(jnp.int32, filled.shape, 0)
        return jnp.min(jnp.where(filled == jnp.max(filled), action, last))

    def _fill(self, per_action: Array, filler: Scalar) -> Array:
        if self.mask is None:
            return per_action
        return jnp.where(self.mask, per_action, jnp.asarray(filler, per_action.dtype))


def node_stats(tree: Tree[object], node_index: ArrayLike) -> NodeStats:
    """Returns the statistics of a node of one tree, values as in the tree: scores if the tree is a scored one."""
    return stats_of_children(tree, node_index, tree.children_index[node_index])


def stats_of_children(tree: Tree[object], node_index: ArrayLike, child: Int[Array, "*B KA"]) -> NodeStats:
    """Does the same for a node whose children are known, or for several nodes."""
    exists = child >= 0
    at = jnp.maximum(child, 0)

    def by_outcome(node_field: Array) -> list[Array]:
        return jnp.split(jnp.where(exists, entry(node_field, at), 0), tree.num_outcomes, axis=-1)

    visits = by_outcome(tree.node_visits)
    return NodeStats(
        visits=sum_over_outcomes(visits).astype(jnp.float32),
        prior_logits=entry(tree.children_prior_logits, node_index),
        qvalues=mean_over_outcomes(visits, by_outcome(tree.edge_qvalues)),
        node_visits=entry(tree.node_visits, node_index),
        node_value=entry(tree.node_values, node_index),
        raw_value=entry(tree.raw_values, node_index),
    )


def entry(array: Array, index: ArrayLike) -> Array:
    """Returns the entries at indices that exist: without code for those that do not, it compiles sooner."""
    return array.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


class RuleInputs(NamedTuple):
    """Inputs of a rule beside a node's statistics, for a batch of searches or for one."""

    invalid: Bool[Array, "*B A"]  # at the root
    noise: MaybeArray = None  # [*B, A]
    considered_visit: MaybeArray = None  # [*B, S] for all simulations, [*B] for one
    visits_before: MaybeArray = None  # [*B, A], of root actions before the search

    def at(self, simulation: Int[Array, ""]) -> "RuleInputs":
        """Returns the inputs of one simulation."""
        if self.considered_visit is None:
            return self
        return self._replace(considered_visit=self.considered_visit[..., simulation])


class NodeQTransform(abc.ABC):
    """A q-transform that depends on one node's statistics, callable with mctx's signature.

    A subclass is a record whose fields are the constants of the transform.
    """

    @abc.abstractmethod
    def transform(self, stats: NodeStats) -> Float[Array, "A"]:
        """Returns the transformed q-values of a node's actions."""

    def __call__(self, tree: Tree[object], node_index: ArrayLike) -> Float[Array, "A"]:
        return self.transform(node_stats(tree, node_index))


class SelectionRule(Replaceable, abc.ABC):
    """A selection function that depends on one node's statistics, callable with mctx's signature.

    A subclass is a record whose fields are the constants of the rule and a q-transform. With a `NodeQTransform` a rule
    runs in both backends. With any other q-transform it is a function of a tree.
    """

    qtransform: QTransform

    def inputs(self, rng_key: Key, tree: Tree[Any]) -> RuleInputs:
        """Returns the rule's inputs for a batch of trees, or for one tree."""
        del rng_key
        return RuleInputs(tree.root_invalid_actions)

    @abc.abstractmethod
    def choose(
        self, stats: NodeStats, qvalues: Float[Array, "A"], inputs: RuleInputs, depth: ArrayLike
    ) -> Int[Array, ""]:
        """Returns the action that the rule selects, given the transformed q-values of a node."""

    def select(self, stats: NodeStats, inputs: RuleInputs, depth: ArrayLike) -> Int[Array, ""]:
        """Returns the action that the rule selects by a node's statistics."""
        if not isinstance(self.qtransform, NodeQTransform):
            raise TypeError(
                f"{self.qtransform} is not a function of one node's statistics: call the rule with a tree instead"
            )
        return self.choose(stats, self.qtransform.transform(stats), inputs, depth)

    def __call__(
        self, rng_key: Key, tree: Tree[object], node_index: ArrayLike, depth: ArrayLike = 0
    ) -> Int[Array, ""]:
        stats = node_stats(tree, node_index)
        inputs = self.inputs(rng_key, tree)
        visits = stats.visits if inputs.visits_before is None else stats.visits - inputs.visits_before
        inputs = inputs.at(stats.sum(visits).astype(jnp.int32))
        return self.choose(stats, self.qtransform(tree, node_index), inputs, depth)


class BoundRule(NamedTuple):
    """A rule with its inputs for a batch of searches, or for one."""

    rule: SelectionRule
    inputs: RuleInputs

    @classmethod
    def bind(cls, rule: SelectionRule, rng_key: Key, tree: Tree[object]) -> "BoundRule":
        """Gives each batch element its own constants: they may be traced, and differ between seeds under `vmap`."""
        batch, dtype = tree.beta.shape, tree.node_values.dtype
        constants = jax.tree.map(lambda number: jnp.broadcast_to(jnp.asarray(number, dtype), batch), rule)
        return cls(constants, rule.inputs(rng_key, tree))

    def at(self, simulation: Int[Array, ""]) -> "BoundRule":
        return self._replace(inputs=self.inputs.at(simulation))

    def select(self, stats: NodeStats, depth: ArrayLike) -> Int[Array, ""]:
        return self.rule.select(stats, self.inputs, depth)


def read_rule(
    function: Callable[..., object], kind: type[Any], named: Mapping[Callable[..., object], type[RuleT]]
) -> RuleT | None:
    """Returns the rule that a function is or, under one of mctx's names, stands for; None for any other function.

    A program for mctx binds constants with `functools.partial`: the keywords are fields of the rule.
    """
    keywords: dict[str, Any] = {}
    while isinstance(function, functools.partial) and not function.args:
        keywords = {**function.keywords, **keywords}
        function = function.func
    keywords.pop("depth", None)  # bound for the root, where both backends pass 0
    if isinstance(function, kind):
        return dataclasses.replace(function, **keywords)
    is_named = isinstance(function, types.FunctionType) and function in named
    return named[function](**keywords) if is_named else None
