"""Arrays without their blocks of zeros: a replay or a table that is hardly filled takes little space on a disk."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, Shaped, UInt8

BLOCK_BYTES = 4096
MIN_BYTES = 1 << 16  # of an array that is searched for zeros
WORTH = 0.75  # at most this share of its blocks is not zero


@dataclass(frozen=True)
class Packed:
    """The blocks of an array that are not all zeros, bit by bit, and the places where they belong."""

    blocks: UInt8[np.ndarray, "B 4096"]
    places: Int64[np.ndarray, "B"]


def pack(array: Shaped[np.ndarray, "*S"]) -> Packed | None:
    """Returns an array in fewer bytes; None if it is small or has few blocks of zeros."""
    if array.nbytes < MIN_BYTES:
        return None
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = len(content) // BLOCK_BYTES * BLOCK_BYTES
    blocks = content[:whole].reshape(-1, BLOCK_BYTES)
    rest = np.zeros((1, BLOCK_BYTES), np.uint8)
    rest[0, : len(content) - whole] = content[whole:]
    # As words, which is faster than byte by byte.
    used = np.append(blocks.view(np.uint64).any(axis=1), rest.any())
    if used.mean() > WORTH:
        return None
    kept = np.concatenate([blocks[used[:-1]], rest[: int(used[-1])]])
    return Packed(kept, np.flatnonzero(used).astype(np.int64))


def unpack(packed: Packed, shape: tuple[int, ...], dtype: str) -> Shaped[np.ndarray, "*S"]:
    """Returns the array. Places outside of it are an error."""
    empty = np.zeros(shape, dtype)
    blocks = np.zeros((-(-empty.nbytes // BLOCK_BYTES), BLOCK_BYTES), np.uint8)
    blocks[packed.places] = packed.blocks
    return blocks.reshape(-1)[: empty.nbytes].view(empty.dtype).reshape(shape)
