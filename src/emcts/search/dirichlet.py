"""Dirichlet noise with the numbers of `jax.random.dirichlet`, for GPUs in one loop instead of two.

JAX draws a gamma variable by rejection (Marsaglia and Tsang): a loop over attempts around a loop over normal variates.
Each test whether all lanes are done is a round trip from a GPU to the host: at batch 128 these loops took a quarter of
a search's time. Here each lane keeps its own place, one loop serves both, and it tests once in a few variates.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.types import Key, Scalar

VARIATES_PER_TEST = 4  # 1 of 20 attempts is rejected: the last of 2,048 lanes is done after 3 or 4 as a rule


def dirichlet(rng_key: Key, alpha: Scalar, shape: tuple[int, int]) -> Float[Array, "B A"]:
    """Returns noise for rows of actions: the numbers of `jax.random.dirichlet`, on a GPU up to rounding."""
    key = rng_key if jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(rng_key)
    parameter = jnp.asarray(alpha, float)
    in_loops = functools.partial(_in_loops_of_jax, shape=shape)
    if str(jax.random.key_impl(key)) != "threefry2x32":  # with others, JAX draws one lane after the other
        return in_loops(key, parameter)
    in_one_loop = functools.partial(_in_one_loop, shape=shape)
    noise: Array = jax.lax.platform_dependent(key, parameter, cuda=in_one_loop, default=in_loops)
    return noise


def _in_loops_of_jax(key: Key, alpha: Float[Array, ""], shape: tuple[int, int]) -> Float[Array, "B A"]:
    return jax.random.dirichlet(key, jnp.full(shape[1:], alpha), shape[:1])


def _in_one_loop(key: Key, alpha: Float[Array, ""], shape: tuple[int, int]) -> Float[Array, "B A"]:
    keys = jax.random.split(key, shape[0] * shape[1])
    return jax.nn.softmax(_log_gamma(keys, alpha).reshape(shape), axis=-1)


class _Lanes(NamedTuple):
    """The place of each lane: keys of its next attempt, and of this one's next normal and its uniform variate."""

    next_key: Key
    normal_key: Key
    uniform_key: Key
    cube: Float[Array, "L"]  # what the accepted attempt has drawn
    is_done: Bool[Array, "L"]


@jax.jit
def _log_gamma(keys: Key, alpha: Float[Array, ""]) -> Float[Array, "L"]:
    """Returns logarithms of gamma variables: of `alpha + 1`, and below 1 times a power of a uniform variable."""
    is_boosted, one = alpha < 1, jnp.ones((), alpha.dtype)
    d = jnp.where(is_boosted, alpha + 1, alpha) - jnp.asarray(1 / 3, alpha.dtype)
    c = jnp.asarray(1 / 3, alpha.dtype) / jnp.sqrt(d)
    keys, boost_keys = _split(keys, 2)

    def begin(keys: Key) -> _Lanes:
        next_key, normal_key, uniform_key = _split(keys, 3)
        ones, zeros = jnp.ones(keys.shape[0], alpha.dtype), jnp.zeros(keys.shape[0], bool)
        return _Lanes(next_key, normal_key, uniform_key, ones, zeros)

    def draw(_: Int[Array, ""], lanes: _Lanes) -> _Lanes:
        normal_key, key = _split(lanes.normal_key, 2)
        x = jax.vmap(lambda key: jax.random.normal(key, (), alpha.dtype))(key)
        u = jax.vmap(lambda key: jax.random.uniform(key, (), alpha.dtype))(lanes.uniform_key)
        root = one + x * c
        square, cube = x * x, root * root * root
        is_outside = u >= one - jnp.asarray(0.0331, alpha.dtype) * (square * square)
        is_rejected = is_outside & (jnp.log(u) >= square * 0.5 + d * ((one - cube) + jnp.log(cube)))
        is_drawn = root > 0
        following = begin(lanes.next_key)
        return _Lanes(
            jnp.where(is_drawn, following.next_key, lanes.next_key),
            jnp.where(is_drawn, following.normal_key, normal_key),
            jnp.where(is_drawn, following.uniform_key, lanes.uniform_key),
            jnp.where(lanes.is_done, lanes.cube, cube),
            lanes.is_done | (is_drawn & ~is_rejected),
        )

    lanes = jax.lax.while_loop(
        lambda lanes: ~jnp.all(lanes.is_done),
        lambda lanes: jax.lax.fori_loop(0, VARIATES_PER_TEST, draw, lanes),
        begin(keys),
    )
    logs = -jax.vmap(lambda key: jax.random.exponential(key, (), alpha.dtype))(boost_keys)
    boost = jnp.where(is_boosted & (logs != 0), logs * (one / alpha), 0)
    return (jnp.log(d) + jnp.log(lanes.cube)) + boost


def _split(keys: Key, count: int) -> tuple[Key, ...]:
    """Returns `count` new keys of each."""
    pairs = jax.vmap(lambda key: jax.random.split(key, count))(keys)
    return tuple(pairs[:, i] for i in range(count))
