"""Expansion and backup of one node, elementwise: for a batch of nodes in plain JAX, for a single node in a kernel.

A propagation rule gives the variance of a return one step further up the tree.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from emcts.search.inputs import CheckedStep
from emcts.search.tree import Tree
from emcts.types import Number, T

Propagation = Callable[[Float[Array, "*B"], Float[Array, "*B"], Float[Array, "*B"]], Float[Array, "*B"]]


def independent(
    reward_variance: Float[Array, "*B"], discount: Float[Array, "*B"], variance: Float[Array, "*B"]
) -> Float[Array, "*B"]:
    """Variance of `reward + discount * return` for independent errors of the two estimates."""
    return reward_variance + discount * discount * variance


def correlated(
    reward_variance: Float[Array, "*B"], discount: Float[Array, "*B"], variance: Float[Array, "*B"]
) -> Float[Array, "*B"]:
    """Largest variance of `reward + discount * return` over all correlations of the two estimates' errors."""
    std = jnp.sqrt(reward_variance) + jnp.abs(discount) * jnp.sqrt(variance)
    return std * std


def beta_for_confidence(delta: Number) -> Float[Array, "*B"]:
    """Returns the `beta` for which `q + beta * std` bounds Q* with probability `1 - delta` (Theorem 1, `thm:UCB`)."""
    if isinstance(delta, float | int) and not 0 < delta <= 1:
        raise ValueError(f"delta is the probability that the bound fails: it must be in (0, 1], got {delta}")
    return 1 / jnp.sqrt(jnp.asarray(delta, dtype=float))


Backup = Callable[[Float[Array, "*B"], Int[Array, "*B"], Float[Array, "*B"]], Float[Array, "*B"]]
"""How the std of a node or an edge follows from the stds of its returns: `(std, count, new)`, the std of `count` of
them and that of one more, to the std of all. Elementwise. The value is always the mean return."""


def mean_backup(
    mean: Float[Array, "*B"], count: Int[Array, "*B"], new: Float[Array, "*B"]
) -> Float[Array, "*B"]:
    """Returns a mean of `count` numbers after one more: the paper's backup."""
    return (mean * count + new) / (count + 1)


@dataclasses.dataclass(frozen=True)
class PowerMean:
    """The power mean of the stds of all returns: the mean for 1, the largest that was ever seen for infinity.

    Between the two, returns with a large std count for more than their number: what a single path leads to is not
    averaged away by the paths beside it, and one wrong estimate among many is.
    """

    exponent: float | int

    def __post_init__(self) -> None:
        if not self.exponent >= 1:
            raise ValueError(f"exponent is {self.exponent}: give a number of at least 1, or infinity")

    def __call__(
        self, std: Float[Array, "*B"], count: Int[Array, "*B"], new: Float[Array, "*B"]
    ) -> Float[Array, "*B"]:
        largest = jnp.maximum(std, new)
        if math.isinf(self.exponent):
            return largest
        # Shares of the largest std: powers of these neither overflow nor vanish together.
        unit, exponent = jnp.where(largest > 0, largest, 1.0), float(self.exponent)
        mean = mean_backup((std / unit) ** exponent, count, (new / unit) ** exponent)
        return largest * mean ** (1 / exponent)


def power_mean(exponent: float | int) -> Backup:
    """Returns the backup by the power mean with this exponent, from 1 (the mean) to `math.inf` (the max)."""
    return PowerMean(exponent)


class BackupRules(NamedTuple):
    """How the variance of a return passes an edge, and how stds follow from those of returns."""

    propagation: Propagation = independent
    std: Backup = mean_backup


class RunningStats(NamedTuple):
    """The fields of a node that each backup through it updates."""

    node_visits: Int[Array, "*B"]
    node_values: Float[Array, "*B"]
    node_value_stds: Float[Array, "*B"]
    edge_qvalues: Float[Array, "*B"]
    edge_qvalue_stds: Float[Array, "*B"]


class EdgeModel(NamedTuple):
    """The fields of a node that hold the model's transition into it."""

    edge_rewards: Float[Array, "*B"]
    edge_reward_variances: Float[Array, "*B"]
    edge_discounts: Float[Array, "*B"]


class NodeFields(NamedTuple):
    """All fields of a node that an evaluation by the model writes, under the names that they have in a tree."""

    running: RunningStats
    edge: EdgeModel
    raw_values: Float[Array, "*B"]
    raw_value_stds: Float[Array, "*B"]

    @staticmethod
    def names() -> tuple[str, ...]:
        """Returns the names of all fields."""
        return (*RunningStats._fields, *EdgeModel._fields, "raw_values", "raw_value_stds")

    @classmethod
    def of(cls, tree: Tree[object]) -> "NodeFields":
        """Returns the fields of all nodes of a tree."""
        return cls(
            RunningStats(
                tree.node_visits,
                tree.node_values,
                tree.node_value_stds,
                tree.edge_qvalues,
                tree.edge_qvalue_stds,
            ),
            EdgeModel(tree.edge_rewards, tree.edge_reward_variances, tree.edge_discounts),
            tree.raw_values,
            tree.raw_value_stds,
        )

    def write(self, tree: Tree[T]) -> Tree[T]:
        """Returns the tree with these fields of all its nodes."""
        return tree.replace(
            **self.running._asdict(),
            **self.edge._asdict(),
            raw_values=self.raw_values,
            raw_value_stds=self.raw_value_stds,
        )


class Return(NamedTuple):
    """A simulation's return from a node, and the variance of it."""

    nu: Float[Array, "*B"]
    variance: Float[Array, "*B"]


def evaluate(
    running: RunningStats, reward: Float[Array, "*B"], step: CheckedStep, propagation: Propagation
) -> tuple[NodeFields, Return]:
    """Returns a leaf after an evaluation by the model, and the return that is backed up to its parent.

    A new leaf has no visits. A terminal node, or one at the depth limit, is evaluated by each simulation that ends
    there: its rewards, values, returns and stds are means over all evaluations, for models that sample rewards or
    values; the discount and the variance of the reward are those of the last evaluation.
    """
    nu = step.reward + step.discount * step.value
    variance = propagation(step.reward_variance, step.discount, step.value_variance)
    visits = running.node_visits

    def mean(old: Array, new: Array) -> Array:
        # In this form, a repeated evaluation with equal results leaves a mean unchanged to the last digit.
        return old + (new - old) / (visits + 1)

    value = mean(running.node_values, step.value)
    value_std = mean(running.node_value_stds, jnp.sqrt(step.value_variance))
    evaluated = RunningStats(
        node_visits=visits + 1,
        node_values=value,
        node_value_stds=value_std,
        edge_qvalues=mean(running.edge_qvalues, nu),
        edge_qvalue_stds=mean(running.edge_qvalue_stds, jnp.sqrt(variance)),
    )
    edge = EdgeModel(mean(reward, step.reward), step.reward_variance, step.discount)
    return NodeFields(evaluated, edge, value, value_std), Return(nu, variance)


def back_up(
    running: RunningStats, edge: EdgeModel, arriving: Return, rules: BackupRules
) -> tuple[RunningStats, Return]:
    """Returns a node after one more return, and the return that is backed up to its parent (Algorithm 1, BACKUP)."""
    visits = running.node_visits
    value = mean_backup(running.node_values, visits, arriving.nu)
    leaving = pass_up(edge, arriving, rules.propagation)
    updated = RunningStats(
        node_visits=visits + 1,
        node_values=value,
        node_value_stds=rules.std(running.node_value_stds, visits, jnp.sqrt(arriving.variance)),
        edge_qvalues=edge.edge_rewards + edge.edge_discounts * value,
        # The edge into a node has as many visits as the node.
        edge_qvalue_stds=rules.std(running.edge_qvalue_stds, visits, jnp.sqrt(leaving.variance)),
    )
    return updated, leaving


def pass_up(edge: EdgeModel, arriving: Return, propagation: Propagation) -> Return:
    """Returns a return one step further up the tree."""
    return Return(
        nu=edge.edge_rewards + edge.edge_discounts * arriving.nu,
        variance=propagation(edge.edge_reward_variances, edge.edge_discounts, arriving.variance),
    )
