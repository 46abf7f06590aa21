"""Tables of the hashes of what was seen, for environments with too many states to count.

Two inputs that share a hash share an entry, and the second counts as seen when it is new: in a table that is half full,
so do half of all new inputs. The time of an update depends on the size of the batch, not of the table, where the state
is donated or carried by a loop.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Shaped, UInt16, UInt32

from emcts.novelty.base import check_scale
from emcts.novelty.counts import check_epsilon, inverse_count
from emcts.novelty.hash_functions import Hash, Xxh32Hash
from emcts.types import Key, Replaceable, record

_WORD = 32  # bits
XXH32 = Xxh32Hash()
MOST_COUNTED = 2**16 - 1  # visits of an entry of `HashCounts`
PLACES_PER_STATE = 10  # of a table that is made for a number of states


@record
class HashSetState(Replaceable):
    """One bit per hash, set once it was seen."""

    words: UInt32[Array, "W"]


@record
class HashCountsState(Replaceable):
    """The number of visits to each hash."""

    visits: UInt16[Array, "N"]


@dataclasses.dataclass(frozen=True)
class HashSet:
    """eta = scale until `x` was first seen, and 0 from then on. The table has 2**bits bits."""

    bits: int = 24
    hash: Hash = XXH32
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_bits(self.bits, 32)
        check_scale(self.scale)

    def init(self, key: Key) -> HashSetState:
        return HashSetState(jnp.zeros(max(2**self.bits // _WORD, 1), jnp.uint32))

    def variance(self, state: HashSetState, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        word, bit = _place(_fold(self.hash(x), self.bits))
        return jnp.where(_read(state.words, word) & bit == 0, self.scale, 0.0)

    def update(self, state: HashSetState, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> HashSetState:
        entries = jax.vmap(lambda x: _fold(self.hash(x), self.bits))(xs)
        # A masked row is replaced by one that was seen, of which it is then a duplicate.
        entries = jnp.sort(jnp.where(mask, entries, entries[jnp.argmax(mask)]))
        duplicate = jnp.concatenate([jnp.zeros(1, bool), entries[1:] == entries[:-1]])
        word, bit = _place(entries)
        # Bits that are all different and not yet set add up to their union, also within one word.
        new = mask.any() & ~duplicate & (_read(state.words, word) & bit == 0)
        return HashSetState(_add(state.words, word, jnp.where(new, bit, 0)))

    def num_seen(self, state: HashSetState) -> UInt32[Array, ""]:
        """The number of different hashes that were seen."""
        return jnp.sum(jax.lax.population_count(state.words), dtype=jnp.uint32)

    def occupancy(self, state: HashSetState) -> Float[Array, ""]:
        """The share of the table in use."""
        return self.num_seen(state) / 2.0**self.bits


@dataclasses.dataclass(frozen=True)
class HashCounts:
    """eta = scale / (n + epsilon), where n counts the visits to the hash of `x`. The table has 2**bits numbers.

    They have 16 bits, and counting ends at `MOST_COUNTED`: eta falls to scale / 65,535, and no further.
    """

    bits: int = 20
    hash: Hash = XXH32
    epsilon: float = 0.1
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_bits(self.bits, 31)
        check_epsilon(self.epsilon)
        check_scale(self.scale)

    def init(self, key: Key) -> HashCountsState:
        return HashCountsState(jnp.zeros(2**self.bits, jnp.uint16))

    def variance(self, state: HashCountsState, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        visits = state.visits.at[self._entry(x)].get(mode="promise_in_bounds")
        return inverse_count(visits, self.epsilon, self.scale)

    def update(
        self, state: HashCountsState, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]
    ) -> HashCountsState:
        hashed = jax.vmap(lambda x: _fold(self.hash(x), self.bits))(xs)
        # One sort of both, by entry: equal entries are then neighbours, and each writes the sum over all of them.
        both = jnp.sort(2 * hashed + mask)
        entries, counted = (both >> 1).astype(jnp.int32), (both & 1).astype(jnp.int32)
        differ = entries[1:] != entries[:-1]
        first, last = jnp.append(True, differ), jnp.append(differ, True)
        sums = jnp.cumsum(counted)
        up_to_last = jax.lax.cummin(jnp.where(last, sums, len(counted)), reverse=True)
        up_to_first = jax.lax.cummax(jnp.where(first, sums - counted, 0))
        before = state.visits.at[entries].get(mode="promise_in_bounds").astype(jnp.int32)
        after = jnp.minimum(before + up_to_last - up_to_first, MOST_COUNTED).astype(jnp.uint16)
        return HashCountsState(state.visits.at[entries].set(after, mode="promise_in_bounds"))

    def num_seen(self, state: HashCountsState) -> UInt32[Array, ""]:
        """The number of different hashes that were seen."""
        return jnp.sum(state.visits > 0, dtype=jnp.uint32)

    def occupancy(self, state: HashCountsState) -> Float[Array, ""]:
        """The share of the table in use."""
        return self.num_seen(state) / 2.0**self.bits

    def _entry(self, x: Shaped[Array, "..."]) -> Int32[Array, ""]:
        return _fold(self.hash(x), self.bits).astype(jnp.int32)


def _fold(hashed: UInt32[Array, ""], bits: int) -> UInt32[Array, ""]:
    """A hash of up to `bits` bits as it is, and a longer one folded, so that each of its bits matters."""
    folded = hashed
    for shift in range(bits, 32, bits):
        folded = folded ^ (hashed >> shift)
    return folded & jnp.uint32(2**bits - 1)


def _place(entry: UInt32[Array, "*B"]) -> tuple[Int32[Array, "*B"], UInt32[Array, "*B"]]:
    """The word of the table that holds an entry, and the entry's bit in it."""
    return (entry // _WORD).astype(jnp.int32), jnp.uint32(1) << (entry % _WORD)


def _read(table: UInt32[Array, "N"], index: Int32[Array, "*B"]) -> UInt32[Array, "*B"]:
    return table.at[index].get(mode="promise_in_bounds")


def _add(
    table: UInt32[Array, "N"], index: Int32[Array, "B"], values: UInt32[Array, "B"]
) -> UInt32[Array, "N"]:
    return table.at[index].add(values, mode="promise_in_bounds")


def bits_for(number: int, most: int) -> int:
    """The fewest bits of a table of which so many states occupy at most a tenth; from 16 to `most`."""
    return min(max(16, (PLACES_PER_STATE * number - 1).bit_length()), most)


def _check_bits(bits: int, most: int) -> None:
    if not 1 <= bits <= most:
        raise ValueError(f"a table has 2**bits entries: give bits from 1 to {most}, got {bits}")
