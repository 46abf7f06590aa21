"""Raw observations as inputs: whitened, as random features that networks tell apart, or rounded to a grid for hashes.

What these wrappers start from is a sample of inputs like those to come (`probes`), such as the observations of random
steps. Inputs have any shape and dtype.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Generic

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Integer, Shaped

from emcts.novelty.base import Novelty, NoveltyTable, State, fit_to_targets, init_from
from emcts.types import Key, Replaceable, record

Probes = Callable[[Key], Shaped[Array, "P ..."]]

MOST_COUNTED = 1e6  # inputs: from then on, moments follow the last million
_FLOOR = 1e-6  # of a standard deviation
_RELATIVE_FLOOR = 1e-4  # of a standard deviation, in units of the mean: less is rounding
_MOST_BINS = 2.0**30  # from the centre: as far as int32 reaches


@record
class Moments(Replaceable):
    """The number of inputs so far, and the mean and variance of each of their features."""

    count: Float[Array, ""]  # inputs so far
    mean: Float[Array, "F"]  # of each feature
    variance: Float[Array, "F"]  # of each feature

    @staticmethod
    def of(xs: Shaped[Array, "B ..."]) -> "Moments":
        """The moments of a batch."""
        rows = _as_vectors(xs)
        return Moments(jnp.float32(rows.shape[0]), jnp.mean(rows, axis=0), jnp.var(rows, axis=0))

    def add(self, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> "Moments":
        """The moments with the rows in the mask added."""
        rows = jnp.where(mask[:, None], _as_vectors(xs), 0)
        number = jnp.sum(mask, dtype=jnp.float32)
        mean = jnp.sum(rows, axis=0) / jnp.maximum(number, 1)
        squares = jnp.sum(jnp.where(mask[:, None], jnp.square(rows - mean[None]), 0), axis=0)
        total = self.count + number
        share, shift = number / total, mean - self.mean
        return Moments(
            count=jnp.minimum(total, MOST_COUNTED),
            mean=self.mean + share * shift,
            variance=(1 - share) * (self.variance + share * shift**2) + squares / total,
        )

    def whiten(self, x: Shaped[Array, "..."]) -> Float[Array, "F"]:
        """One input as a vector whose features have mean 0 and variance 1; one that never changed stays 0."""
        floor = _FLOOR + _RELATIVE_FLOOR * jnp.abs(self.mean)
        return (x.reshape(-1).astype(jnp.float32) - self.mean) / jnp.maximum(jnp.sqrt(self.variance), floor)


@record
class WhitenedState(Replaceable, Generic[State]):
    """The state of the estimator, and the moments of its inputs."""

    inner: State
    moments: Moments


@dataclasses.dataclass(frozen=True)
class Whitened(Generic[State]):
    """An estimator whose inputs are whitened by their running moments, and clipped to `clip` standard deviations.

    Moments start from the `probes`, and change with every update.
    """

    novelty: Novelty[State]
    probes: Probes
    clip: float = 5.0

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise ValueError(f"clip is {self.clip}: give a positive number of standard deviations")

    def init(self, key: Key) -> WhitenedState[State]:
        novelty_key, probe_key = jax.random.split(key)
        return self.init_from(novelty_key, self.probes(probe_key))

    def init_from(self, key: Key, sample: Shaped[Array, "P ..."]) -> WhitenedState[State]:
        """The state in which nothing was seen, with moments of this sample instead of the probes."""
        moments = Moments.of(sample)
        return WhitenedState(init_from(self.novelty, key, self._inputs(moments, sample)), moments)

    def variance(self, state: WhitenedState[State], x: Shaped[Array, "..."]) -> Float[Array, ""]:
        return self.novelty.variance(state.inner, self._input(state.moments, x))

    def update(
        self, state: WhitenedState[State], xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]
    ) -> WhitenedState[State]:
        moments = state.moments.add(xs, mask)
        return WhitenedState(self.novelty.update(state.inner, self._inputs(moments, xs), mask), moments)

    def fit(
        self,
        state: WhitenedState[State],
        xs: Shaped[Array, "B ..."],
        targets: Float[Array, "B D"],
        mask: Bool[Array, "B"],
    ) -> WhitenedState[State]:
        """The state once `novelty` was fitted to the targets, if it can be."""
        moments = state.moments.add(xs, mask)
        inputs = self._inputs(moments, xs)
        return WhitenedState(fit_to_targets(self.novelty, state.inner, inputs, targets, mask), moments)

    def _input(self, moments: Moments, x: Shaped[Array, "..."]) -> Float[Array, "F"]:
        return jnp.clip(moments.whiten(x), -self.clip, self.clip)

    def _inputs(self, moments: Moments, xs: Shaped[Array, "B ..."]) -> Float[Array, "B F"]:
        return jax.vmap(self._input, (None, 0))(moments, xs)


@record
class RandomFeaturesState(Replaceable, Generic[State]):
    """The state of the estimator, and the random directions of the features, which never change."""

    inner: State
    directions: Float[Array, "H F"]


@dataclasses.dataclass(frozen=True)
class RandomFeatures(Generic[State]):
    """An estimator that reads random Fourier features of its inputs: cosines and sines of random projections.

    A network of them tells inputs apart that differ by more than `length` times the distance of two typical inputs; one
    of the inputs themselves does not, and learns what is new together with what was seen. Inputs are vectors of
    `num_inputs` whitened features; typical ones come from a sample, if there is one (`init_from`).
    """

    novelty: Novelty[State]
    num_inputs: int
    num_features: int = 256
    length: float = 0.4

    def __post_init__(self) -> None:
        if self.num_features < 2 or self.num_features % 2:
            raise ValueError(
                f"features are pairs of a sine and a cosine: num_features is even, got {self.num_features}"
            )
        if not self.length > 0:
            raise ValueError(
                f"length is {self.length}: give a positive share of the distance of typical inputs"
            )

    def init(self, key: Key) -> RandomFeaturesState[State]:
        novelty_key, direction_key = jax.random.split(key)
        directions = self._directions(direction_key, jnp.float32(self.num_inputs))
        return RandomFeaturesState(self.novelty.init(novelty_key), directions)

    def init_from(self, key: Key, sample: Float[Array, "P F"]) -> RandomFeaturesState[State]:
        """The state in which nothing was seen, for inputs as far from each other as those of the sample."""
        novelty_key, direction_key = jax.random.split(key)
        variance = jnp.sum(jnp.var(sample, axis=0))
        directions = self._directions(direction_key, jnp.where(variance > 0, variance, 1.0))
        features = jax.vmap(_features, (None, 0))(directions, sample)
        return RandomFeaturesState(init_from(self.novelty, novelty_key, features), directions)

    def variance(self, state: RandomFeaturesState[State], x: Float[Array, "F"]) -> Float[Array, ""]:
        return self.novelty.variance(state.inner, _features(state.directions, x))

    def update(
        self, state: RandomFeaturesState[State], xs: Float[Array, "B F"], mask: Bool[Array, "B"]
    ) -> RandomFeaturesState[State]:
        features = jax.vmap(_features, (None, 0))(state.directions, xs)
        return state.replace(inner=self.novelty.update(state.inner, features, mask))

    def fit(
        self,
        state: RandomFeaturesState[State],
        xs: Float[Array, "B F"],
        targets: Float[Array, "B D"],
        mask: Bool[Array, "B"],
    ) -> RandomFeaturesState[State]:
        """The state once `novelty` was fitted to the targets, if it can be."""
        features = jax.vmap(_features, (None, 0))(state.directions, xs)
        return state.replace(inner=fit_to_targets(self.novelty, state.inner, features, targets, mask))

    def _directions(self, key: Key, variance: Float[Array, ""]) -> Float[Array, "H F"]:
        """Directions over which an angle turns by 1 in `length` times the distance of two independent inputs."""
        distance = self.length * jnp.sqrt(2 * variance)
        return jax.random.normal(key, (self.num_features // 2, self.num_inputs)) / distance


@record
class BinnedState(Replaceable, Generic[State]):
    """The state of the estimator, and the moments of the probes, which never change."""

    inner: State
    moments: Moments


@dataclasses.dataclass(frozen=True)
class Binned(Generic[State]):
    """A table of the cells of a grid, for inputs whose numbers never repeat exactly.

    A cell is an int32 vector. Each feature has `bins` cells per standard deviation of the probes, as far as it goes.
    """

    novelty: NoveltyTable[State]
    probes: Probes
    bins: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.bins < math.inf:
            raise ValueError(
                f"bins is {self.bins}: give a positive number of cells per standard deviation, such as 2"
            )

    def init(self, key: Key) -> BinnedState[State]:
        novelty_key, probe_key = jax.random.split(key)
        return BinnedState(self.novelty.init(novelty_key), Moments.of(self.probes(probe_key)))

    def variance(self, state: BinnedState[State], x: Shaped[Array, "..."]) -> Float[Array, ""]:
        return self.novelty.variance(state.inner, self._cell(state.moments, x))

    def update(
        self, state: BinnedState[State], xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]
    ) -> BinnedState[State]:
        cells = jax.vmap(self._cell, (None, 0))(state.moments, xs)
        return state.replace(inner=self.novelty.update(state.inner, cells, mask))

    def num_seen(self, state: BinnedState[State]) -> Integer[Array, ""]:
        """The number of different cells that were seen."""
        return self.novelty.num_seen(state.inner)

    def occupancy(self, state: BinnedState[State]) -> Float[Array, ""]:
        """The share of the table in use."""
        return self.novelty.occupancy(state.inner)

    def _cell(self, moments: Moments, x: Shaped[Array, "..."]) -> Int32[Array, "F"]:
        places = jnp.round(self.bins * moments.whiten(x))
        return jnp.clip(places, -_MOST_BINS, _MOST_BINS).astype(jnp.int32)


def _as_vectors(xs: Shaped[Array, "B ..."]) -> Float[Array, "B F"]:
    return xs.reshape(xs.shape[0], -1).astype(jnp.float32)


def _features(directions: Float[Array, "H F"], x: Float[Array, "F"]) -> Float[Array, "H2"]:
    """Features of mean square 1."""
    angles = directions @ x
    return math.sqrt(2) * jnp.concatenate([jnp.cos(angles), jnp.sin(angles)])
