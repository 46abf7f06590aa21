"""Data parallelism for one seed: parallel episodes and batches are sharded over devices, which all learn the same.

Every device runs the same program on its shard. Random numbers are drawn as if a device had all of the data, so that
training depends on the number of devices by rounding alone.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from emcts.types import Key

AXIS = "data"
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class DataParallel:
    """Shards of equal size over `num_devices`, in the order of the devices along the axis `data` of the mesh."""

    num_devices: int = 1

    @property
    def index(self) -> Int[Array, ""]:
        """The number of this device."""
        return jax.lax.axis_index(AXIS) if self.num_devices > 1 else jnp.int32(0)

    def shard(self, tree: PyTree, axis: int = 0) -> PyTree:
        """Returns this device's shard of arrays that all devices have."""
        if self.num_devices == 1:
            return tree

        def cut(leaf: Array) -> Array:
            size = leaf.shape[axis] // self.num_devices
            return jax.lax.dynamic_slice_in_dim(leaf, self.index * size, size, axis)

        return jax.tree.map(cut, tree)

    def gather(self, shards: PyTree, axis: int = 0) -> PyTree:
        """Concatenates the shards of all devices."""
        if self.num_devices == 1:
            return shards
        return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS, axis=axis, tiled=True), shards)

    def from_first(self, tree: PyTree) -> PyTree:
        """Returns what the first device has."""
        if self.num_devices == 1:
            return tree
        return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS)[0], tree)

    def sum(self, tree: PyTree) -> PyTree:
        """Sums over all devices."""
        return tree if self.num_devices == 1 else jax.lax.psum(tree, AXIS)

    def max(self, array: Array) -> Array:
        """Returns the largest value of all devices."""
        return array if self.num_devices == 1 else jax.lax.pmax(array, AXIS)

    def scatter(self, rows: PyTree, groups: int) -> PyTree:
        """Moves rows to their shards: each row is on one device, and zero on the others.

        Rows form `groups` of equal size, one after the other; every device gets its shard of each group.
        """
        if self.num_devices == 1:
            return rows

        def reduce_scatter(leaf: Array) -> Array:
            number = leaf.astype(jnp.int32) if leaf.dtype == bool else leaf
            grouped = number.reshape(groups, len(leaf) // groups, *leaf.shape[1:])
            scattered = jax.lax.psum_scatter(grouped, AXIS, scatter_dimension=1, tiled=True)
            return jax.lax.collapse(scattered, 0, 2).astype(leaf.dtype)

        return jax.tree.map(reduce_scatter, rows)

    def map_rows(self, function: Callable[..., PyTree], *rows: PyTree) -> PyTree:
        """Applies a function to rows that all devices have: each device computes a shard, all get the result."""
        if self.num_devices == 1:
            return function(*rows)
        number = jax.tree.leaves(rows)[0].shape[0]
        padded = jnp.minimum(jnp.arange(-(-number // self.num_devices) * self.num_devices), number - 1)
        shard = self.shard(jax.tree.map(lambda leaf: leaf[padded], rows))
        return jax.tree.map(lambda leaf: leaf[:number], self.gather(function(*shard)))

    def check_divisible(self, number: int, what: str) -> None:
        """Raises unless `number` can be sharded evenly."""
        if number % self.num_devices:
            raise ValueError(
                f"{what} is {number}, which {self.num_devices} devices cannot share evenly: give a seed fewer devices"
            )


SINGLE_DEVICE = DataParallel()


def per_example(function: Callable[..., T]) -> Callable[..., T]:
    """Maps a function of a key and batches over their rows, with one key per row.

    The result of a row does not depend on the other rows of the batch.
    """

    def one(key: Key, *rows: PyTree) -> T:
        batches = jax.tree.map(lambda leaf: leaf[None], rows)
        return jax.tree.map(lambda leaf: leaf[0], function(key, *batches))

    return jax.vmap(one)
