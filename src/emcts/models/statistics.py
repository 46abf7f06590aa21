"""Statistics of the data of a seed, inside its networks: the range of the rewards, and the scale of observations.

Networks are trained by gradients, statistics are not: they are used under `stop_gradient`, and an optimiser leaves them
as they are. Target networks, checkpoints and seeds have them as parts of the networks.
"""

from typing import Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from emcts.models.encoders import InputSpec, Spec
from emcts.types import Replaceable, Scalar, record

MOST_DEVIATIONS = 5.0  # of a normalised feature
MOST_SAMPLES = 1e6  # that moments are means over: then older ones fade, and a float32 counts on
LEAST_STD = 1e-4  # of a feature, relative to its size: one that never changes is 0


@record
class RewardRange(Replaceable):
    """The smallest and the largest reward so far; infinite before the first."""

    low: Float[Array, "*S"]
    high: Float[Array, "*S"]

    @property
    def size(self) -> Float[Array, "*S"]:
        """The distance between the two, 0 included; while all rewards were the same, at least 1.

        A step that always costs 0.01 says nothing of what a goal may pay.
        """
        size = jnp.maximum(self.high, 0.0) - jnp.minimum(self.low, 0.0)
        return jnp.where(self.high > self.low, size, jnp.maximum(size, 1.0))

    def update(self, rewards: Float[Array, "B"]) -> "RewardRange":
        return RewardRange(jnp.minimum(self.low, rewards.min()), jnp.maximum(self.high, rewards.max()))


@record
class Unscaled(Replaceable):
    """No scale: bools and indices are read as they are."""

    def update(self, xs: Shaped[Array, "B ..."]) -> "Unscaled":
        return self

    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        return x


@record
class Peak(Replaceable):
    """The largest absolute value in images so far, at least 1: planes of 0 and 1 stay as they are."""

    largest: Float[Array, "*S"]

    def update(self, xs: Shaped[Array, "B ..."]) -> "Peak":
        return Peak(jnp.maximum(self.largest, jnp.abs(xs.astype(jnp.float32)).max()))

    def apply(self, x: Shaped[Array, "..."]) -> Float[Array, "..."]:
        return x.astype(jnp.float32) / self.largest


@record
class Moments(Replaceable):
    """Mean and variance of each feature, and whether it was never anything but 0 or 1: such a one is left as it is."""

    count: Float[Array, "*S"]
    mean: Float[Array, "..."]
    variance: Float[Array, "..."]
    is_binary: Float[Array, "..."]  # 1 or 0

    def update(self, xs: Shaped[Array, "B ..."]) -> "Moments":
        """Adds a batch: exact up to `MOST_SAMPLES` samples, and an exponential mean after that."""
        floats = xs.astype(jnp.float32)
        count = jnp.minimum(self.count + xs.shape[0], MOST_SAMPLES)
        share = jnp.minimum(xs.shape[0] / count, 1.0)
        distance = floats.mean(axis=0) - self.mean
        between = share * (1 - share) * distance**2
        return Moments(
            count=count,
            mean=self.mean + share * distance,
            variance=(1 - share) * self.variance + share * floats.var(axis=0) + between,
            is_binary=self.is_binary * jnp.all((floats == 0) | (floats == 1), axis=0),
        )

    def apply(self, x: Shaped[Array, "..."]) -> Float[Array, "..."]:
        floats = x.astype(jnp.float32)
        least = LEAST_STD * jnp.maximum(jnp.abs(self.mean), 1.0)
        deviations = (floats - self.mean) / jnp.maximum(jnp.sqrt(self.variance), least)
        limited = jnp.clip(deviations, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        return jnp.where(self.is_binary > 0, floats, limited)


Scale = Unscaled | Peak | Moments


@record
class Statistics(Replaceable):
    """The statistics that networks follow; None for those that they do not."""

    rewards: RewardRange | None = None
    observations: PyTree[Scale] = None  # of each array of an observation

    def update(self, rewards: Float[Array, "B"], observations: PyTree[Array]) -> "Statistics":
        """Returns the statistics after some more steps. Observations are read if there is a scale of them."""
        rewards_now, scales = self.rewards, self.observations
        if scales is not None:
            scales = jax.tree.map(lambda scale, xs: scale.update(xs), scales, observations, is_leaf=_is_scale)
        return Statistics(None if rewards_now is None else rewards_now.update(rewards), scales)


@runtime_checkable
class HasStatistics(Protocol):
    """Networks that have statistics, or None."""

    @property
    def statistics(self) -> Statistics | None: ...


NetworksT = TypeVar("NetworksT", bound=HasStatistics)


def new_statistics(*, follow_rewards: bool, observed: Spec | None = None) -> Statistics | None:
    """Returns the statistics before the first step; None if there is nothing to follow."""
    if not follow_rewards and observed is None:
        return None
    rewards = RewardRange(jnp.full((), jnp.inf), jnp.full((), -jnp.inf)) if follow_rewards else None
    return Statistics(rewards, None if observed is None else jax.tree.map(new_scale, observed))


def new_scale(spec: InputSpec) -> Scale:
    """Returns what is followed of an array: the peak of an image, the moments of other numbers, nothing of bools."""
    if spec.is_indexed or spec.dtype == "bool":
        return Unscaled()
    if spec.is_image:
        return Peak(jnp.ones(()))
    return Moments(jnp.zeros(()), jnp.zeros(spec.shape), jnp.ones(spec.shape), jnp.ones(spec.shape))


def with_statistics(networks: NetworksT, statistics: Statistics | None) -> NetworksT:
    """Returns the networks with other statistics."""
    if networks.statistics is None and statistics is None:
        return networks
    return eqx.tree_at(lambda one: one.statistics, networks, statistics, is_leaf=lambda leaf: leaf is None)


def update_statistics(
    networks: NetworksT, rewards: Float[Array, "B"], observations: PyTree[Array] = None
) -> NetworksT:
    """Returns the networks with the statistics after some more steps. Observations count if they are normalised."""
    now = networks.statistics
    return networks if now is None else with_statistics(networks, now.update(rewards, observations))


def normalises(networks: HasStatistics) -> bool:
    """Returns whether the networks normalise observations."""
    return networks.statistics is not None and networks.statistics.observations is not None


def normalise(statistics: Statistics | None, observation: PyTree[Array]) -> PyTree[Array]:
    """Returns an observation as networks read it: in units of what was observed, if they follow that."""
    if statistics is None or statistics.observations is None:
        return observation
    scales = jax.lax.stop_gradient(statistics.observations)
    return jax.tree.map(lambda scale, x: scale.apply(x), scales, observation, is_leaf=_is_scale)


def reward_range(networks: HasStatistics, fixed: float | None) -> Scalar:
    """Returns the unit of the return: a fixed number, or the range of the rewards that was seen."""
    if fixed is not None:
        return fixed
    if networks.statistics is None or networks.statistics.rewards is None:
        raise ValueError("a reward_range of None follows the rewards: make networks with `follow_rewards`")
    return jax.lax.stop_gradient(networks.statistics.rewards.size)


def _is_scale(node: PyTree) -> bool:
    return isinstance(node, Unscaled | Peak | Moments)
