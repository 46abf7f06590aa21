"""One seed on several devices: lanes and samples are dealt out to them, and all learn the same.

Every device runs the same program on its part. What it draws at random, it draws as if it had the whole, so that
training does not depend on the number of devices, but for rounding.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

AXIS = "data"


@dataclasses.dataclass(frozen=True)
class DataParallel:
    """Over `count` devices, along the axis `data` of the mesh. Parts are equal, and in the order of the devices."""

    count: int = 1

    @property
    def index(self) -> Int[Array, ""]:
        """Which of the devices this is."""
        return jax.lax.axis_index(AXIS) if self.count > 1 else jnp.int32(0)

    def part(self, whole: PyTree, axis: int = 0) -> PyTree:
        """Of what all devices have, the part of this one."""
        if self.count == 1:
            return whole

        def cut(leaf: Array) -> Array:
            size = leaf.shape[axis] // self.count
            return jax.lax.dynamic_slice_in_dim(leaf, self.index * size, size, axis)

        return jax.tree.map(cut, whole)

    def whole(self, part: PyTree, axis: int = 0) -> PyTree:
        """The parts of all devices, joined."""
        if self.count == 1:
            return part
        return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS, axis=axis, tiled=True), part)

    def total(self, part: PyTree) -> PyTree:
        """The sum over all devices."""
        return part if self.count == 1 else jax.lax.psum(part, AXIS)

    def largest(self, part: Array) -> Array:
        return part if self.count == 1 else jax.lax.pmax(part, AXIS)

    def deal(self, rows: PyTree, groups: int) -> PyTree:
        """Rows that are each on one device, and zero on the others, to where they belong.

        They are in so many groups, one after the other, and every device gets its part of each.
        """
        if self.count == 1:
            return rows

        def to_their_place(leaf: Array) -> Array:
            number = leaf.astype(jnp.int32) if leaf.dtype == bool else leaf
            grouped = number.reshape(groups, len(leaf) // groups, *leaf.shape[1:])
            sharded_axes = jax.lax.psum_scatter(grouped, AXIS, scatter_dimension=1, tiled=True)
            return jax.lax.collapse(sharded_axes, 0, 2).astype(leaf.dtype)

        return jax.tree.map(to_their_place, rows)

    def work(self, function: Callable[..., Any], *rows: PyTree) -> PyTree:
        """A function of rows that all devices have: each computes a part, and all get the whole."""
        if self.count == 1:
            return function(*rows)
        number = jax.tree.leaves(rows)[0].shape[0]
        padded = jnp.minimum(jnp.arange(-(-number // self.count) * self.count), number - 1)
        mine = self.part(jax.tree.map(lambda leaf: leaf[padded], rows))
        return jax.tree.map(lambda leaf: leaf[:number], self.whole(function(*mine)))

    def check(self, number: int, what: str) -> None:
        """That so many can be dealt out."""
        if number % self.count:
            raise ValueError(
                f"{what} is {number}, which {self.count} devices cannot share evenly: give a seed fewer devices"
            )


SINGLE_DEVICE = DataParallel()
"""A seed on one device."""


def per_example(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a key and batches, for each row by itself, with a key of its own.

    What comes out then does not depend on which other rows are in the batch.
    """

    def one(key: Any, *rows: Any) -> Any:
        batches = jax.tree.map(lambda leaf: leaf[None], rows)
        return jax.tree.map(lambda leaf: leaf[0], function(key, *batches))

    return jax.vmap(one)
