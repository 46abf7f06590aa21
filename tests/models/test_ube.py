"""The horizon that a variance accumulates over, and the variance of a leaf."""

import jax.numpy as jnp
import numpy as np
import pytest

from emcts.models.ube import horizon_factor, leaf_variance


def test_a_variance_below_zero_counts_as_zero() -> None:
    """The support of a categorical UBE head reaches below 0."""
    assert float(leaf_variance(jnp.float32(-3.0), jnp.float32(0.0), jnp.float32(1.0), 5.0)) == 0.0


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("horizon", [0, 1, 7])
def test_the_horizon_factor_is_a_sum(discount: float, horizon: int) -> None:
    expected = sum(discount ** (2 * step) for step in range(horizon))
    np.testing.assert_allclose(horizon_factor(discount, horizon), expected, rtol=1e-5)


def test_the_endless_factor_is_the_limit() -> None:
    np.testing.assert_allclose(horizon_factor(0.9), horizon_factor(0.9, 500), rtol=1e-5)


@pytest.mark.parametrize(
    ("discount", "horizon", "message"),
    [
        (1.0, None, "bounds no endless sum: give the horizon, or a discount below 1"),
        (1.5, 3, "discount is 1.5: give a number from 0 to 1"),
        (-0.1, None, "discount is -0.1"),
    ],
)
def test_bad_discounts(discount: float, horizon: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        horizon_factor(discount, horizon)


def test_a_novelty_of_zero_stays_zero_without_a_discount() -> None:
    """The factor of an endless horizon is infinite then, and 0 times that is no number."""
    endless = horizon_factor(1.0, jnp.inf)
    assert float(leaf_variance(jnp.float32(0.2), jnp.float32(0.0), endless, 5.0)) == pytest.approx(0.2)
    assert float(leaf_variance(jnp.float32(0.2), jnp.float32(0.1), endless, 5.0)) == 5.0
