"""Rewards with noise: how uncertain the mean of a few draws still is.

A novelty estimator says whether a transition was tried. Where rewards are random, one try says little: the mean of n
draws with noise variance s2 has an epistemic variance of s2 / n. The noise is not known either. It is learned from
transitions that were tried more than once, and expected of those that were tried once and paid something unlike what
transitions without noise pay.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, PyTree

from emcts.novelty.base import Novelty
from emcts.types import Key, Replaceable, record

_MOST_VISITS = 2**30  # later ones are not counted, so that the number does not wrap
_ROUNDING = 1e-6  # relative: draws that differ by less are one number


@record
class RewardMomentsState(Replaceable):
    """Of the rewards of each index: how many, their mean, and the sum of their squared distances from it."""

    visits: Int32[Array, "N"]
    mean: Float[Array, "N"]
    squares: Float[Array, "N"]


@dataclasses.dataclass(frozen=True)
class RewardMoments:
    """The epistemic variance of the mean reward of each index 0 to `size - 1`; any other index is not recorded.

    Of an index whose draws differ, the noise is estimated from them and, with the weight of `prior_draws` draws, from
    all such indices. An index whose draws are all alike is noisy with a probability (`_chance_of_noise`). Where no
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
        """The state once the rows in the mask were paid; an index may occur more than once."""
        seen = mask & (xs >= 0) & (xs < self.size)
        at = jnp.where(seen, xs, self.size)
        # Distances are from the mean so far, or from one of the draws if these are the first: alike ones are 0 apart.
        some = jnp.zeros(self.size).at[at].set(rewards, mode="drop")
        centre = jnp.where(state.visits > 0, state.mean, some)
        apart = jnp.where(seen, rewards - centre.at[xs].get(mode="clip"), 0.0)

        def total(of_rows: Array) -> Array:
            return jnp.zeros(self.size, of_rows.dtype).at[at].add(of_rows, mode="drop")

        visits = jnp.minimum(state.visits + total(seen.astype(jnp.int32)), _MOST_VISITS)
        moved, squares = total(apart), total(apart**2)
        count = jnp.maximum(visits, 1).astype(jnp.float32)
        return RewardMomentsState(
            visits=visits,
            mean=centre + moved / count,
            squares=jnp.maximum(state.squares + squares - moved**2 / count, 0.0),
        )

    def variances(self, state: RewardMomentsState) -> Float[Array, "N"]:
        """The variance of the mean of each index; 0 of one that was never seen, of which nothing is known here."""
        visits = state.visits.astype(jnp.float32)
        noisy = _are_noisy(state)
        more = jnp.maximum(visits - 1, 0)
        noise = _ratio(_sum(noisy, state.squares), _sum(noisy, more))
        own = (self.prior_draws * noise + state.squares) / (self.prior_draws + more)
        expected = jnp.where(noisy, own, _chance_of_noise(state, noisy, noise) * noise)
        return jnp.where(visits > 0, expected / jnp.maximum(visits, 1), 0.0)


def _are_noisy(state: RewardMomentsState) -> Bool[Array, "N"]:
    """Indices whose draws differ by more than rounding."""
    visits = state.visits.astype(jnp.float32)
    return (state.visits > 1) & (state.squares > _ROUNDING * visits * state.mean**2)


def _chance_of_noise(
    state: RewardMomentsState, noisy: Bool[Array, "N"], noise: Float[Array, ""]
) -> Float[Array, "N"]:
    """The probability that an index has noise, though its draws do not show it.

    Among indices with several draws a share is noisy. A single draw says more: the two kinds pay differently, each like
    a normal distribution, and Bayes' rule says which of them it is like. It is never less likely than the share, as
    noise may be discrete, and hide in draws that are alike.
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
    once = jnp.where(state.visits == 1, jax.nn.sigmoid(odds), 0.0)
    return jnp.maximum(once, share)


def _sum(where: Bool[Array, "N"], values: Float[Array, "N"]) -> Float[Array, ""]:
    return jnp.sum(jnp.where(where, values, 0.0))


def _ratio(part: Array, whole: Array) -> Float[Array, ""]:
    """0 of nothing."""
    return part / jnp.maximum(whole, 1)


@record
class NoiseAwareState(Replaceable):
    """What was seen, and what it paid."""

    seen: PyTree
    paid: RewardMomentsState


@dataclasses.dataclass(frozen=True)
class NoiseAware:
    """A novelty estimator of the indices of a finite world, beside the moments of their rewards.

    `variance` is that of `novelty`: how new an index is. `reward_variances` are of all indices, what is uncertain about
    their mean rewards.
    """

    novelty: Novelty
    rewards: RewardMoments

    def init(self, key: Key) -> NoiseAwareState:
        # Moments are not drawn: so the novelty estimator is the same with them and without.
        return NoiseAwareState(self.novelty.init(key), self.rewards.init(key))

    def variance(self, state: NoiseAwareState, x: Int[Array, ""]) -> Float[Array, ""]:
        return self.novelty.variance(state.seen, x)

    def update(self, state: NoiseAwareState, xs: Int[Array, "B"], mask: Bool[Array, "B"]) -> NoiseAwareState:
        return state.replace(seen=self.novelty.update(state.seen, xs, mask))

    def record_rewards(
        self, state: NoiseAwareState, xs: Int[Array, "B"], rewards: Float[Array, "B"], mask: Bool[Array, "B"]
    ) -> NoiseAwareState:
        """Once for each transition that was made, whenever `novelty` learns of it."""
        return state.replace(paid=self.rewards.update(state.paid, xs, rewards, mask))

    def reward_variances(self, state: NoiseAwareState) -> Float[Array, "N"]:
        indices = jnp.arange(self.rewards.size)
        new = jax.vmap(self.novelty.variance, (None, 0))(state.seen, indices)
        return new + self.rewards.variances(state.paid)
