"""Rewards with noise: the epistemic variance of the mean of a few draws.

A novelty estimator reports whether a transition was seen. Where rewards are random, one visit says little: the mean of
n draws with noise variance s2 has an epistemic variance of s2 / n. The noise variance is not known either. It is
estimated from transitions with more than one visit, and assumed of those with one visit whose reward is unlike the
rewards of transitions without noise.
"""

import dataclasses
from typing import Generic

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32

from emcts.novelty.base import Novelty, State
from emcts.types import Key, Replaceable, Scalar, record

_MOST_VISITS = 2**30  # later ones are not counted, so that the number does not wrap
_ROUNDING = 1e-6  # relative: draws that differ by less are one number


@record
class RewardMomentsState(Replaceable):
    """The number of rewards of each index, their mean, and the sum of their squared distances from it."""

    visits: Int32[Array, "N"]
    mean: Float[Array, "N"]
    squares: Float[Array, "N"]


@dataclasses.dataclass(frozen=True)
class RewardMoments:
    """The epistemic variance of the mean reward of each index 0 to `size - 1`; any other index is not recorded.

    The noise of an index whose draws differ is estimated from them and, with the weight of `prior_draws` draws, from
    all such indices. An index whose draws are all equal has noise with a probability (`_noise_probability`). Where no
    index has noise, every variance is exactly 0.
    """

    size: int
    prior_draws: float = 4.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is the number of indices to record: give at least 1, got {self.size}")
        if not self.prior_draws > 0:
            raise ValueError(f"prior_draws is a weight: give a positive number, got {self.prior_draws}")

    def init(self, key: Key) -> RewardMomentsState:
        nothing = jnp.zeros(self.size)
        return RewardMomentsState(jnp.zeros(self.size, jnp.int32), nothing, nothing)

    def update(
        self,
        state: RewardMomentsState,
        xs: Int[Array, "B"],
        rewards: Float[Array, "B"],
        mask: Bool[Array, "B"],
    ) -> RewardMomentsState:
        """The state once the rows in the mask had these rewards; an index may occur more than once."""
        seen = mask & (xs >= 0) & (xs < self.size)
        at = jnp.where(seen, xs, self.size)
        # Distances are from the mean so far, or from one of the draws if these are the first: equal draws have 0.
        some = jnp.zeros(self.size).at[at].set(rewards, mode="drop")
        centre = jnp.where(state.visits > 0, state.mean, some)
        distance = jnp.where(seen, rewards - centre.at[xs].get(mode="clip"), 0.0)

        def total(of_rows: Array) -> Array:
            return jnp.zeros(self.size, of_rows.dtype).at[at].add(of_rows, mode="drop")

        visits = jnp.minimum(state.visits + total(seen.astype(jnp.int32)), _MOST_VISITS)
        shift, squares = total(distance), total(distance**2)
        count = jnp.maximum(visits, 1).astype(jnp.float32)
        return RewardMomentsState(
            visits=visits,
            mean=centre + shift / count,
            squares=jnp.maximum(state.squares + squares - shift**2 / count, 0.0),
        )

    def variances(self, state: RewardMomentsState) -> Float[Array, "N"]:
        """The variance of the mean of each index; 0 for one that was never seen, which is the novelty's part."""
        visits = state.visits.astype(jnp.float32)
        noisy = _are_noisy(state)
        more = jnp.maximum(visits - 1, 0)
        noise = _ratio(_sum(noisy, state.squares), _sum(noisy, more))
        own = (self.prior_draws * noise + state.squares) / (self.prior_draws + more)
        expected = jnp.where(noisy, own, _noise_probability(state, noisy, noise) * noise)
        return jnp.where(visits > 0, expected / jnp.maximum(visits, 1), 0.0)


def _are_noisy(state: RewardMomentsState) -> Bool[Array, "N"]:
    """Indices whose draws differ by more than rounding."""
    visits = state.visits.astype(jnp.float32)
    return (state.visits > 1) & (state.squares > _ROUNDING * visits * state.mean**2)


def _noise_probability(
    state: RewardMomentsState, noisy: Bool[Array, "N"], noise: Float[Array, ""]
) -> Float[Array, "N"]:
    """The probability that an index has noise, though its draws do not show it.

    Among indices with several draws a share is noisy. For an index with a single draw, Bayes' rule gives the
    probability, with a normal distribution of the means of each of the two kinds. It is never below the share, as noise
    may be discrete, so that some draws are equal by chance.
    """
    quiet = (state.visits > 1) & ~noisy
    share = _ratio(jnp.sum(noisy), jnp.sum(noisy) + jnp.sum(quiet))

    def log_density(of_kind: Bool[Array, "N"], noise: Float[Array, ""]) -> Float[Array, "N"]:
        count = jnp.sum(of_kind)
        mean = _ratio(_sum(of_kind, state.mean), count)
        spread = _ratio(_sum(of_kind, (state.mean - mean) ** 2), count) + noise
        variance = spread + _ROUNDING * (mean**2 + spread) + jnp.finfo(jnp.float32).tiny
        return -0.5 * ((state.mean - mean) ** 2 / variance + jnp.log(variance))

    odds = jnp.log(share) - jnp.log1p(-share) + log_density(noisy, noise) - log_density(quiet, jnp.float32(0))
    # Densities of no members at all are infinitely narrow: where no index is noisy, there are no odds to compute.
    once = jnp.where((state.visits == 1) & (share > 0), jax.nn.sigmoid(odds), 0.0)
    return jnp.maximum(once, share)


def _sum(where: Bool[Array, "N"], values: Float[Array, "N"]) -> Float[Array, ""]:
    return jnp.sum(jnp.where(where, values, 0.0))


def _ratio(part: Array, whole: Array) -> Float[Array, ""]:
    """`part / whole`; 0 where both are 0."""
    return part / jnp.maximum(whole, 1)


@record
class NoiseAwareState(Replaceable, Generic[State]):
    """The state of the novelty estimator, and the moments of the rewards."""

    novelty: State
    rewards: RewardMomentsState


@dataclasses.dataclass(frozen=True)
class NoiseAware(Generic[State]):
    """A novelty estimator for the indices of a finite environment, and the moments of their rewards.

    `variance` is that of `novelty`: how new an index is. `reward_variances` add to it the variance of the mean reward,
    for all indices: the novelty counts in terms of `variance_unit`, noise has the unit of the rewards.
    """

    novelty: Novelty[State]
    rewards: RewardMoments

    def init(self, key: Key) -> NoiseAwareState[State]:
        # Moments need no key: so the novelty estimator is the same with them and without.
        return NoiseAwareState(self.novelty.init(key), self.rewards.init(key))

    def variance(self, state: NoiseAwareState[State], x: Int[Array, ""]) -> Float[Array, ""]:
        return self.novelty.variance(state.novelty, x)

    def update(
        self, state: NoiseAwareState[State], xs: Int[Array, "B"], mask: Bool[Array, "B"]
    ) -> NoiseAwareState[State]:
        return state.replace(novelty=self.novelty.update(state.novelty, xs, mask))

    def record_rewards(
        self,
        state: NoiseAwareState[State],
        xs: Int[Array, "B"],
        rewards: Float[Array, "B"],
        mask: Bool[Array, "B"],
    ) -> NoiseAwareState[State]:
        """The state once the transitions in the mask had these rewards; call it once per transition, as it happens."""
        return state.replace(rewards=self.rewards.update(state.rewards, xs, rewards, mask))

    def reward_variances(
        self, state: NoiseAwareState[State], variance_unit: Scalar = 1.0
    ) -> Float[Array, "N"]:
        indices = jnp.arange(self.rewards.size)
        new = jax.vmap(self.novelty.variance, (None, 0))(state.novelty, indices)
        return variance_unit * new + self.rewards.variances(state.rewards)
