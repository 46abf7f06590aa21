import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emcts.novelty import HashCounts, HashSet, bits_for
from emcts.novelty.hashes import MOST_COUNTED

KEY = jax.random.key(0)


def as_it_is(x):
    """A hash whose collisions a test can choose."""
    return x.astype(jnp.uint32)


@functools.partial(jax.jit, static_argnums=0)
def see(table, xs, mask):
    """The state after one update, the variance of each entry 0 to 95, and how many were seen."""
    state = table.update(table.init(KEY), xs, mask)
    return jax.vmap(table.variance, (None, 0))(state, jnp.arange(96)), table.num_seen(state)


@pytest.mark.parametrize(
    ("xs", "mask", "seen"),
    [
        ([32, 33, 63], [1, 1, 1], {32, 33, 63}),
        ([5, 5, 5], [1, 1, 1], {5}),
        ([7, 7, 6], [0, 1, 1], {6, 7}),
        ([7, 7, 6], [1, 0, 0], {7}),
        ([7, 8, 9], [0, 0, 0], set()),
        ([0, 31, 0], [1, 1, 0], {0, 31}),
        ([0, 95, 64], [0, 1, 1], {64, 95}),
    ],
)
def test_rows_that_share_a_word_or_a_bit(xs, mask, seen):
    variances, num_seen = see(HashSet(7, as_it_is, scale=3.0), jnp.array(xs), jnp.array(mask, bool))
    np.testing.assert_array_equal(variances, [0 if x in seen else 3 for x in range(96)])
    assert num_seen == len(seen)


@jax.jit
def scan_small(xs, masks):
    """The number seen after each batch, in a table of 64 bits, and every variance at the end."""
    table = HashSet(6, as_it_is)

    def step(state, batch):
        state = table.update(state, *batch)
        return state, table.num_seen(state)

    state, num_seen = jax.lax.scan(step, table.init(KEY), (xs, masks))
    return num_seen, jax.vmap(table.variance, (None, 0))(state, jnp.arange(64))


@settings(deadline=None, max_examples=60)
@given(
    xs=st.lists(st.lists(st.integers(0, 63), min_size=6, max_size=6), min_size=3, max_size=3),
    masks=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=3, max_size=3),
)
def test_a_set_of_bits_is_a_set(xs, masks):
    num_seen, variances = scan_small(jnp.array(xs), jnp.array(masks))
    seen = set()
    for i, (row, mask) in enumerate(zip(xs, masks, strict=True)):
        seen |= {x for x, m in zip(row, mask, strict=True) if m}
        assert num_seen[i] == len(seen)
    np.testing.assert_array_equal(variances == 0, [x in seen for x in range(64)])


@pytest.mark.parametrize("bits", [1, 4, 5, 6])
def test_small_tables_fill_up(bits):
    _, num_seen = see(HashSet(bits), jnp.arange(1000), jnp.ones(1000, bool))
    assert num_seen == 2**bits
    _, num_seen = see(HashCounts(bits), jnp.arange(1000), jnp.ones(1000, bool))
    assert num_seen == 2**bits


def test_counts_by_hand():
    table = HashCounts(7, as_it_is, epsilon=0.5, scale=2.0)
    xs, mask = jnp.array([3, 3, 90, 3, 4]), jnp.array([1, 1, 1, 0, 0], bool)
    variances, num_seen = see(table, xs, mask)
    expected = np.full(96, 4.0)
    expected[[3, 90]] = 2 / 2.5, 2 / 1.5
    np.testing.assert_allclose(variances, expected, rtol=1e-6)
    assert num_seen == 2


def test_counts_end_where_they_would_wrap():
    """Also when one batch alone has more of a state than can be counted."""
    table = HashCounts(4, as_it_is, epsilon=1.0)
    update, state = jax.jit(table.update), table.init(KEY)
    for _ in range(3):
        state = update(state, jnp.full(30_000, 7), jnp.ones(30_000, bool))
        state = update(state, jnp.array([3, 7, 3]), jnp.array([1, 0, 1], bool))
    np.testing.assert_array_equal(state.visits[jnp.array([3, 7, 8])], [6, MOST_COUNTED, 0])
    state = update(table.init(KEY), jnp.full(100_000, 7), jnp.ones(100_000, bool))
    assert state.visits[7] == MOST_COUNTED
    assert jax.jit(table.variance)(state, jnp.int32(7)) == pytest.approx(1 / 65_536)
    assert state.visits.nbytes == 2 * 2**4


@pytest.mark.parametrize("table", [HashSet(6, as_it_is), HashCounts(6, as_it_is)])
def test_occupancy_is_the_share_in_use(table):
    state = table.update(table.init(KEY), jnp.array([1, 2, 2, 40, 50]), jnp.array([1, 1, 1, 1, 0], bool))
    assert jax.jit(table.occupancy)(state) == 3 / 64


@pytest.mark.parametrize(
    ("number", "bits"), [(1, 16), (6_000, 16), (2_000_000, 25), (4_096_000, 26), (2**40, 27)]
)
def test_a_table_for_a_number_of_states_is_a_tenth_full(number, bits):
    assert bits_for(number, 27) == bits
    assert bits == 27 or number <= 2**bits / 10


def test_a_longer_hash_is_folded_into_the_table():
    """Every bit of the hash moves the entry, so a SimHash may have more bits than the table."""
    table = HashSet(7, lambda x: jnp.uint32(1) << x.astype(jnp.uint32))
    state = jax.jit(table.update)(table.init(KEY), jnp.arange(32), jnp.ones(32, bool))
    assert table.num_seen(state) == 7  # each power of two falls on one of the table's seven
    assert jax.jit(table.variance)(state, jnp.int32(31)) == 0
    assert jax.jit(HashSet(7, as_it_is).variance)(state, jnp.int32(0)) == 1


@pytest.mark.parametrize("seeds", [None, 3])
@pytest.mark.parametrize("table", [HashSet(24), HashCounts(19)])
def test_a_loop_never_copies_the_table(table, seeds):
    def loop(state, batches):
        def step(state, xs):
            variances = jax.vmap(table.variance, (None, 0))(state, xs)
            return table.update(state, xs, variances > 0), variances

        return jax.lax.scan(step, state, batches)

    keys, batches = jax.random.split(KEY, seeds or ()), jnp.zeros((50, 16, 4))
    init, run = table.init, loop
    if seeds:
        init, run, batches = jax.vmap(init), jax.vmap(run), jnp.zeros((seeds, 50, 16, 4))
    state = jax.eval_shape(init, keys)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    used = jax.jit(run, donate_argnums=0).lower(state, batches).compile().memory_analysis()
    assert used is not None
    assert used.alias_size_in_bytes >= size
    assert used.temp_size_in_bytes < size / 10


@pytest.mark.parametrize(
    ("table", "bits", "most"), [(HashSet, 0, 32), (HashSet, 33, 32), (HashCounts, 32, 31)]
)
def test_bits_are_checked(table, bits, most):
    with pytest.raises(ValueError, match=f"from 1 to {most}, got {bits}"):
        table(bits)
