"""Counts of steps that do not wrap: JAX's integers have 32 bits, and a long run takes more than 2**31 steps."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, UInt32

from emcts.types import Key, Replaceable, record

NEVER = 2**64 - 1
"""The value of a counter whose event has not happened."""

_WORD = 2**32


@record
class Counter(Replaceable):
    """A whole number below 2**64, in two words of 32 bits."""

    high: UInt32[Array, "..."]
    low: UInt32[Array, "..."]

    @classmethod
    def of(cls, number: int) -> "Counter":
        """Makes a scalar counter from a Python int."""
        return cls(jnp.uint32(number // _WORD), jnp.uint32(number % _WORD))

    def add(self, number: int | Integer[Array, "..."] | Bool[Array, "..."]) -> "Counter":
        """The counter plus a number from 0 to 2**32 - 1."""
        low = self.low + jnp.asarray(number).astype(jnp.uint32)
        return Counter(self.high + (low < self.low).astype(jnp.uint32), low)

    @property
    def happened(self) -> Bool[Array, "..."]:
        """Whether the counter is not `NEVER`."""
        last = jnp.uint32(_WORD - 1)
        return (self.high != last) | (self.low != last)

    def fold_into(self, key: Key) -> Key:
        """A random key that differs for every value of the counter."""
        return jax.random.fold_in(jax.random.fold_in(key, self.high), self.low)

    def numbers(self) -> np.ndarray:
        """The values as uint64, on the host."""
        return np.asarray(np.asarray(self.high, np.uint64) << np.uint64(32) | np.asarray(self.low))

    def __int__(self) -> int:
        return int(self.numbers())
