"""What one program of a Pallas kernel reads and writes: the numbers and rows of one batch element."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array, Int

plt: Any
try:
    from jax.experimental.pallas import triton as plt
except ImportError:  # JAX has announced that it will remove this backend: searches then run in plain JAX
    plt = None

MAX_ELEMENTS = 2**31 - 1  # offsets in a kernel are 32 bits wide
COPIED_AT_ONCE = 1024
# Entries of rows: with more, a kernel takes registers from the batch elements beside it. In a small batch none wait.
SELECTED_AT_ONCE, SELECTED_AT_ONCE_IN_SMALL_BATCHES, SMALL_BATCH = 64, 256, 1024

Ref = Any  # a reference to an array in device memory
Scalar = Int[Array, ""]


class Program:
    """Loads and stores of one batch element: single numbers, and rows with one entry per action.

    Triton needs rows of a power of two; `mask` marks the entries that exist.
    """

    def __init__(self, num_actions: int):
        self.batch = pl.program_id(0)
        self.num_actions = num_actions
        self.actions = lax.broadcasted_iota(jnp.int32, (pl.next_power_of_2(num_actions),), 0)
        self.mask = self.actions < num_actions

    def load(self, ref: Ref, *node: Scalar) -> Array:
        return plt.load(ref.at[(self.batch, *node)])

    def store(self, ref: Ref, value: Array, *node: Scalar) -> None:
        plt.store(ref.at[(self.batch, *node)], value)

    def load_at(self, ref: Ref, *index: Array, mask: Array | None = None) -> Array:
        """Returns a number of each of several nodes, or of one; 0 where `mask` is False."""
        return plt.load(ref.at[(self.batch, *index)], mask=mask, other=None if mask is None else 0)

    def store_at(self, ref: Ref, values: Array, *index: Array, mask: Array | None = None) -> None:
        plt.store(ref.at[(self.batch, *index)], values, mask=mask)

    def load_row(self, ref: Ref, *node: Array, start: int = 0) -> Array:
        """Returns the entries of the actions of a node, or of several nodes, 0 beyond the last action."""
        shape = (*(node[0].shape if node else ()), *self.actions.shape)
        lead = len(shape) - 1
        at = (lax.broadcast_in_dim(index, shape, tuple(range(lead))) if lead else index for index in node)
        entries, mask = (
            lax.broadcast_in_dim(row, shape, (lead,)) for row in (start + self.actions, self.mask)
        )
        return plt.load(ref.at[(self.batch, *at, entries)], mask=mask, other=0)

    def load_common(self, ref: Ref) -> Array:
        """Returns a number that all batch elements share."""
        return plt.load(ref.at[jnp.int32(0)])

    def load_any(self, ref: Ref) -> Array:
        """Returns the number or the row of this batch element."""
        return self.load(ref) if ref.ndim == 1 else self.load_row(ref)

    def store_row(self, ref: Ref, row: Array, *node: Scalar) -> None:
        plt.store(ref.at[(self.batch, *node, self.actions)], row, mask=self.mask)

    def rows_of_outcomes(self, ref: Ref, node: Array, num_outcomes: int, absent: int) -> list[Array]:
        """Returns the entries of a node's actions, a row for each outcome; `absent` beyond the last action."""
        rows = [self.load_row(ref, node, start=k * self.num_actions) for k in range(num_outcomes)]
        return [
            jnp.where(lax.broadcast_in_dim(self.mask, row.shape, (row.ndim - 1,)), row, absent)
            for row in rows
        ]

    def pick(self, row: Array, action: Scalar) -> Array:
        """Returns the entry of one action."""
        return jnp.sum(jnp.where(self.actions == action, row, jnp.zeros_like(row)))

    def copy(
        self, source: Ref, source_node: tuple[Scalar, ...], target: Ref, target_node: tuple[Scalar, ...]
    ) -> None:
        """Copies a row of any length."""
        length = source.shape[-1]
        width = min(COPIED_AT_ONCE, pl.next_power_of_2(length))
        lanes = lax.broadcasted_iota(jnp.int32, (width,), 0)

        def part(index: Array, _: None) -> None:
            at = index * width + lanes
            mask = at < length
            row = plt.load(source.at[(self.batch, *source_node, at)], mask=mask, other=0)
            plt.store(target.at[(self.batch, *target_node, at)], row, mask=mask)

        parts = pl.cdiv(length, width)
        if parts == 1:
            part(jnp.int32(0), None)
        else:
            jax.lax.fori_loop(0, parts, part, None)


def synchronise() -> None:
    """Lets all threads of a program see what any of them wrote."""
    plt.debug_barrier()


def nodes_at_once(num_actions: int, batch_size: int) -> int:
    """Returns at how many nodes a program evaluates a rule at the same time."""
    is_small = batch_size <= SMALL_BATCH
    entries = SELECTED_AT_ONCE_IN_SMALL_BATCHES if is_small else SELECTED_AT_ONCE
    return max(1, min(32, entries // pl.next_power_of_2(num_actions)))


def compiler_params(num_actions: int) -> Any:
    """Chooses enough threads for a few actions each."""
    num_warps = min(8, max(1, pl.next_power_of_2(num_actions) // 128))
    return plt.CompilerParams(num_warps=num_warps, num_stages=1)
