"""Functions of a batch that stay one batch under `vmap`.

An interpreter that drops the machines that are done must see all of them at once. JAX would batch its loops
instead, once per `vmap`, and turn every choice into a select.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap


def folded(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose arguments and results lead with a batch axis, with each `vmap` folded into it."""
    batched = custom_vmap(function)

    @batched.def_vmap
    def _fold(axis_size: int, in_batched: list[bool], *arguments: jax.Array) -> tuple[Any, Any]:
        def fold(argument: jax.Array, is_batched: bool) -> jax.Array:
            if not is_batched:
                argument = jnp.broadcast_to(argument[None], (axis_size, *argument.shape))
            return argument.reshape(axis_size * argument.shape[1], *argument.shape[2:])

        results = batched(*[fold(a, b) for a, b in zip(arguments, in_batched, strict=True)])
        unfolded = jax.tree.map(
            lambda r: r.reshape(axis_size, r.shape[0] // axis_size, *r.shape[1:]), results
        )
        return unfolded, jax.tree.map(lambda _: True, results)

    return batched
