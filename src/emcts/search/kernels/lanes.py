"""Rows of actions in a kernel: Triton wants powers of two, so a row has lanes, the last of which may not exist."""

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array

MAX_ELEMENTS = 2**31 - 1  # offsets in a kernel are 32 bits wide


class Lanes:
    """Reads and writes rows and single numbers of one batch element."""

    def __init__(self, num_actions: int):
        self.batch = pl.program_id(0)
        self.index = lax.broadcasted_iota(jnp.int32, (pl.next_power_of_2(num_actions),), 0)
        self.exist = self.index < num_actions

    def row(self, ref: Any, *node: Any) -> Array:
        """The row of a node, or the element's only row."""
        return plt.load(ref.at[(self.batch, *node, self.index)], mask=self.exist, other=0)

    def write_row(self, ref: Any, node: Any, value: Array) -> None:
        plt.store(ref.at[self.batch, node, self.index], value, mask=self.exist)

    def gather(self, ref: Any, nodes: Array) -> Array:
        """A number for each lane, of the lane's node; 0 where there is none."""
        found = nodes >= 0
        return plt.load(ref.at[self.batch, jnp.where(found, nodes, 0)], mask=found, other=0)

    def pick(self, row: Array, action: Array) -> Array:
        return jnp.sum(jnp.where(self.index == action, row, jnp.zeros_like(row)))

    def number(self, ref: Any, *node: Any) -> Array:
        return plt.load(ref.at[(self.batch, *node)])

    def write(self, ref: Any, node: Any, value: Array) -> None:
        plt.store(ref.at[self.batch, node], value)

    def write_own(self, ref: Any, value: Array) -> None:
        plt.store(ref.at[self.batch], value)


def warps(num_actions: int) -> int:
    """Enough threads for a few lanes each."""
    return min(8, max(1, pl.next_power_of_2(num_actions) // 128))
