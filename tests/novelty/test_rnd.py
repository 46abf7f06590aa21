from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from emcts.models.layers import mlp as layers
from emcts.novelty import Counts, Normalised, Rnd
from tests.novelty.networks import Row, mlp

KEY = jax.random.key(0)


def tables(predictor, target, optimiser, scale=1.0):
    return Rnd(
        lambda key: Row(jnp.array(predictor, float)),
        lambda key: Row(jnp.array(target, float)),
        optimiser,
        scale,
    )


def test_by_hand():
    """Gradient descent on the mean over two rows, of which one is masked: p -= 2 * rate * (p - t)."""
    rnd = tables([[0, 0], [5, 5]], [[1, -2], [5, 4]], optax.sgd(0.1), scale=3.0)

    @jax.jit
    def run():
        state = rnd.init(KEY)
        new = rnd.update(state, jnp.array([0, 0, 1]), jnp.array([True, True, False]))
        before, after = (jax.vmap(rnd.variance, (None, 0))(s, jnp.arange(2)) for s in (state, new))
        return before, after, new

    before, after, new = run()
    np.testing.assert_allclose(before, [3 * 5, 3 * 1], rtol=1e-6)
    np.testing.assert_allclose(new.predictor.table, [[0.2, -0.4], [5.0, 5.0]], rtol=1e-6)
    np.testing.assert_allclose(after, [3 * (0.64 + 2.56), 3], rtol=1e-6)
    np.testing.assert_array_equal(new.target.table, [[1, -2], [5, 4]])


def test_the_mean_is_over_the_rows_seen():
    rnd = tables([[0.0], [0.0]], [[1.0], [1.0]], optax.sgd(0.5))
    new = jax.jit(lambda *seen: rnd.update(rnd.init(KEY), *seen))(
        jnp.array([0, 0, 1, 1]), jnp.array([True, False, True, False])
    )
    np.testing.assert_allclose(new.predictor.table, [[0.5], [0.5]], rtol=1e-6)


def test_normalised_starts_at_scale():
    """However large the networks' outputs are."""
    probes = lambda key: jax.random.normal(key, (256, 6))  # noqa: E731
    large = Rnd(mlp(6, 8, 4, scale=5.0), mlp(6, 4, 4), optax.sgd(0.1), scale=7.0)

    @jax.jit
    def unseen(key):
        init_key, test_key = jax.random.split(key)
        novelty = Normalised(large, probes, scale=2.0)
        state, xs = novelty.init(init_key), probes(test_key)
        return (
            jax.vmap(novelty.variance, (None, 0))(state, xs).mean(),
            jax.vmap(large.variance, (None, 0))(state.inner, xs).mean(),
        )

    normalised, raw = jax.vmap(unseen)(jax.random.split(KEY, 3))
    np.testing.assert_allclose(normalised, 2, rtol=0.2)
    assert (raw > 100).all()


def test_normalised_falls_with_what_it_wraps():
    novelty = Normalised(Counts(4, epsilon=0.5), lambda key: jnp.arange(4), scale=3.0)

    @jax.jit
    def run():
        state = novelty.init(KEY)
        new = novelty.update(state, jnp.array([1, 1]), jnp.array([True, False]))
        return jnp.stack([jax.vmap(novelty.variance, (None, 0))(s, jnp.arange(4)) for s in (state, new)])

    np.testing.assert_allclose(run(), [[3.0, 3, 3, 3], [3.0, 1, 3, 3]], rtol=1e-6)


def test_normalising_what_is_never_uncertain():
    novelty = Normalised(Counts(4), lambda key: jnp.array([-1, 4]))
    assert jax.jit(lambda x: novelty.variance(novelty.init(KEY), x))(jnp.int32(4)) == 0


class Shuffled(eqx.Module):
    """Beside its parameters it has an array of integers, drawn from the key, and a function."""

    order: jax.Array
    body: eqx.nn.MLP

    def __call__(self, x):
        return self.body(x[self.order])


def shuffled(key):
    return Shuffled(jax.random.permutation(key, 3), eqx.nn.MLP(3, 4, 8, 1, jax.nn.tanh, key=key))


def test_a_network_may_hold_functions_and_integers():
    """An `eqx.nn.MLP` keeps its activations as leaves: the state has none, and is called as the network is."""
    rnd = Rnd(shuffled, shuffled, optax.adam(1e-2))
    keys, x = jax.random.split(KEY), jnp.array([1.0, 2.0, 3.0])
    state = jax.jit(rnd.init)(KEY)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    by_hand = jnp.sum(jnp.square(shuffled(keys[0])(x) - shuffled(keys[1])(x)))
    np.testing.assert_allclose(rnd.variance(state, x), by_hand, rtol=1e-5)
    new = jax.jit(rnd.update)(state, x[None], jnp.array([True]))
    np.testing.assert_array_equal(new.predictor.order, state.predictor.order)
    assert rnd.variance(new, x) < rnd.variance(state, x)


def test_networks_have_as_many_outputs():
    rnd = Rnd(mlp(3, 8, 1), mlp(3, 8, 4), optax.sgd(0.1))
    with pytest.raises(ValueError, match=r"\(1,\).*\(4,\)"):
        jax.eval_shape(lambda: rnd.variance(rnd.init(KEY), jnp.ones(3)))


def test_scales_are_checked():
    with pytest.raises(ValueError, match="at least 0, got -2.0"):
        Rnd(mlp(3, 8, 4), mlp(3, 8, 4), optax.sgd(0.1), scale=-2.0)
    with pytest.raises(ValueError, match="at least 0, got -1.0"):
        Normalised(Counts(4), lambda key: jnp.arange(4), scale=-1.0)


def test_what_is_new_is_new_alike_and_the_half_learned_counts_for_little() -> None:
    class Fixed:
        """The variance of x is x."""

        def init(self, key: Any) -> Any:
            return ()

        def variance(self, state: Any, x: Any) -> Any:
            return x

        def update(self, state: Any, xs: Any, mask: Any) -> Any:
            return state

    novelty = Normalised(Fixed(), lambda key: jnp.array([1.0, 3.0]), scale=5.0, power=2.0, new_from=0.5)
    state = novelty.init(jax.random.key(0))
    shares = [float(novelty.variance(state, jnp.float32(2 * share))) for share in (2.0, 0.5, 0.25, 0.0)]
    assert shares == pytest.approx([5.0, 5.0, 5.0 / 4, 0.0])
    with pytest.raises(ValueError, match="new_from"):
        Normalised(Fixed(), lambda key: jnp.zeros(1), new_from=0.0)
    with pytest.raises(ValueError, match="power"):
        Normalised(Fixed(), lambda key: jnp.zeros(1), power=0.0)


def test_equal_indices_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same result as one row for each, for several seeds and steps; a masked row may be anything."""
    rnd = Rnd(
        lambda key: layers(16, (32, 8), key=key, indexed=True),
        lambda key: layers(16, (8, 8), key=key, indexed=True),
        optax.adam(1e-2),
    )
    seeds, steps = 3, 4
    xs = jax.random.randint(KEY, (steps, seeds, 40), 0, 16).at[:, 1].set(5).at[2, 2, :3].set(1000)
    mask = jax.random.bernoulli(KEY, 0.7, xs.shape) & (xs < 16)
    mask = mask.at[3, 0].set(False)

    def train() -> Any:
        def run(key: Any, xs: Any, mask: Any) -> Any:
            step = lambda state, seen: (rnd.update(state, *seen), None)  # noqa: E731
            return jax.lax.scan(step, rnd.init(key), (xs, mask))[0]

        return jax.jit(jax.vmap(run, in_axes=(0, 1, 1)))(jax.random.split(KEY, seeds), xs, mask)

    merged = train()
    monkeypatch.setattr("emcts.novelty.rnd.saves_work", lambda: False)
    each = train()
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-6), merged, each
    )
    start = jax.vmap(rnd.init)(jax.random.split(KEY, seeds))
    assert float(jnp.abs(merged.predictor.layers[0].weight - start.predictor.layers[0].weight).max()) > 0.01
