"""The arithmetic of expansion and backup, elementwise: a batch of nodes in plain JAX, a single node in a kernel.

Nodes are given and returned as named fields of the tree.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.search.propagation import Propagation
from emcts.types import RecurrentFnOutput

Fields = dict[str, Array]

EXPANDED_FROM = (
    "node_visits",
    "node_values",
    "node_value_stds",
    "edge_rewards",
    "edge_qvalues",
    "edge_qvalue_stds",
)
CLIMBED_FROM = (
    "node_visits",
    "node_values",
    "node_value_stds",
    "edge_rewards",
    "edge_discounts",
    "edge_reward_variances",
    "edge_qvalue_stds",
)
CLIMBED = ("node_visits", "node_values", "node_value_stds", "edge_qvalues", "edge_qvalue_stds")


class Return(NamedTuple):
    """What a simulation brings to a node: a return, and the variance of it."""

    nu: Float[Array, "*B"]
    variance: Float[Array, "*B"]


def expand(node: Fields, step: RecurrentFnOutput, propagation: Propagation) -> tuple[Fields, Return]:
    """The node at the end of an edge after the model was asked, and what its parent gets of it.

    A terminal node, or one at the depth limit, is evaluated again by each simulation that ends there. Where the model
    draws rewards or values at random, they, their returns and the stds are means over all evaluations; the discount and
    the variance of the reward are those of the last.
    """
    nu = step.reward + step.discount * step.value
    variance = propagation(step.reward_variance, step.discount, step.value_variance)
    visits = node["node_visits"]

    def mean(name: str, new: Array) -> Array:
        # This form of a mean leaves it as it is, to the last digit, if the model says the same again.
        return node[name] + (new - node[name]) / (visits + 1)

    value = mean("node_values", step.value)
    value_std = mean("node_value_stds", jnp.sqrt(step.value_variance))
    fields = {
        "node_visits": visits + 1,
        "raw_values": value,
        "raw_value_stds": value_std,
        "node_values": value,
        "node_value_stds": value_std,
        "edge_rewards": mean("edge_rewards", step.reward),
        "edge_reward_variances": step.reward_variance,
        "edge_discounts": step.discount,
        "edge_qvalues": mean("edge_qvalues", nu),
        "edge_qvalue_stds": mean("edge_qvalue_stds", jnp.sqrt(variance)),
    }
    return fields, Return(nu, variance)


def climb(node: Fields, arriving: Return, propagation: Propagation) -> tuple[Fields, Return]:
    """A node after one more return, and what its own parent gets (Algorithm 1, BACKUP)."""
    visits, reward, discount = node["node_visits"], node["edge_rewards"], node["edge_discounts"]
    value = _average(node["node_values"], visits, arriving.nu)
    variance = propagation(node["edge_reward_variances"], discount, arriving.variance)
    fields = {
        "node_visits": visits + 1,
        "node_values": value,
        "node_value_stds": _average(node["node_value_stds"], visits, jnp.sqrt(arriving.variance)),
        "edge_qvalues": reward + discount * value,
        # The edge into a node was visited as often as the node.
        "edge_qvalue_stds": _average(node["edge_qvalue_stds"], visits, jnp.sqrt(variance)),
    }
    return fields, Return(reward + discount * arriving.nu, variance)


def _average(mean: Array, count: Array, new: Array) -> Array:
    """A mean of `count` values after one more."""
    return (mean * count + new) / (count + 1)
