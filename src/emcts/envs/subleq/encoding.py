"""Words as the inputs of a network. A word that is not there (none) differs from a word that is 0."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Encoding = Callable[[Int[Array, "L"], Bool[Array, "L"], int], Float[Array, "L F"]]


def binary(words: Int[Array, "L"], present: Bool[Array, "L"], word_size: int) -> Float[Array, "L F"]:
    """Each word in binary, lowest bit first, then a bit that is 1 for none."""
    places = jnp.arange((word_size - 1).bit_length(), dtype=jnp.int32)
    bits = (words.astype(jnp.int32)[:, None] >> places[None]) & 1
    bits = bits * present[:, None]
    return jnp.concatenate([bits, ~present[:, None]], axis=1).astype(jnp.float32)


def one_hot(words: Int[Array, "L"], present: Bool[Array, "L"], word_size: int) -> Float[Array, "L F"]:
    """One of `word_size + 1` places, the last of which means none."""
    place = jnp.where(present, words.astype(jnp.int32), word_size)
    return (place[:, None] == jnp.arange(word_size + 1, dtype=jnp.int32)[None]).astype(jnp.float32)
