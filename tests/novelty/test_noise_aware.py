"""The uncertainty of mean rewards: against plain numpy, and against the errors that means of draws really have."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.novelty import Counts, NoiseAware, RewardMoments

KEY = jax.random.key(0)


def recorded(size: int, xs: Any, rewards: Any, batch: int = 1) -> Any:
    """The state after all rows, `batch` at a time."""
    moments = RewardMoments(size)
    rows = jnp.asarray(xs, jnp.int32).reshape(-1, batch), jnp.asarray(rewards, jnp.float32).reshape(-1, batch)

    def update(state: Any, row: Any) -> Any:
        xs, rewards = row
        return moments.update(state, xs, rewards, jnp.ones(batch, bool)), None

    return jax.jit(lambda: jax.lax.scan(update, moments.init(KEY), rows)[0])()


def variances(size: int, state: Any) -> np.ndarray:
    return np.asarray(jax.jit(RewardMoments(size).variances)(state), np.float64)


@pytest.mark.parametrize("batch", [1, 8])
def test_moments_are_those_of_numpy(batch: int) -> None:
    rng = np.random.default_rng(0)
    xs, rewards = rng.integers(0, 5, 400), 3 + rng.normal(size=400)
    state = recorded(5, xs, rewards, batch)
    for x in range(5):
        mine = rewards[xs == x]
        assert state.visits[x] == len(mine)
        np.testing.assert_allclose(state.mean[x], mine.mean(), rtol=1e-4)
        np.testing.assert_allclose(state.squares[x], mine.var() * len(mine), rtol=1e-3)


def test_rows_outside_the_mask_or_the_table_do_not_count() -> None:
    moments = RewardMoments(3)
    xs, mask = jnp.array([0, 1, 3, -1]), jnp.array([True, False, True, True])
    state = jax.jit(moments.update)(moments.init(KEY), xs, jnp.array([2.0, 5.0, 7.0, 9.0]), mask)
    np.testing.assert_array_equal(state.visits, [1, 0, 0])
    np.testing.assert_array_equal(state.mean, [2, 0, 0])


@pytest.mark.parametrize("batch", [1, 6, 120])
def test_without_noise_nothing_is_uncertain(batch: int) -> None:
    """Not even in the last digit: a deterministic world is searched as if nobody kept moments."""
    xs = np.repeat(np.arange(4), 30)
    rewards = np.repeat([0.1, -0.0002, 1 / 3, 7.7], 30)
    assert not variances(5, recorded(5, xs, rewards, batch)).any()


def test_large_rewards_without_noise_are_not_uncertain_either() -> None:
    """Seen once each: how likely noise is must not be computed from the densities of no indices."""
    assert not variances(4, recorded(4, [0, 1], [-128.0, 5e4])).any()


def noisy_world(visits: int, seed: int, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is said of indices that pay N(mean, 1), seen so often, and how far off their means are.

    Beside them there are many without noise, and two that pay N(0, 1) and are well known.
    """
    rng = np.random.default_rng(seed)
    quiet, known, often = 200, 2, 400
    xs = [np.repeat(np.arange(quiet), 3), np.repeat(quiet + np.arange(known), often)]
    rewards = [np.repeat(np.where(np.arange(quiet) % 2, 0.0, -0.0002), 3), rng.normal(size=known * often)]
    first = quiet + known
    draws = means[:, None] + rng.normal(size=(len(means), visits))
    xs.append(np.repeat(first + np.arange(len(means)), visits))
    rewards.append(draws.reshape(-1))
    size = first + len(means)
    state = recorded(size, np.concatenate(xs), np.concatenate(rewards))
    return variances(size, state)[first:], (draws.mean(axis=1) - means) ** 2


@pytest.mark.parametrize("visits", [1, 2, 3, 8, 32])
def test_variance_of_a_mean_falls_like_noise_over_visits(visits: int) -> None:
    said, errors = noisy_world(visits, visits, np.tile([0.0, 1.0], 150))
    assert np.mean(said) == pytest.approx(1 / visits, rel=0.25)
    assert np.mean(said) == pytest.approx(np.mean(errors), rel=0.35)
    assert said.min() > 0.3 / visits, "some index counts as known though it is not"


def test_one_bad_draw_in_a_noisy_world_is_not_knowledge() -> None:
    """What paid little once is uncertain by the noise of others, and what paid the usual is as good as known."""
    quiet = np.repeat(np.arange(100), 3)
    noise = np.random.default_rng(1).normal(size=60)
    xs = np.concatenate([quiet, np.repeat([100, 101], 30), [102, 103, 104]])
    rewards = np.concatenate([np.where(quiet % 2, 0.0, -0.0002), noise, [-0.1, -1.5, 0.0]])
    said = variances(106, recorded(106, xs, rewards))
    assert said[102] == pytest.approx(np.var(noise), rel=0.2)
    assert said[103] == pytest.approx(np.var(noise), rel=0.2)
    assert said[104] < 0.05
    assert said[105] == 0, "of what was never tried nothing is said here"


def test_noise_may_hide_in_draws_that_are_alike() -> None:
    """Where half of the indices pay 1 once in a while, one that paid 0 so far may do so, too."""
    rng = np.random.default_rng(2)
    xs = np.repeat(np.arange(20), 40)
    rewards = np.where((xs < 10) & (rng.random(len(xs)) < 0.3), 1.0, 0.0)
    said = variances(21, recorded(21, np.append(xs, [20] * 4), np.append(rewards, [0.0] * 4)))
    assert said[20] == pytest.approx(0.5 * 0.21 / 4, rel=0.25)


def test_beside_a_novelty_estimator() -> None:
    novelty = NoiseAware(Counts(4, epsilon=0.5), RewardMoments(4))
    state = novelty.init(KEY)
    everyone = jnp.ones(6, bool)
    xs, rewards = jnp.array([0, 0, 0, 0, 1, 1]), jnp.array([1.0, -1.0, 1.0, -1.0, 0.0, 0.0])
    paid = novelty.record_rewards(state, xs, rewards, everyone)
    np.testing.assert_allclose(jax.vmap(novelty.variance, (None, 0))(paid, jnp.arange(4)), 2.0)
    both = novelty.update(paid, xs, everyone)
    counted = [1 / 4.5, 1 / 2.5, 2, 2]
    np.testing.assert_allclose(jax.vmap(novelty.variance, (None, 0))(both, jnp.arange(4)), counted, rtol=1e-6)
    noise = np.asarray(novelty.reward_variances(both)) - counted
    np.testing.assert_allclose(noise, [4 / 3 / 4, 0.5 * 4 / 3 / 2, 0, 0], rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RewardMoments(0), "give at least 1, got 0"),
        (lambda: RewardMoments(3, prior_draws=0.0), "give a positive number, got 0.0"),
    ],
)
def test_bad_values(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
