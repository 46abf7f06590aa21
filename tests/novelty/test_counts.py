import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.novelty import Counts

KEY = jax.random.key(0)


@jax.jit
def after(xs, mask):
    counts = Counts(5, epsilon=0.5, scale=2.0)
    state = counts.update(counts.init(KEY), xs, mask)
    variances = jax.vmap(counts.variance, (None, 0))(state, jnp.arange(-2, 8))
    return state.visits, counts.num_seen(state), variances


def test_by_hand():
    visits, num_seen, variances = after(
        jnp.array([3, 0, 3, 3, 4]), jnp.array([True, True, True, False, False])
    )
    np.testing.assert_array_equal(visits, [1, 0, 0, 2, 0])
    assert num_seen == 2
    expected = [0, 0, 2 / 1.5, 4, 4, 2 / 2.5, 4, 0, 0, 0]
    np.testing.assert_allclose(variances, expected, rtol=1e-6)


def test_ends_are_not_counted():
    visits, num_seen, _ = after(jnp.array([-1, 5, -5, 2**31 - 1, -(2**31)]), jnp.ones(5, bool))
    assert num_seen == 0
    assert not visits.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "at least 1, got 0"),
        ({"size": 3, "epsilon": 0.0}, "positive number, got 0.0"),
        ({"size": 3, "scale": -1.0}, "at least 0, got -1.0"),
        ({"size": 3, "scale": float("nan")}, "finite number of at least 0, got nan"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        Counts(**settings)
