"""Statistics of the data of a seed, inside its networks: the range of the returns, and the scale of observations.

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
MOST_FEATURES = 8192  # of an image whose pixels are features; larger ones are scaled as a whole
MOST_SAMPLES = 1e6  # that moments are means over: then older ones fade, and a float32 counts on
LEAST_STD = 1e-4  # of a feature, relative to its size: one that never changes is 0


@record
class ReturnRange(Replaceable):
    """The smallest and the largest discounted sum of the rewards of an episode so far, 0 included.

    Where one step pays, this is the range of the rewards. Where every step pays, values are as large as their sum, and
    so are their errors: next to these, what is unseen would not count if it were worth a single reward.
    """

    low: Float[Array, "*S"]
    high: Float[Array, "*S"]

    @property
    def size(self) -> Float[Array, "*S"]:
        """`high - low`, at least 1: a world that has shown small costs alone may still have a reward of 1."""
        return jnp.maximum(self.high - self.low, 1.0)

    def update(self, returns: Float[Array, "B"]) -> "ReturnRange":
        return ReturnRange(jnp.minimum(self.low, returns.min()), jnp.maximum(self.high, returns.max()))


@record
class Unscaled(Replaceable):
    """No scale: indices are read as they are."""

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
    """Mean and variance of each feature. A feature that never changed is 0, and far from it once it does."""

    count: Float[Array, "*S"]
    mean: Float[Array, "..."]
    variance: Float[Array, "..."]

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
        )

    def apply(self, x: Shaped[Array, "..."]) -> Float[Array, "..."]:
        floats = x.astype(jnp.float32)
        least = LEAST_STD * jnp.maximum(jnp.abs(self.mean), 1.0)
        deviations = (floats - self.mean) / jnp.maximum(jnp.sqrt(self.variance), least)
        return jnp.clip(deviations, -MOST_DEVIATIONS, MOST_DEVIATIONS)


Scale = Unscaled | Peak | Moments


@record
class Statistics(Replaceable):
    """The statistics that networks follow; None for those that they do not."""

    returns: ReturnRange | None = None
    observations: PyTree[Scale] = None  # of each array of an observation

    def update(self, returns: Float[Array, "B"], observations: PyTree[Array]) -> "Statistics":
        """Returns the statistics after some more steps. Observations are read if there is a scale of them."""
        range_now, scales = self.returns, self.observations
        if scales is not None:
            scales = jax.tree.map(lambda scale, xs: scale.update(xs), scales, observations, is_leaf=_is_scale)
        return Statistics(None if range_now is None else range_now.update(returns), scales)


@runtime_checkable
class HasStatistics(Protocol):
    """Networks that have statistics, or None."""

    @property
    def statistics(self) -> Statistics | None: ...


NetworksT = TypeVar("NetworksT", bound=HasStatistics)


def new_statistics(*, follow_returns: bool, observed: Spec | None = None) -> Statistics | None:
    """Returns the statistics before the first step; None if there is nothing to follow."""
    if not follow_returns and observed is None:
        return None
    returns = ReturnRange(jnp.zeros(()), jnp.zeros(())) if follow_returns else None
    return Statistics(returns, None if observed is None else jax.tree.map(new_scale, observed))


def new_scale(spec: InputSpec) -> Scale:
    """Returns what is followed of an array: the peak of a large image, the moments of anything else but an index.

    In a grid of few cells, each cell of a plane is a feature of its own. The one that the agent is in stands out from
    walls, which never change: a network fitted the values of all cells in a tenth of the updates.
    """
    if spec.is_indexed:
        return Unscaled()
    if spec.is_image and spec.size > MOST_FEATURES:
        return Peak(jnp.ones(()))
    return Moments(jnp.zeros(()), jnp.zeros(spec.shape), jnp.ones(spec.shape))


def with_statistics(networks: NetworksT, statistics: Statistics | None) -> NetworksT:
    """Returns the networks with other statistics."""
    if networks.statistics is None and statistics is None:
        return networks
    return eqx.tree_at(lambda one: one.statistics, networks, statistics, is_leaf=lambda leaf: leaf is None)


def update_statistics(
    networks: NetworksT, returns: Float[Array, "B"], observations: PyTree[Array] = None
) -> NetworksT:
    """Returns the networks with the statistics after some more steps. Observations count if they are normalised."""
    now = networks.statistics
    return networks if now is None else with_statistics(networks, now.update(returns, observations))


def normalises(networks: HasStatistics) -> bool:
    """Returns whether the networks normalise observations."""
    return networks.statistics is not None and networks.statistics.observations is not None


def normalise(statistics: Statistics | None, observation: PyTree[Array]) -> PyTree[Array]:
    """Returns an observation as networks read it: in units of what was observed, if they follow that."""
    if statistics is None or statistics.observations is None:
        return observation
    scales = jax.lax.stop_gradient(statistics.observations)
    return jax.tree.map(lambda scale, x: scale.apply(x), scales, observation, is_leaf=_is_scale)


def return_range(networks: HasStatistics, fixed: float | None) -> Scalar:
    """Returns the unit of the return: a fixed number, or the range of the returns that was seen."""
    if fixed is not None:
        return fixed
    if networks.statistics is None or networks.statistics.returns is None:
        raise ValueError("a return_range of None follows the returns: make networks with `follow_returns`")
    return jax.lax.stop_gradient(networks.statistics.returns.size)


def _is_scale(node: PyTree) -> bool:
    return isinstance(node, Unscaled | Peak | Moments)
