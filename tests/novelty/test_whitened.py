"""Raw observations as inputs: whitened, as random features, and rounded to a grid."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float

from emcts.novelty import Binned, Counts, HashCounts, Moments, Normalised, RandomFeatures, Rnd, Whitened
from tests.novelty.networks import mlp

KEY = jax.random.key(0)


class Read:
    """Shows what a wrapper makes of inputs: its state is the last batch, and the variance of x its largest number."""

    def init(self, key: Any) -> Any:
        return ()

    def init_from(self, key: Any, sample: Any) -> Any:
        return sample

    def variance(self, state: Any, x: Any) -> Any:
        return jnp.max(x)

    def update(self, state: Any, xs: Any, mask: Any) -> Any:
        return xs


def test_moments_are_those_of_all_rows_in_the_mask() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(3, [1, 10, 0.1], (40, 3)).astype(np.float32)
    mask = rng.random(40) < 0.7
    moments = Moments.of(jnp.asarray(rows[:10]))
    for start in (10, 20, 30):
        part = slice(start, start + 10)
        moments = jax.jit(Moments.add)(
            moments, jnp.where(mask[part, None], rows[part], jnp.nan), jnp.asarray(mask[part])
        )
    seen = np.concatenate([rows[:10], rows[10:][mask[10:]]])
    assert moments.count == len(seen)
    np.testing.assert_allclose(moments.mean, seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments.variance, seen.var(0), rtol=1e-4)
    unchanged = moments.add(jnp.asarray(rows[:4]), jnp.zeros(4, bool))
    jax.tree.map(np.testing.assert_array_equal, unchanged, moments)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, bool])
def test_inputs_of_any_dtype_and_shape_are_whitened_and_clipped(dtype: Any) -> None:
    images = np.random.default_rng(1).integers(0, 2, (64, 3, 4, 2)).astype(dtype)
    images[:, 0, 0, 0] = 1  # a feature that never changes
    images[:, 1] = 0  # and some that are never there
    novelty: Any = Whitened(Read(), lambda key: jnp.asarray(images))
    state = novelty.init(KEY)
    white = np.asarray(state.inner)
    assert white.shape == (64, 24)
    constant = images.reshape(64, -1).std(0) == 0
    assert np.all(white[:, constant] == 0)
    np.testing.assert_allclose(white[:, ~constant].std(0), 1, rtol=1e-4)
    other = images[0].copy()
    other[1] = 1
    assert white.max() < 4
    assert novelty.variance(state, jnp.asarray(other)) == 5, "what was never there stands out"


def test_rounding_errors_are_no_feature() -> None:
    sample = 1e6 + np.random.default_rng(0).choice([-0.0625, 0.0625], (32, 1)).astype(np.float32)
    moments = Moments.of(jnp.asarray(sample))
    assert np.all(np.abs(jax.vmap(moments.whiten)(jnp.asarray(sample))) < 0.01)


def test_moments_follow_what_is_seen() -> None:
    novelty: Any = Whitened(Read(), lambda key: jax.random.normal(key, (8, 1)))
    state = novelty.init(KEY)
    xs = 100 + jax.random.normal(KEY, (400, 1))
    state = novelty.update(state, xs, jnp.ones(400, bool))
    assert abs(float(novelty.variance(state, jnp.array([100.0])))) < 0.5
    assert state.inner[0, 0] == pytest.approx(float(novelty.variance(state, xs[0]))), "as it reads them then"


def test_features_tell_apart_what_is_further_than_their_length() -> None:
    """Products of features are the kernel exp(-d^2 / (2 * length^2)), with a typical distance of 1."""
    sample = jax.random.normal(KEY, (512, 3)) * jnp.array([[2.0, 0.5, 0.0]])
    typical = np.sqrt(2 * np.var(np.asarray(sample), axis=0).sum())
    features: Any = RandomFeatures(Read(), 3, 4096, length=0.4)
    state = features.init_from(KEY, sample)

    def kernel(distance: float) -> float:
        pair = jnp.array([[0.0, 0, 0], [distance * typical, 0, 0]])
        here, there = features.update(state, pair, jnp.ones(2, bool)).inner
        return float(here @ there) / 4096

    for distance in (0.0, 0.2, 0.4, 1.0):
        assert kernel(distance) == pytest.approx(np.exp(-(distance**2) / (2 * 0.4**2)), abs=0.05)
    alone = features.init(KEY)
    np.testing.assert_allclose(
        jnp.std(alone.directions), 1 / (0.4 * np.sqrt(2 * 3)), rtol=0.05, err_msg="of whitened inputs"
    )


PLACES = 12


def one_hot_rooms(places: Any) -> Float[Array, "B F"]:
    """A place among many, and all else in view, which never changes."""
    return jax.vmap(lambda place: jnp.concatenate([jax.nn.one_hot(place, PLACES), jnp.ones(40)]))(places)


@functools.partial(jax.jit, static_argnums=0)
def trained(novelty: Any) -> tuple[Array, Array]:
    """Variances of all places, before and after the first four of them were seen again and again."""
    start = novelty.init(KEY)
    seen, mask = one_hot_rooms(jnp.arange(4)), jnp.ones(4, bool)
    state = jax.lax.fori_loop(0, 300, lambda _, state: novelty.update(state, seen, mask), start)
    both = [
        jax.vmap(novelty.variance, (None, 0))(state, one_hot_rooms(jnp.arange(PLACES)))
        for state in (start, state)
    ]
    return both[0], both[1]


def test_features_keep_the_unseen_novel() -> None:
    """A network of the observation itself learns the common part, and with it the places that it never saw."""

    def probes(key: Any) -> Float[Array, "P F"]:
        return one_hot_rooms(jax.random.randint(key, (64,), 0, 6))

    def rnd(inputs: int) -> Any:
        return Rnd(mlp(inputs, 32, 16, 0.2), mlp(inputs, 32, 16, 0.2), optax.adam(3e-3))

    raw = Normalised(rnd(PLACES + 40), probes, power=2.0, new_from=0.4)
    features = RandomFeatures(rnd(64), PLACES + 40, 64)
    ours = Normalised(Whitened(features, probes), probes, power=2.0, new_from=0.4)
    assert float(jnp.mean(trained(raw)[1][4:])) < 0.2
    before, after = (np.asarray(one) for one in trained(ours))
    assert before.min() > 0.9
    assert after[:4].max() < 0.01
    assert after[4:].min() > 0.7


def test_cells_of_a_grid() -> None:
    def probes(key: Any) -> Float[Array, "P 2"]:
        return 5 + jax.random.normal(key, (4000, 2)) * jnp.array([[1.0, 10.0]])

    novelty = Binned(HashCounts(12, epsilon=1.0), probes, bins=2.0)
    state = novelty.init(KEY)
    state = novelty.update(state, jnp.array([[5.0, 5.0]]), jnp.array([True]))

    compiled = jax.jit(novelty.variance)

    def variance(*x: float) -> float:
        return float(compiled(state, jnp.array(x)))

    assert variance(5.0, 5.0) == variance(5.1, 6.0) == 0.5
    assert variance(5.5, 5.0) == variance(5.0, 10.0) == variance(4.5, 5.0) == variance(-1e30, 1e30) == 1.0
    assert novelty.num_seen(state) == 1
    assert novelty.occupancy(state) == 2**-12


def test_settings_are_checked() -> None:
    def probes(key: Any) -> Array:
        return jnp.zeros((2, 1))

    with pytest.raises(ValueError, match="clip is 0"):
        Whitened(Counts(2), probes, clip=0.0)
    with pytest.raises(ValueError, match="num_features is even, got 3"):
        RandomFeatures(Counts(2), 1, 3)
    with pytest.raises(ValueError, match="length is 0"):
        RandomFeatures(Counts(2), 1, length=0.0)
    with pytest.raises(ValueError, match="bins is -1"):
        Binned(HashCounts(5), probes, bins=-1.0)
    whitened = Whitened(Counts(2), probes)
    state, rows = whitened.init(KEY), jnp.zeros((2, 1))
    with pytest.raises(ValueError, match="Counts cannot be fitted"):
        whitened.fit(state, rows, rows, jnp.ones(2, bool))
