"""Work on the distinct rows of a batch, of which a program learns only while it runs how many there are.

Shapes are fixed when a program is compiled. So work is compiled for a few lengths, and each time the shortest that
suffices is run. Under `vmap`, such as over seeds, all take that of the largest: a choice of their own would run every
length.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, PyTree

from emcts.types import Replaceable, record

T = TypeVar("T")

EIGHTHS = (1, 2, 3, 4, 5, 6, 8)  # of a batch: the lengths that work is compiled for


def saves_work() -> bool:
    """Whether fewer rows take less time here: on a GPU, which computes rows side by side, that was not measured."""
    return jax.default_backend() == "cpu"


@record
class Distinct(Replaceable):
    """The distinct ones of some indices, in ascending order. The rest repeats the first, with a count of 0."""

    indices: Int[Array, "B"]
    counts: Int[Array, "B"]  # how often each occurs
    number: Int[Array, ""]  # of distinct ones


def distinct(indices: Int[Array, "B"], mask: Bool[Array, "B"]) -> Distinct:
    """Returns the distinct ones of the indices in the mask, and how often each occurs."""
    length = indices.shape[0]
    last = jnp.iinfo(indices.dtype).max
    ordered = jnp.sort(jnp.where(mask, indices, last))
    total = jnp.sum(mask, dtype=jnp.int32)
    places = jnp.arange(length, dtype=jnp.int32)
    begins = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]]) & (places < total)
    starts = jnp.sort(jnp.where(begins, places, total))
    ends = jnp.concatenate([starts[1:], total[None]])
    number = jnp.sum(begins, dtype=jnp.int32)
    first = jnp.where(number > 0, ordered[0], 0)
    return Distinct(
        indices=jnp.where(places < number, ordered.at[starts].get(mode="clip"), first),
        counts=ends - starts,
        number=number,
    )


def on_first_rows(function: Callable[[PyTree[Array]], T], number: Int[Array, ""], rows: PyTree[Array]) -> T:
    """Applies `function` to at least the first `number` rows [B, ...], and to as few more as lengths allow.

    Its result must not depend on the rows after those.
    """
    length = jax.tree.leaves(rows)[0].shape[0]
    lengths = sorted({-(-length * eighths // EIGHTHS[-1]) for eighths in EIGHTHS})
    branches = [lambda rows, n=n: function(jax.tree.map(lambda leaf: leaf[:n], rows)) for n in lengths]
    enough = jnp.searchsorted(jnp.array(lengths, jnp.int32), largest(number))
    return jax.lax.switch(enough, branches, rows)


def for_wanted(
    function: Callable[..., T], wanted: Int[Array, "M"], rows: Sequence[PyTree[Array]], at_once: int
) -> T:
    """Applies `function` to the rows [N, ...] whose places are wanted, about `at_once` of them at a time.

    Returns its results by the places of rows. Those of other rows are zeros, or computed to fill the last part. The
    result of a row must not depend on the others.
    """
    length = jax.tree.leaves(rows)[0].shape[0]
    parts = max(1, -(-length // at_once))
    size = -(-length // parts)
    is_wanted = jnp.zeros(length, bool).at[wanted].set(True)
    order = jnp.argsort(~is_wanted, stable=True)

    data = jax.tree.map(_without_key_type, rows)

    def take(places: Int[Array, "P"]) -> Sequence[PyTree[Array]]:
        return jax.tree.map(lambda leaf, like: _with_key_type(leaf[places], like), data, rows)

    def compute(part: Int[Array, ""], table: T) -> T:
        places = jax.lax.dynamic_slice_in_dim(order, part * size, size)
        return jax.tree.map(
            lambda of_all, of_part: of_all.at[places].set(of_part), table, function(*take(places))
        )

    shapes = jax.eval_shape(lambda: function(*take(jnp.arange(size))))
    nothing = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape[1:]), leaf.dtype), shapes)
    number = largest(jnp.sum(is_wanted, dtype=jnp.int32))
    return jax.lax.fori_loop(0, -(-number // size), compute, nothing)


def _without_key_type(leaf: Array) -> Array:
    """Returns random keys as numbers: JAX cannot see that each pass of a loop takes others of them."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _with_key_type(leaf: Array, like: Array) -> Array:
    return jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(like)) if _is_key(like) else leaf


def _is_key(leaf: Array) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@custom_vmap
def largest(number: Int[Array, ""]) -> Int[Array, ""]:
    """Returns the number; under `vmap`, the largest one of all, which is not batched."""
    return number


@largest.def_vmap
def _largest_of_all(
    axis_size: int, in_batched: list[bool], number: Int[Array, "S"]
) -> tuple[Int[Array, ""], bool]:
    return (largest(jnp.max(number)) if in_batched[0] else largest(number)), False
