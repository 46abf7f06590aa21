"""Statistics inside networks: what they follow, and what leaves them as they are."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float

from emcts.models.codecs import Categorical
from emcts.models.encoders import InputSpec
from emcts.models.networks import HeadSpec, Networks, shared_networks, vector_networks
from emcts.models.statistics import (
    MOST_DEVIATIONS,
    MOST_SAMPLES,
    Moments,
    Peak,
    ReturnRange,
    new_scale,
    new_statistics,
    normalise,
    return_range,
    update_statistics,
    with_statistics,
)

HEADS = HeadSpec(2, Categorical(10), bounded=False, ube=True, exploration=False)
KEY = jax.random.key(0)


def networks(*, follow_returns: bool = True) -> Networks:
    made = vector_networks(3, HEADS, widths=(4,), key=KEY)
    return with_statistics(made, new_statistics(follow_returns=follow_returns))


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([0.0, 0.0], 1.0),
        ([-0.01, -0.01], 1.0),
        ([-1.0, -1.0], 1.0),
        ([7.0, 7.0], 7.0),
        ([0.0, 10.0], 10.0),
        ([-0.01, 10.0], 10.01),
        ([0.5, 0.01], 1.0),
        ([0.0, -0.01], 1.0),
        ([0.0, -2.0], 2.0),
    ],
)
def test_the_range_spans_the_rewards_and_zero(rewards: list[float], expected: float) -> None:
    start = ReturnRange(jnp.zeros(()), jnp.zeros(()))
    one_by_one = start
    for reward in rewards:
        one_by_one = one_by_one.update(jnp.array([reward]))
    for seen in (start.update(jnp.array(rewards)) if rewards else start, one_by_one):
        np.testing.assert_allclose(seen.size, expected, rtol=1e-6)


def test_a_given_range_is_taken_and_a_missing_one_is_named() -> None:
    plain = networks(follow_returns=False)
    assert plain.statistics is None
    assert return_range(plain, 7.0) == 7.0
    assert update_statistics(plain, jnp.array([5.0])) is plain
    with pytest.raises(ValueError, match="follow_returns"):
        return_range(plain, None)


def test_seeds_follow_their_own_rewards() -> None:
    stacked = jax.vmap(lambda _: networks())(jnp.arange(2))
    seen = jax.jit(jax.vmap(update_statistics))(stacked, jnp.array([[0.0, 3.0], [-2.0, 1.0]]))
    ranges = jax.vmap(lambda one: return_range(one, None))(seen)
    np.testing.assert_array_equal(ranges, [3, 3])
    np.testing.assert_array_equal(seen.statistics.returns.low, [0, -2])


def test_the_range_has_no_gradient() -> None:
    seen = update_statistics(networks(), jnp.array([2.0]))
    gradient = jax.grad(lambda one: jnp.sum(return_range(one, None) ** 2))(seen)
    assert all(not leaf.any() for leaf in jax.tree.leaves(gradient))


def test_statistics_are_put_back_after_an_optimiser_changed_them() -> None:
    before = update_statistics(networks(), jnp.array([2.0]))
    decay = optax.adamw(1e-1, weight_decay=1.0)
    changes, _ = decay.update(jax.tree.map(jnp.zeros_like, before), decay.init(before), before)
    decayed = optax.apply_updates(before, changes)
    assert float(return_range(decayed, None)) < 2
    kept = with_statistics(decayed, before.statistics)
    assert float(return_range(kept, None)) == 2
    first = jax.tree.leaves(kept.value)[0]
    np.testing.assert_array_equal(first, jax.tree.leaves(decayed.value)[0])


@functools.partial(jax.jit, static_argnames="batches")
def moments_after(xs: Float[Array, "B F"], batches: int) -> Moments:
    """The moments of rows that are observed in turn, again and again."""

    def observe_more(moments: Moments, _: None) -> tuple[Moments, None]:
        return moments.update(xs), None

    new = new_scale(InputSpec((xs.shape[1],)))
    assert isinstance(new, Moments)
    return jax.lax.scan(observe_more, new, length=batches)[0]


def test_moments_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal([0, 5, -300], [1, 0.01, 40], (60, 3)).astype(np.float32)
    moments = new_scale(InputSpec((3,)))
    for batch in np.split(rows, [4, 10, 30]):
        moments = moments.update(jnp.asarray(batch))
    assert isinstance(moments, Moments)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-2)
    normal = jax.vmap(moments.apply)(jnp.asarray(rows))
    np.testing.assert_allclose(normal.std(axis=0), 1, rtol=1e-2)
    np.testing.assert_allclose(normal.mean(axis=0), 0, atol=1e-3)


def test_moments_stay_right_after_a_hundred_million_samples() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal([0, 5], [1, 0.1], (1000, 2)).astype(np.float32)
    moments = moments_after(jnp.asarray(rows), 100_000)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-2)
    assert float(moments.count) == MOST_SAMPLES


@pytest.mark.parametrize("value", [0.0, 1.0, 7.7, -3e6])
def test_a_constant_feature_does_not_blow_up(value: float) -> None:
    moments = moments_after(jnp.full((8, 1), value), 50)
    assert abs(float(moments.apply(jnp.array([value]))[0])) < 0.01
    assert np.abs(moments.apply(jnp.array([10 * value + 100]))) <= MOST_DEVIATIONS


def test_the_cell_of_an_agent_stands_out_from_walls() -> None:
    """Planes of a small grid: walls, which never change, are 0, and the cell of the agent is far from it."""
    cells = jnp.eye(16, dtype=bool).reshape(16, 4, 4, 1)
    images = jnp.concatenate([jnp.ones_like(cells), cells], axis=-1)
    seen = jax.vmap(new_scale(InputSpec((4, 4, 2), dtype="bool")).update(images).apply)(images)
    np.testing.assert_allclose(seen[..., 0], 0, atol=1e-3)
    expected = (np.eye(16) - 1 / 16) / np.sqrt(1 / 16 * 15 / 16)
    np.testing.assert_allclose(seen[..., 1].reshape(16, 16), expected, rtol=1e-4)


def test_large_images_are_divided_by_their_peak() -> None:
    scale = new_scale(InputSpec((84, 84, 3), dtype="uint8"))
    assert isinstance(scale, Peak)
    planes = jnp.array([[[[1], [0]], [[0], [1]]]], jnp.uint8)
    np.testing.assert_array_equal(scale.update(planes).apply(planes[0]), planes[0])
    pixels = 250 * planes
    np.testing.assert_array_equal(scale.update(pixels).apply(pixels[0]), planes[0])


def test_networks_read_normalised_observations() -> None:
    spec = {"speed": InputSpec((2,)), "wall": InputSpec((3,), dtype="bool")}
    made = shared_networks(spec, HEADS, widths=(4,), channels=2, key=KEY)
    made = with_statistics(made, new_statistics(follow_returns=False, observed=spec))
    seen = {"speed": jnp.array([[10.0, 0.5], [30.0, 0.7]]), "wall": jnp.ones((2, 3), bool)}
    made = update_statistics(made, jnp.zeros(2), seen)
    one = jax.tree.map(lambda leaf: leaf[0], seen)
    read = normalise(made.statistics, one)
    np.testing.assert_allclose(read["speed"], [-1, -1], rtol=1e-4)
    np.testing.assert_allclose(read["wall"], 0, atol=1e-3)
    plain = with_statistics(made, None)
    np.testing.assert_allclose(made.torso(read), plain.torso(read))
    heads = jax.tree.map(jnp.ones_like, made.policy)  # which starts at zero
    trained = eqx.tree_at(lambda networks: networks.policy, made, heads)
    np.testing.assert_allclose(trained.outputs(one).policy, heads(trained.torso(read)), rtol=1e-5)
    gradient = jax.grad(lambda networks: jnp.sum(networks.outputs(one).policy))(trained)
    assert not any(leaf.any() for leaf in jax.tree.leaves(gradient.statistics))
