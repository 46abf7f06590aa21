"""Counters against Python's integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.counter import NEVER, Counter

EDGES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53 + 1, 2**63, NEVER - 2**32]


@pytest.mark.parametrize("number", EDGES)
def test_sums_are_those_of_python(number: int) -> None:
    add = jax.jit(lambda counter, more: counter.add(more))
    for more in (0, 1, 2**31 - 1, 2**32 - 1):
        assert int(add(Counter.of(number), jnp.uint32(more))) == number + more


def test_a_counter_knows_what_has_never_happened() -> None:
    happened = jax.jit(lambda counter: counter.happened)
    assert not happened(Counter.of(NEVER))
    assert all(happened(Counter.of(number)) for number in EDGES)


def test_counters_of_several_seeds_are_read_together() -> None:
    stacked = jax.tree.map(lambda *words: jnp.stack(words), *[Counter.of(number) for number in EDGES])
    np.testing.assert_array_equal(stacked.numbers(), np.array(EDGES, np.uint64))
    moved = jax.vmap(lambda counter: counter.add(7))(stacked)
    np.testing.assert_array_equal(moved.numbers(), np.array([number + 7 for number in EDGES], np.uint64))


def test_every_value_has_a_key_of_its_own() -> None:
    fold = jax.jit(lambda counter: jax.random.key_data(counter.fold_into(jax.random.key(0))))
    keys = {tuple(np.asarray(fold(Counter.of(number))).tolist()) for number in EDGES}
    assert len(keys) == len(EDGES)
