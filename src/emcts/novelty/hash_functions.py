"""Functions from novelty inputs to 32 bits, for the tables of `emcts.novelty.hashes`: XXH32 and SimHash.

XXH32 is the public xxHash specification's, bit for bit.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped, UInt8, UInt32

Hash = Callable[[Shaped[Array, "..."]], UInt32[Array, ""]]

_P1, _P2, _P3, _P4, _P5 = map(np.uint32, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1))
_WORD = 4  # bytes
_STRIPE = 4 * _WORD  # a word for each of the four accumulators
_UNROLL = 32  # stripes: up to 512 bytes are one fused program, more are a loop over such programs


@dataclasses.dataclass(frozen=True)
class Xxh32Hash:
    """The XXH32 of the bytes of `x`: different inputs share a hash by chance alone."""

    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)

    def __call__(self, x: Shaped[Array, "..."]) -> UInt32[Array, ""]:
        """The hash of one `x`."""
        return xxh32(as_bytes(x), self.seed)


@dataclasses.dataclass(frozen=True)
class SimHash:
    """The signs of `num_bits` random projections of the vector `x`: similar inputs share a hash.

    Two vectors at an angle of t radians share each bit with probability 1 - t / pi. Lengths do not matter, so
    centre observations whose elements all have one sign.
    """

    num_bits: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.num_bits <= 32:
            raise ValueError(
                f"SimHash packs its bits into a uint32: num_bits is 1 to 32, got {self.num_bits}"
            )

    def __call__(self, x: Shaped[Array, "..."]) -> UInt32[Array, ""]:
        """The hash of one `x`."""
        if x.ndim == 0:
            raise ValueError(
                "SimHash compares directions of vectors, but got one number: hash it with Xxh32Hash"
            )
        vector = x.reshape(-1).astype(jnp.float32)
        # Full precision, so that the signs are the same alone and in a batch.
        sides = jnp.matmul(self._projections(vector.size), vector, precision=jax.lax.Precision.HIGHEST) > 0
        powers = jnp.uint32(1) << jnp.arange(self.num_bits, dtype=jnp.uint32)
        return jnp.sum(jnp.where(sides, powers, 0), dtype=jnp.uint32)

    def _projections(self, size: int) -> Float[Array, "K n"]:
        # Drawn while tracing: they are constants of a compiled search.
        with jax.ensure_compile_time_eval():
            return jax.random.normal(jax.random.key(self.seed), (self.num_bits, size))


def xxh32(data: UInt8[Array, "*batch n"], seed: int | UInt32[Array, ""] = 0) -> UInt32[Array, "*batch"]:
    """The XXH32 of the `n` bytes in each row of `data`."""
    if isinstance(seed, int):
        check_seed(seed)
    seed = jnp.asarray(seed, jnp.uint32)
    batch, length = data.shape[:-1], data.shape[-1]
    striped = length - length % _STRIPE
    if striped:
        stripes = _words(data[..., :striped]).reshape(*batch, striped // _STRIPE, 4)
        result = _digest_stripes(stripes, seed)
    else:
        result = jnp.broadcast_to(seed + _P5, batch)
    result = result + np.uint32(length % 2**32)
    worded = length - length % _WORD
    for word in jnp.unstack(_words(data[..., striped:worded]), axis=-1):
        result = _rotate(result + word * _P3, 17) * _P4
    for byte in jnp.unstack(data[..., worded:].astype(jnp.uint32), axis=-1):
        result = _rotate(result + byte * _P5, 11) * _P1
    return _avalanche(result)


def as_bytes(x: Shaped[Array, "..."]) -> UInt8[Array, "n"]:
    """The bytes of an array's elements, little-endian; bools go eight to a byte, the first of them lowest.

    Equal numbers have equal bytes: a negative zero is written as zero.
    """
    x = x.reshape(-1)
    if x.dtype == bool:
        return jnp.packbits(x, bitorder="little")
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.where(x == 0, jnp.zeros_like(x), x)
    elif not jnp.issubdtype(x.dtype, jnp.integer):
        raise ValueError(
            f"bytes are read from bools, integers or floats, got an array of {x.dtype}: convert it"
        )
    return jax.lax.bitcast_convert_type(x, jnp.uint8).reshape(-1)


def check_seed(seed: int) -> None:
    """Raises unless `seed` has 32 bits."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed of XXH32 is a number of 32 bits: give one in [0, 2**32), got {seed}")


def _digest_stripes(stripes: UInt32[Array, "*batch S 4"], seed: UInt32[Array, ""]) -> UInt32[Array, "*batch"]:
    def digest(accumulators, stripe):
        return _rotate(accumulators + stripe * _P2, 13) * _P1, None

    start = jnp.stack([seed + _P1 + _P2, seed + _P2, seed, seed - _P1])
    start = jnp.broadcast_to(start, (*stripes.shape[:-2], 4))
    accumulators, _ = jax.lax.scan(digest, start, jnp.moveaxis(stripes, -2, 0), unroll=_UNROLL)
    a, b, c, d = jnp.unstack(accumulators, axis=-1)
    return _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)


def _avalanche(x: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    x = (x ^ (x >> 15)) * _P2
    x = (x ^ (x >> 13)) * _P3
    return x ^ (x >> 16)


def _rotate(x: UInt32[Array, "*batch"], left: int) -> UInt32[Array, "*batch"]:
    return (x << left) | (x >> (32 - left))


def _words(data: UInt8[Array, "*batch n"]) -> UInt32[Array, "*batch m"]:
    *batch, length = data.shape
    return jax.lax.bitcast_convert_type(data.reshape(*batch, length // _WORD, _WORD), jnp.uint32)
