"""`vmap` over searches of a batch, as a larger batch."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

Result = TypeVar("Result")


def merge_under_vmap(function: Callable[..., Result]) -> Callable[..., Result]:
    """Makes `vmap` of a function over batches one call with all elements in one batch.

    Each argument and result is a pytree of arrays with a leading batch axis, and rows must not depend on each other.
    Left to itself, `vmap` would turn the loops inside into selects over everything they carry.
    """
    merged = jax.custom_batching.custom_vmap(function)

    @merged.def_vmap
    def _(axis_size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def join(leaf: Any, batched: bool) -> Any:
            if not batched:
                leaf = jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
            return jax.lax.collapse(leaf, 0, 2)

        joined = jax.tree.map(join, arguments, tuple(in_batched))
        results = merged(*joined)
        apart = jax.tree.map(
            lambda leaf: leaf.reshape(axis_size, len(leaf) // axis_size, *leaf.shape[1:]), results
        )
        return apart, jax.tree.map(lambda _: True, results)

    return merged
