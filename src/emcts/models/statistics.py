"""Statistics of the data of a seed, inside its networks: the range of the rewards, and moments of the observations.

Networks are trained by gradients, statistics are not: they are used under `stop_gradient`, and an optimiser leaves them
as they are. Target networks, checkpoints and seeds have them as parts of the networks.
"""

from typing import Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.types import Replaceable, Scalar, record


@record
class RewardRange(Replaceable):
    """The smallest and the largest reward so far, 0 included."""

    low: Float[Array, "*S"]
    high: Float[Array, "*S"]

    @property
    def size(self) -> Float[Array, "*S"]:
        """`high - low`; 1 while all rewards were 0."""
        size = self.high - self.low
        return jnp.where(size > 0, size, 1.0)

    def update(self, rewards: Float[Array, "B"]) -> "RewardRange":
        return RewardRange(jnp.minimum(self.low, rewards.min()), jnp.maximum(self.high, rewards.max()))


@record
class Statistics(Replaceable):
    """The statistics that networks follow; None for those that they do not."""

    rewards: RewardRange | None = None


@runtime_checkable
class HasStatistics(Protocol):
    """Networks that have statistics, or None."""

    @property
    def statistics(self) -> Statistics | None: ...


NetworksT = TypeVar("NetworksT", bound=HasStatistics)


def new_statistics(*, follow_rewards: bool) -> Statistics | None:
    """Returns the statistics before the first step; None if there is nothing to follow."""
    return Statistics(RewardRange(jnp.zeros(()), jnp.zeros(()))) if follow_rewards else None


def with_statistics(networks: NetworksT, statistics: Statistics | None) -> NetworksT:
    """Returns the networks with other statistics."""
    if networks.statistics is None and statistics is None:
        return networks
    return eqx.tree_at(lambda one: one.statistics, networks, statistics, is_leaf=lambda leaf: leaf is None)


def update_statistics(networks: NetworksT, rewards: Float[Array, "B"]) -> NetworksT:
    """Returns the networks with the statistics after some more steps."""
    now = networks.statistics
    if now is None:
        return networks
    return with_statistics(networks, Statistics(None if now.rewards is None else now.rewards.update(rewards)))


def reward_range(networks: HasStatistics, fixed: float | None) -> Scalar:
    """Returns the unit of the return: a fixed number, or the range of the rewards that was seen."""
    if fixed is not None:
        return fixed
    if networks.statistics is None or networks.statistics.rewards is None:
        raise ValueError("a reward_range of None follows the rewards: make networks with `follow_rewards`")
    return jax.lax.stop_gradient(networks.statistics.rewards.size)
