"""Codecs: the transform of values and its inverse, two-hot targets, and the ranges of predictions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from emcts.models.codecs import (
    SUPPORTS,
    Categorical,
    Codec,
    Continuation,
    MeanCategorical,
    Policy,
    ScalarCodec,
    Symlog,
    Tanh,
    Unit,
    logarithmic,
    squash,
    support,
    unsquash,
)
from emcts.types import Key

VALUES = np.array([-117.0, -30.5, -1.0, -0.00025, -1e-6, 0.0, 1e-6, 0.0001, 0.25, 0.99, 1.0, 8.1, 117.0])


PLAIN = Categorical(10)
SUPPORTS_OF_BOTH_KINDS = [
    support(name, deterministic=deterministic) for name in SUPPORTS for deterministic in (True, False)
]


@functools.partial(jax.jit, static_argnames="codec")
def predicted(targets: Float[Array, "N"], codec: Categorical = PLAIN) -> Float[Array, "N"]:
    """The prediction of a head that has learned each target perfectly."""
    return jax.vmap(lambda one: codec.decode(jnp.log(codec.two_hot(one))))(targets)


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
    np.testing.assert_allclose(predicted(jnp.array([500.0, 1e6, -500.0])), [ends, ends, -ends], rtol=1e-5)


@pytest.mark.parametrize("codec", SUPPORTS_OF_BOTH_KINDS)
def test_the_mean_of_two_hot_is_the_target(codec: Categorical) -> None:
    values = jnp.asarray(VALUES[1:-1], jnp.float32)
    np.testing.assert_allclose(predicted(values, codec), VALUES[1:-1], rtol=1e-5, atol=2e-7)
    hot = jax.jit(jax.vmap(codec.two_hot))(jnp.asarray(VALUES, jnp.float32))
    np.testing.assert_allclose(hot.sum(axis=1), 1, rtol=1e-6)
    assert np.all(np.sum(np.asarray(hot) > 0, axis=1) <= 2)


@pytest.mark.parametrize("codec", SUPPORTS_OF_BOTH_KINDS)
def test_small_step_costs_are_resolved(codec: Categorical) -> None:
    costs = -0.01 / np.array([10, 40, 100])
    np.testing.assert_allclose(predicted(jnp.asarray(costs, jnp.float32), codec), costs, rtol=2e-3)


@pytest.mark.parametrize("codec", [*SUPPORTS_OF_BOTH_KINDS, Categorical(1), MeanCategorical(30)])
def test_an_untrained_head_predicts_exactly_zero(codec: Categorical) -> None:
    assert float(jax.jit(codec.decode)(jnp.zeros(codec.size))) == 0.0


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_wide_support_represents_returns_of_any_range(deterministic: bool) -> None:
    codec = support("wide", deterministic=deterministic)
    values = np.array([-1e6, -200.0, -2.0, -0.01, 0.0, 0.01, 0.5, 10.0, 500.0, 123_456.0, 1e6], np.float32)
    np.testing.assert_allclose(predicted(jnp.asarray(values), codec), values, rtol=1e-4, atol=1e-7)
    clipped = predicted(jnp.array([3e6, -3e6]), codec)
    np.testing.assert_allclose(clipped, [1e6, -1e6], rtol=1e-4)


@pytest.mark.parametrize(
    ("codec", "inside", "outside"),
    [
        (PLAIN, [-117.0, 0.0, 117.0], [-118.0, 118.0]),
        (support("wide", deterministic=True), [-9.9e5, 9.9e5], [-1.1e6, 1.1e6]),
        (support("wide", deterministic=False), [-9.9e5, 9.9e5], [-1.1e6, 1.1e6]),
        (Tanh(), [-1.0, 1.0], [-1.1, 1.1]),
        (Unit(), [0.0, 1.0], [-0.1, 1.1]),
    ],
)
def test_codecs_tell_what_they_can_represent(
    codec: ScalarCodec, inside: list[float], outside: list[float]
) -> None:
    assert codec.represents(jnp.array(inside)).all()
    assert not codec.represents(jnp.array(outside)).any()


def test_a_support_in_another_unit_is_the_same_support_scaled() -> None:
    values = jnp.array([-0.3, 0.0, 0.01, 7.0, 5e3])
    one, scaled = logarithmic(1e6, 127), logarithmic(1024e6, 127, unit=1024.0)
    np.testing.assert_array_equal(predicted(1024 * values, scaled), 1024 * predicted(values, one))


def test_an_unknown_support_is_named() -> None:
    with pytest.raises(ValueError, match="unknown model.support 'width'"):
        support("width", deterministic=True)
    with pytest.raises(ValueError, match="positive"):
        Symlog(0.0)


@pytest.mark.parametrize(("deterministic", "expected"), [(False, 1.0), (True, 0.896)])
def test_a_head_trained_on_noisy_targets_predicts_their_mean(deterministic: bool, expected: float) -> None:
    """Cross-entropy is least at the mean of the targets' distributions."""
    codec = support("paper", deterministic=deterministic)

    @jax.jit
    def prediction(key: Key) -> Float[Array, ""]:
        targets = 1 + jax.random.normal(key, (100_000,))
        return codec.decode(jnp.log(jax.vmap(codec.two_hot)(targets).mean(axis=0) + 1e-12))

    assert float(prediction(jax.random.key(0))) == pytest.approx(expected, abs=0.01)


def test_the_loss_is_least_at_the_target() -> None:
    codec = Categorical(10)
    gradient = jax.jit(jax.grad(codec.loss))
    right = jnp.log(codec.two_hot(jnp.float32(0.99)) + 1e-9)
    np.testing.assert_allclose(gradient(right, jnp.float32(0.99)), 0, atol=1e-6)
    assert np.abs(gradient(right, jnp.float32(0.5))).max() > 0.05


@pytest.mark.parametrize(("codec", "low"), [(Tanh(), -1.0), (Unit(), 0.0)])
def test_bounded_codecs_keep_to_their_range(codec: Codec, low: float) -> None:
    raw = jnp.array([[-100.0], [-1.0], [0.0], [1.0], [100.0]])
    out = np.asarray(jax.vmap(codec.decode)(raw))
    assert np.all(np.diff(out) > 0)
    np.testing.assert_allclose(out[[0, 2, 4]], [low, (low + 1) / 2, 1])
    np.testing.assert_allclose(jax.vmap(codec.loss)(raw, jnp.full(5, 0.25)), (out - 0.25) ** 2, rtol=1e-6)


def test_the_policy_loss_is_a_divergence() -> None:
    target = np.array([0.7, 0.3, 0.0])
    loss = jax.jit(Policy(3).loss)
    np.testing.assert_allclose(loss(jnp.log(jnp.array([0.7, 0.3, 1e-12])), jnp.array(target)), 0, atol=1e-6)
    expected = np.sum(target[:2] * np.log(target[:2] * 3))
    np.testing.assert_allclose(loss(jnp.full(3, 5.0), jnp.array(target)), expected, rtol=1e-5)


def test_a_support_of_one_value_is_refused() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1"):
        Categorical(0)


def test_continuation_starts_near_one_and_its_loss_is_a_log_probability() -> None:
    codec = Continuation()
    assert codec.decode(jnp.zeros(1)) > 0.95
    for raw in (-4.0, -3.0, 1.0):
        probability = 1 / (1 + np.exp(-raw - codec.START))
        outputs = jnp.array([raw])
        np.testing.assert_allclose(codec.decode(outputs), probability, rtol=1e-5)
        np.testing.assert_allclose(codec.loss(outputs, jnp.float32(1)), -np.log(probability), rtol=1e-4)
        np.testing.assert_allclose(codec.loss(outputs, jnp.float32(0)), -np.log(1 - probability), rtol=1e-4)
