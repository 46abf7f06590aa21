"""Dirichlet noise in one loop against JAX's own, lane by lane."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.search import dirichlet as module
from emcts.search.dirichlet import dirichlet
from emcts.types import Key


def of_jax(key: Key, alpha: float, shape: tuple[int, int]) -> jax.Array:
    return jax.random.dirichlet(key, jnp.full(shape[1:], alpha, float), shape[:1])


@pytest.mark.parametrize("alpha", [0.03, 0.3, 1.0, 2.5])
def test_one_loop_gives_the_numbers_of_jax(alpha: float) -> None:
    """Of 16,384 lanes about 26 draw a normal variate that is too small, and 800 have an attempt rejected."""
    key = jax.random.key(7)
    found = module._in_one_loop(key, jnp.asarray(alpha, float), (1024, 16))
    np.testing.assert_allclose(found, of_jax(key, alpha, (1024, 16)), rtol=2e-5, atol=1e-30)


def test_seeds_under_vmap_have_numbers_of_their_own() -> None:
    keys = jax.random.split(jax.random.key(3), 4)
    found = jax.vmap(lambda key: module._in_one_loop(key, jnp.asarray(0.3), (32, 5)))(keys)
    alone = jnp.stack([of_jax(key, 0.3, (32, 5)) for key in keys])
    np.testing.assert_allclose(found, alone, rtol=2e-5)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_any_random_key_gives_the_noise_of_jax(impl: str) -> None:
    key = jax.random.key(11, impl=impl)
    np.testing.assert_array_equal(dirichlet(key, 0.3, (8, 6)), of_jax(key, 0.3, (8, 6)))


def test_keys_of_the_old_kind_give_the_noise_of_new_ones() -> None:
    found = dirichlet(jax.random.PRNGKey(5), 0.3, (8, 6))
    np.testing.assert_array_equal(found, of_jax(jax.random.key(5), 0.3, (8, 6)))
