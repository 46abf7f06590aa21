"""Distinct rows of a batch: equality with a computation of every row, also under vmap and jit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.distinct import Distinct, distinct, for_wanted, largest, on_first_rows


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_distinct_indices_and_their_counts(share: float) -> None:
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 40, 64).astype(np.int32)
    mask = rng.random(64) < share
    found = jax.jit(distinct)(indices, mask)
    values, counts = np.unique(indices[mask], return_counts=True)
    number = int(found.number)
    assert number == len(values)
    np.testing.assert_array_equal(found.indices[:number], values)
    np.testing.assert_array_equal(found.counts[:number], counts)
    np.testing.assert_array_equal(found.counts[number:], 0)
    assert set(np.asarray(found.indices[number:])) <= {values[0] if number else 0}  # within what was given


def test_as_few_rows_as_the_largest_needs() -> None:
    """Without a batch of its own the length is a choice of one branch, not all of them."""
    lengths = []

    def total(rows: jax.Array) -> jax.Array:
        lengths.append(len(rows))
        return jnp.sum(jnp.where(rows < 100, rows, 0)) + 1000 * len(rows)

    rows = jnp.where(jnp.arange(24) < 7, jnp.arange(24), 100)
    run = jax.jit(lambda number: on_first_rows(total, number, rows))
    assert [int(run(number)) for number in (0, 3, 7)] == [3003, 3003, 9021]
    assert lengths == [3, 6, 9, 12, 15, 18, 24]
    of_seeds = jax.jit(jax.vmap(lambda number: on_first_rows(total, number, rows)))
    np.testing.assert_array_equal(of_seeds(jnp.array([2, 7])), [9021, 9021])
    assert "cond" in str(jax.make_jaxpr(of_seeds)(jnp.array([2, 7])))


def test_the_largest_of_all_seeds_is_one_number() -> None:
    numbers = jnp.array([[3, 5, 1], [9, 2, 4]])
    one = jax.vmap(jax.vmap(largest, out_axes=None), out_axes=None)(numbers)
    assert int(one) == 9
    assert int(largest(jnp.int32(4))) == 4


def test_a_gradient_over_distinct_rows_is_that_over_all() -> None:
    table = jax.random.normal(jax.random.key(0), (12, 5))
    indices = jnp.array([3, 7, 3, 3, 0, 7, 11, 3], jnp.int32)
    mask = jnp.array([1, 1, 1, 0, 1, 1, 0, 1], bool)

    def over_all(table: jax.Array) -> jax.Array:
        return jax.grad(lambda t: jnp.sum(jnp.where(mask, jnp.sum(t[indices] ** 3, axis=1), 0)))(table)

    def over_distinct(table: jax.Array) -> jax.Array:
        found: Distinct = distinct(indices, mask)

        def gradient(rows: tuple[jax.Array, jax.Array]) -> jax.Array:
            places, counts = rows
            return jax.grad(lambda t: jnp.sum(counts * jnp.sum(t[places] ** 3, axis=1)))(table)

        return on_first_rows(gradient, found.number, (found.indices, found.counts))

    np.testing.assert_allclose(jax.jit(over_distinct)(table), over_all(table), rtol=1e-6)


@pytest.mark.parametrize("at_once", [3, 8, 100])
def test_only_what_is_wanted_is_computed(at_once: int) -> None:
    rows = jax.random.split(jax.random.key(1), 20), jnp.arange(20.0)

    def double(keys: jax.Array, numbers: jax.Array) -> dict[str, jax.Array]:
        return {"draw": jax.vmap(jax.random.uniform)(keys), "twice": 2 * numbers}

    def run(wanted: jax.Array) -> dict[str, jax.Array]:
        return for_wanted(double, wanted, rows, at_once)

    wanted = jnp.array([[7, 2, 7, 19, 2], [1, 1, 1, 1, 1]])
    found = jax.jit(jax.vmap(run))(wanted)
    expected = double(*rows)
    for seed in range(2):
        jax.tree.map(
            lambda one, all_rows, seed=seed: np.testing.assert_array_equal(
                one[seed][wanted[seed]], all_rows[wanted[seed]]
            ),
            found,
            expected,
        )
    computed = np.count_nonzero(found["draw"], axis=1)
    size = -(-20 // -(-20 // at_once))
    np.testing.assert_array_equal(computed, min(20, -(-3 // size) * size))  # as many parts as the first needs
