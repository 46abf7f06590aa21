"""Functions from what was looked at to 32 bits, for the tables of `emcts.novelty.hashes`."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped, UInt32

from emcts.novelty.xxh32 import as_bytes, check_seed, xxh32

Hash = Callable[[Shaped[Array, "..."]], UInt32[Array, ""]]


@dataclasses.dataclass(frozen=True)
class Xxh32Hash:
    """The XXH32 of the bytes of `x`: different states fall apart, as if by chance."""

    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)

    def __call__(self, x: Shaped[Array, "..."]) -> UInt32[Array, ""]:
        return xxh32(as_bytes(x), self.seed)


XXH32 = Xxh32Hash()


def xxh32_hash(seed: int = 0) -> Xxh32Hash:
    """A hash that tells any two states apart, but for chance. Equal seeds give equal hashes."""
    return Xxh32Hash(seed)


@dataclasses.dataclass(frozen=True)
class SimHash:
    """The signs of `num_bits` random projections of the vector `x`: near states fall together.

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
        if x.ndim == 0:
            raise ValueError(
                "SimHash compares directions of vectors, and got one number: hash it with xxh32_hash"
            )
        vector = x.reshape(-1).astype(jnp.float32)
        # Full precision, so that a state falls on the same side alone and in a batch.
        sides = jnp.matmul(self._projections(vector.size), vector, precision=jax.lax.Precision.HIGHEST) > 0
        powers = jnp.uint32(1) << jnp.arange(self.num_bits, dtype=jnp.uint32)
        return jnp.sum(jnp.where(sides, powers, 0), dtype=jnp.uint32)

    def _projections(self, size: int) -> Float[Array, "K n"]:
        # Drawn while tracing: a compiled search holds them as a constant.
        with jax.ensure_compile_time_eval():
            return jax.random.normal(jax.random.key(self.seed), (self.num_bits, size))
