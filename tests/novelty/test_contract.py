"""What every estimator promises, tried on each of them."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest

from emcts.novelty import (
    Binned,
    Counts,
    CountsSeen,
    Ensemble,
    Fitted,
    FromSample,
    HashCounts,
    HashSet,
    NoiseAware,
    Normalised,
    Novelty,
    NoveltyTable,
    RandomFeatures,
    RewardMoments,
    RewardNovelty,
    Rnd,
    SimHash,
    Table,
    Whitened,
)
from tests.novelty.networks import mlp

KEY = jax.random.key(3)
ALL = np.ones(4, bool)
INDICES = np.array([0, 3, 4, 17, 31], np.int32)
VECTORS = 3 * np.eye(6, dtype=np.float32)[:5]
RND = Rnd(mlp(6, 32, 8), mlp(6, 16, 8), optax.adam(3e-3))


def perceptron(key):
    """Equinox's own, whose leaves are not all arrays."""
    return eqx.nn.MLP(6, 2, 16, 1, key=key)


def as_it_is(x):
    return x.astype(jnp.uint32)


def near(key):
    return VECTORS + 0.1 * jax.random.normal(key, VECTORS.shape)


FEATURES_OF_RND = Whitened(RandomFeatures(Rnd(mlp(32, 16, 8), mlp(32, 16, 8), optax.adam(3e-3)), 6, 32), near)
TABLES: dict[str, tuple[Any, np.ndarray]] = {
    "counts": (Counts(40), INDICES),
    "hash set": (HashSet(16), VECTORS),
    "hash set of one word": (HashSet(5, as_it_is), INDICES),
    "hash set of the similar": (HashSet(10, SimHash(10)), VECTORS),
    "hash counts": (HashCounts(12), VECTORS > 0),
    "hash counts of bytes": (HashCounts(12), VECTORS.astype(np.uint8)),
    "hash counts of cells": (Binned(HashCounts(12), near), VECTORS),
}
LEARNED: dict[str, tuple[Any, np.ndarray]] = {
    "normalised rnd": (Normalised(RND, near), VECTORS),
    "normalised rnd of features": (Normalised(FEATURES_OF_RND, near), VECTORS),
    "ensemble": (Ensemble(mlp(6, 16, 2), optax.adam(1e-2), 5), VECTORS),
    "rnd of equinox's MLP": (Rnd(perceptron, perceptron, optax.adam(1e-2)), VECTORS),
    "ensemble of equinox's MLPs": (Ensemble(perceptron, optax.adam(1e-2), 5), VECTORS),
}
NAMES = [*TABLES, *LEARNED]


class Trial(NamedTuple):
    """An estimator, its functions compiled once for all tests, and five different `x`."""

    novelty: Any
    xs: np.ndarray
    init: Callable[..., Any]
    update: Callable[..., Any]
    updates: Callable[..., Any]
    variances: Callable[..., Any]


@functools.cache
def trial(name: str) -> Trial:
    novelty, xs = (TABLES | LEARNED)[name]

    def updates(state, xs, masks):
        return jax.lax.scan(lambda state, seen: (novelty.update(state, *seen), None), state, (xs, masks))[0]

    def variances(state):
        return jax.vmap(novelty.variance, (None, 0))(state, jnp.asarray(xs))

    functions = (novelty.init, novelty.update, updates, variances)
    return Trial(novelty, xs, *[jax.jit(function) for function in functions])


def assert_equal(one, other, rtol=0.0, atol=0.0):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), one, other)


def tolerance(name):
    return {} if name in TABLES else {"rtol": 1e-3, "atol": 1e-5}


@pytest.mark.parametrize("name", NAMES)
def test_follows_the_protocol(name):
    """And is equal to its copy, so that `jit` can take it as a static argument."""
    t = trial(name)
    copy = dataclasses.replace(t.novelty)
    assert isinstance(copy, Novelty)
    assert copy == t.novelty
    assert hash(copy) == hash(t.novelty)
    variances = t.variances(t.init(KEY))
    assert variances.dtype == jnp.float32
    assert np.isfinite(variances).all()
    assert (variances > 0).all()


def test_optional_members_are_found_by_their_protocols():
    found = {
        Counts(4): {CountsSeen},
        HashSet(5): {CountsSeen, Table, NoveltyTable},
        HashCounts(5): {CountsSeen, Table, NoveltyTable},
        Binned(HashSet(5), near): {CountsSeen, Table, NoveltyTable},
        RND: set(),
        FEATURES_OF_RND: {Fitted, FromSample},
        LEARNED["ensemble"][0]: {Fitted},
        NoiseAware(Counts(4), RewardMoments(4)): {RewardNovelty},
    }
    for novelty, protocols in found.items():
        optional = (CountsSeen, Fitted, FromSample, NoveltyTable, RewardNovelty, Table)
        assert {each for each in optional if isinstance(novelty, each)} == protocols


@pytest.mark.parametrize("name", NAMES)
def test_variance_falls_where_it_was_seen(name):
    """Two are seen, again and again; the other three never."""
    t = trial(name)
    start = t.init(KEY)
    batch, mask = t.xs[[0, 1, 1, 2]], [True, True, True, False]
    state = t.updates(start, np.stack([batch] * 200), np.array([mask] * 200))
    before, after = np.asarray(t.variances(start)), np.asarray(t.variances(state))
    assert (after >= 0).all()
    assert (after[:2] < 0.1 * before[:2]).all()
    if name in TABLES:
        np.testing.assert_array_equal(after[2:], before[2:])
    else:
        assert after[2:].min() > 5 * after[:2].max()


@pytest.mark.parametrize("name", TABLES)
def test_all_rows_of_a_batch_are_recorded(name):
    t = trial(name)
    state = t.update(t.init(KEY), t.xs[[4, 0, 1, 4]], ALL)
    assert t.novelty.num_seen(state) == 3
    fell = np.asarray(t.variances(state)) < np.asarray(t.variances(t.init(KEY)))
    np.testing.assert_array_equal(fell, [True, True, False, False, True])


@pytest.mark.parametrize("name", NAMES)
def test_masked_rows_change_nothing(name):
    """Whatever is in them; and where all are masked, not even an optimiser's momentum does."""
    t = trial(name)
    start, mask = t.init(KEY), np.array([True, False, True, False])
    garbage = t.xs[:4].copy()
    garbage[[1, 3]] = np.nan if garbage.dtype == np.float32 else 29
    state = t.update(start, t.xs[:4], mask)
    assert_equal(state, t.update(start, garbage, mask))
    assert_equal(state, t.update(state, garbage, ~ALL))
    assert any(
        (np.asarray(a) != np.asarray(b)).any()
        for a, b in zip(jax.tree.leaves(start), jax.tree.leaves(state), strict=True)
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_batch_is_its_rows_one_by_one(name):
    t = trial(name)
    batch, mask = t.xs[[1, 3, 1, 0]], np.array([True, True, True, False])
    state = t.init(KEY)
    for i in range(4):
        state = t.update(state, batch[i : i + 1], mask[i : i + 1])
    assert_equal(t.update(t.init(KEY), batch, mask), state)


@pytest.mark.parametrize("name", LEARNED)
def test_any_size_of_batch_keeps_the_state_in_shape(name):
    t = trial(name)
    state = t.init(KEY)
    shapes = jax.eval_shape(lambda: state)
    for size in (1, 4, 5):
        assert (
            jax.eval_shape(t.novelty.update, state, jnp.asarray(t.xs[:size]), jnp.ones(size, bool)) == shapes
        )
    trained = t.update(state, t.xs[:4], ALL)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(trained))


@pytest.mark.parametrize("name", NAMES)
def test_two_seeds_together_are_two_alone(name):
    t = trial(name)
    batches, masks = np.stack([t.xs[:4], t.xs[1:]]), np.array([[True] * 4, [True, False, True, True]])

    @jax.jit
    @jax.vmap
    def both(key, xs, mask):
        state = t.novelty.update(t.novelty.init(key), xs, mask)
        return state, jax.vmap(t.novelty.variance, (None, 0))(state, jnp.asarray(t.xs))

    keys = jax.random.split(KEY)
    states, variances = both(keys, batches, masks)
    for i in range(2):
        alone = t.update(t.init(keys[i]), batches[i], masks[i])
        assert_equal(jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], states), alone, **tolerance(name))
        np.testing.assert_allclose(np.asarray(variances)[i], t.variances(alone), rtol=1e-3, atol=1e-6)
    if name in LEARNED:
        assert np.all(np.diff(variances, axis=0) != 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_scan_of_updates_is_a_loop_of_updates(name):
    t = trial(name)
    batches = np.stack([t.xs[:4], t.xs[1:], t.xs[:4]])
    masks = np.array([[True] * 4, [False] * 4, [True, False, True, False]])
    state = t.init(KEY)
    for xs, mask in zip(batches, masks, strict=True):
        state = t.update(state, xs, mask)
    assert_equal(t.updates(t.init(KEY), batches, masks), state, **tolerance(name))


@pytest.mark.parametrize("name", NAMES)
def test_states_are_saved_and_restored(name, tmp_path):
    """A restored state is the same in every bit, and learns on as if nothing had happened."""
    t = trial(name)
    state = t.update(t.init(KEY), t.xs[:4], ALL)
    leaves, structure = jax.tree.flatten(state)
    assert all(isinstance(leaf, jax.Array) and leaf.dtype.kind in "biuf" for leaf in leaves)
    assert_equal(jax.tree.unflatten(structure, leaves), state)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", state)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "state", jax.eval_shape(lambda: state))
    assert_equal(restored, state)
    seen = t.xs[1:], ALL
    assert_equal(t.update(restored, *seen), t.update(state, *seen))
