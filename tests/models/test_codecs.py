"""What the outputs of a head mean: the transform and its inverse, two-hot targets, and ranges."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.models.codecs import (
    Categorical,
    Chance,
    MeanCategorical,
    Policy,
    Tanh,
    Unit,
    squash,
    support,
    unsquash,
)

VALUES = np.array([-117.0, -30.5, -1.0, -0.00025, -1e-6, 0.0, 1e-6, 0.0001, 0.25, 0.99, 1.0, 8.1, 117.0])


PLAIN = Categorical(10)


@functools.partial(jax.jit, static_argnames="codec")
def said(target, codec=PLAIN):
    """What a head says that has learned a target perfectly."""
    return jax.vmap(lambda one: codec.decode(jnp.log(codec.two_hot(one))))(target)


def test_squash_is_the_formula() -> None:
    exact = np.sign(VALUES) * (np.sqrt(np.abs(VALUES) + 1) - 1) + 0.001 * VALUES
    np.testing.assert_allclose(jax.jit(squash)(jnp.asarray(VALUES, jnp.float32)), exact, rtol=1e-6)


def test_unsquash_is_its_inverse() -> None:
    both = jax.jit(lambda x: (unsquash(squash(x)), squash(unsquash(x))))(jnp.asarray(VALUES, jnp.float32))
    for back in both:
        np.testing.assert_allclose(back, VALUES, rtol=1e-5)


def test_the_support_ends_at_117() -> None:
    # From s = sqrt(x + 1) and 0.001 s^2 + s = 11.001.
    ends = ((np.sqrt(1 + 4 * 0.001 * 11.001) - 1) / 0.002) ** 2 - 1
    assert ends == pytest.approx(117, abs=1)
    np.testing.assert_allclose(said(jnp.array([500.0, 1e6, -500.0])), [ends, ends, -ends], rtol=1e-5)


@pytest.mark.parametrize("codec", [Categorical(10), MeanCategorical(10)])
def test_the_mean_of_two_hot_is_the_target(codec: Categorical) -> None:
    values = jnp.asarray(VALUES[1:-1], jnp.float32)
    np.testing.assert_allclose(said(values, codec), VALUES[1:-1], rtol=1e-5, atol=2e-7)
    hot = jax.jit(jax.vmap(codec.two_hot))(jnp.asarray(VALUES, jnp.float32))
    np.testing.assert_allclose(hot.sum(axis=1), 1, rtol=1e-6)
    assert np.all(np.sum(np.asarray(hot) > 0, axis=1) <= 2)


@pytest.mark.parametrize("size", [10, 40, 100])
@pytest.mark.parametrize("codec", [Categorical(10), MeanCategorical(10)])
def test_the_cost_of_a_move_survives(codec: Categorical, size: int) -> None:
    np.testing.assert_allclose(said(jnp.array([-0.01 / size]), codec), -0.01 / size, rtol=2e-3)


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_untrained_head_says_exactly_nothing(deterministic: bool) -> None:
    for limit in [1, 10, 30]:
        codec = support(limit, deterministic=deterministic)
        assert float(jax.jit(codec.decode)(jnp.zeros(2 * limit + 1))) == 0.0


@pytest.mark.parametrize(("deterministic", "wanted"), [(False, 1.0), (True, 0.896)])
def test_a_head_that_learns_noisy_targets_says_their_mean(deterministic: bool, wanted: float) -> None:
    """Cross-entropy is least at the mean of the targets' distributions."""
    codec = support(10, deterministic=deterministic)
    draws = 1 + jax.random.normal(jax.random.key(0), (100_000,))
    learned = jnp.log(jax.vmap(codec.two_hot)(draws).mean(axis=0) + 1e-12)
    assert float(codec.decode(learned)) == pytest.approx(wanted, abs=0.01)


def test_the_loss_is_least_where_the_target_is_said() -> None:
    codec = Categorical(10)
    gradient = jax.jit(jax.grad(codec.loss))
    right = jnp.log(codec.two_hot(jnp.float32(0.99)) + 1e-9)
    np.testing.assert_allclose(gradient(right, jnp.float32(0.99)), 0, atol=1e-6)
    assert np.abs(gradient(right, jnp.float32(0.5))).max() > 0.05


@pytest.mark.parametrize(("codec", "low"), [(Tanh(), -1.0), (Unit(), 0.0)])
def test_bounded_codecs_keep_to_their_range(codec, low: float) -> None:
    raw = jnp.array([[-100.0], [-1.0], [0.0], [1.0], [100.0]])
    out = np.asarray(jax.vmap(codec.decode)(raw))
    assert np.all(np.diff(out) > 0)
    np.testing.assert_allclose(out[[0, 2, 4]], [low, (low + 1) / 2, 1])
    np.testing.assert_allclose(jax.vmap(codec.loss)(raw, jnp.full(5, 0.25)), (out - 0.25) ** 2, rtol=1e-6)


def test_the_policy_loss_is_a_divergence() -> None:
    target = np.array([0.7, 0.3, 0.0])
    loss = jax.jit(Policy(3).loss)
    np.testing.assert_allclose(loss(jnp.log(jnp.array([0.7, 0.3, 1e-12])), jnp.array(target)), 0, atol=1e-6)
    wanted = np.sum(target[:2] * np.log(target[:2] * 3))
    np.testing.assert_allclose(loss(jnp.full(3, 5.0), jnp.array(target)), wanted, rtol=1e-5)


def test_a_support_needs_room() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1"):
        Categorical(0)


def test_a_chance_starts_near_one_and_is_judged_by_its_logarithm() -> None:
    codec = Chance()
    assert codec.decode(jnp.zeros(1)) > 0.95
    for raw in (-4.0, -3.0, 1.0):
        chance = 1 / (1 + np.exp(-raw - codec.START))
        np.testing.assert_allclose(codec.decode(jnp.array([raw])), chance, rtol=1e-5)
        np.testing.assert_allclose(codec.loss(jnp.array([raw]), jnp.float32(1)), -np.log(chance), rtol=1e-4)
        np.testing.assert_allclose(
            codec.loss(jnp.array([raw]), jnp.float32(0)), -np.log(1 - chance), rtol=1e-4
        )
