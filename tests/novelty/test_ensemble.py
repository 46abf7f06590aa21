import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from emcts.novelty import Ensemble
from tests.novelty.networks import Row, mlp

KEY = jax.random.key(0)


def rows(key):
    """Two vectors of three numbers, looked up by index."""
    return Row(jax.random.normal(key, (2, 3)))


def test_the_variance_is_that_of_the_members():
    ensemble = Ensemble(rows, optax.sgd(0.1), 6, scale=3.0, prior_scale=2.0)
    state = jax.jit(ensemble.init)(KEY)
    predicted = np.asarray(state.members.table + 2 * state.priors.table)[:, 1]
    np.testing.assert_allclose(ensemble.predictions(state, jnp.int32(1)), predicted, rtol=1e-6)
    np.testing.assert_allclose(ensemble.variance(state, jnp.int32(1)), 3 * predicted.var(0).sum(), rtol=1e-5)


def test_members_and_priors_all_differ():
    ensemble = Ensemble(rows, optax.sgd(0.1), 6)
    state = jax.jit(ensemble.init)(KEY)
    both = np.concatenate([state.members.table, state.priors.table]).reshape(12, -1)
    assert len(np.unique(both, axis=0)) == 12


def test_each_member_takes_its_own_step_on_its_own_rows():
    """Over one row, a member either steps as by hand, m -= 2 * rate * (m + prior - target), or not at all."""
    ensemble = Ensemble(rows, optax.sgd(0.1), 64, prior_scale=0.5)
    state = jax.jit(ensemble.init)(KEY)
    target = jnp.array([[1.0, 2.0, 3.0]])
    new = jax.jit(ensemble.fit)(state, jnp.array([1]), target, jnp.array([True]))
    old, prior = np.asarray(state.members.table), np.asarray(state.priors.table)
    stepped = old[:, 1] - 0.2 * (old[:, 1] + 0.5 * prior[:, 1] - np.asarray(target[0]))
    saw = np.any(np.asarray(new.members.table) != old, axis=(1, 2))
    assert 16 < saw.sum() < 48
    np.testing.assert_allclose(new.members.table[saw, 1], stepped[saw], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(new.members.table[:, 0], old[:, 0])
    np.testing.assert_array_equal(new.priors.table, prior)
    assert int(new.num_updates) == 1


def test_an_update_fits_zeros():
    ensemble = Ensemble(rows, optax.sgd(0.5), 8)
    new = jax.jit(lambda key: ensemble.update(ensemble.init(key), jnp.zeros(20, int), jnp.ones(20, bool)))(
        KEY
    )
    np.testing.assert_allclose(ensemble.predictions(new, jnp.int32(0)), np.zeros((8, 3)), atol=1e-6)


def test_the_bootstrap_is_drawn_anew():
    ensemble = Ensemble(rows, optax.sgd(0.1), 32)

    @jax.jit
    def run(key):
        def step(state, _):
            new = ensemble.update(state, jnp.array([0]), jnp.array([True]))
            return new, jnp.any(new.members.table != state.members.table, axis=(1, 2))

        return jax.lax.scan(step, ensemble.init(key), length=40)[1]

    saw = np.asarray(run(KEY))
    assert len(np.unique(saw, axis=0)) == 40
    np.testing.assert_allclose(saw.mean(), 0.5, atol=0.06)
    assert (saw.sum(0) > 5).all()
    assert not np.array_equal(saw, run(jax.random.key(1)))


def test_members_learn_targets_where_there_are_data():
    """After a fit of sin on [-1, 1], they agree there and disagree far away."""
    ensemble = Ensemble(mlp(1, 32, 1), optax.adam(0.02), 5, prior_scale=3.0)
    xs = jnp.linspace(-1, 1, 32)[:, None]

    @jax.jit
    def run():
        def step(state, _):
            return ensemble.fit(state, xs, jnp.sin(xs), jnp.ones(32, bool)), None

        start = ensemble.init(KEY)
        state, _ = jax.lax.scan(step, start, length=400)
        inside = jax.vmap(ensemble.predictions, (None, 0))(state, xs)
        far = jnp.array([4.0])
        return inside, jax.vmap(ensemble.variance, (None, 0))(state, xs), ensemble.variance(state, far)

    predictions, inside, outside = run()
    np.testing.assert_allclose(predictions.mean(1), jnp.sin(xs), atol=0.1)
    assert outside > 20 * inside.max()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 1}, "at least 2"),
        ({"size": 3, "prior_scale": -1.0}, "prior_scale.*got -1.0"),
        ({"size": 3, "scale": -1.0}, "scale.*got -1.0"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        Ensemble(rows, optax.sgd(0.1), **settings)
