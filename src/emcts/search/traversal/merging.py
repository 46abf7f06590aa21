"""Makes `vmap` over a batched function one call of it."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

Result = TypeVar("Result")


def merge_under_vmap(function: Callable[..., Result]) -> Callable[..., Result]:
    """Makes `vmap` of a function over batches one call with all elements in one batch.

    Each argument and result is a pytree of arrays with a leading batch axis, and rows must not depend on each other.
    Arrays without axes are the same for all rows. Without this, `vmap` would turn the loops inside into selects over
    everything they carry.
    """
    merged = jax.custom_batching.custom_vmap(function)

    @merged.def_vmap
    def _(axis_size: int, in_batched: list[Any], *arguments: Any) -> tuple[Any, Any]:
        def join(leaf: Array, batched: bool) -> Array:
            if not batched and leaf.ndim == 0:
                return leaf
            if not batched:
                leaf = jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
            return jax.lax.collapse(leaf, 0, 2)

        results = merged(*jax.tree.map(join, arguments, tuple(in_batched)))
        split = jax.tree.map(
            lambda leaf: leaf.reshape(axis_size, len(leaf) // axis_size, *leaf.shape[1:]), results
        )
        return split, jax.tree.map(lambda _: True, results)

    return merged
