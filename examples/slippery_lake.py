"""A frozen lake whose ice is slippery: a small stochastic world with a known solution.

cd examples && emcts train slippery_lake:SlipperyLake --env size=8 --time-limit 200 --agent az
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from emcts.envs import Outcome
from emcts.types import Key, Replaceable, record

MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)], np.int32)  # up, right, down, left
HOLES = {
    4: ((1, 3), (2, 1), (3, 1)),
    8: ((1, 4), (2, 1), (2, 6), (3, 3), (4, 5), (5, 1), (5, 2), (6, 4), (6, 6), (7, 3)),
}


@record
class LakeState(Replaceable):
    """The number of the cell, row by row."""

    cell: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class SlipperyLake:
    """Cross the lake from one corner to the opposite one, which pays 1. A hole ends the episode, and pays nothing.

    A step goes where it was meant to in one of three cases, else to the left or to the right of that. The border stops.
    """

    size: int = 4

    def __post_init__(self) -> None:
        if self.size not in HOLES:
            raise ValueError(f"there is no lake of size {self.size}: give 4 or 8")

    @property
    def num_actions(self) -> int:
        return 4

    @property
    def num_observations(self) -> int:
        return self.size**2

    @property
    def deterministic(self) -> bool:
        return False

    @functools.cached_property
    def holes(self) -> np.ndarray:
        """Of each cell, whether it is a hole."""
        return np.isin(
            np.arange(self.size**2), [row * self.size + column for row, column in HOLES[self.size]]
        )

    @functools.cached_property
    def transitions(self) -> np.ndarray:
        """The cells [cells, 4, 3] that each action may lead to, equally likely. Holes and goal absorb."""
        cells = np.stack(np.unravel_index(np.arange(self.size**2), (self.size, self.size)), axis=1)
        moved = np.clip(cells[:, None] + MOVES[None], 0, self.size - 1) @ [self.size, 1]
        slipped = np.stack([np.roll(moved, shift, axis=1) for shift in (0, 1, -1)], axis=2)
        over = self.holes | (np.arange(self.size**2) == self.size**2 - 1)
        return np.where(over[:, None, None], np.arange(self.size**2)[:, None, None], slipped).astype(np.int32)

    def init(self, key: Key) -> LakeState:
        return LakeState(jnp.int32(0))

    def step(self, state: LakeState, action: Int[Array, ""], key: Key) -> tuple[LakeState, Outcome]:
        slip = jax.random.randint(key, (), 0, 3)
        after = jnp.asarray(self.transitions)[state.cell, action, slip]
        goal = self.size**2 - 1
        pays = (after == goal) & (state.cell != goal)
        over = jnp.asarray(self.holes)[after] | (after == goal)
        return LakeState(after), Outcome(pays.astype(jnp.float32), over, jnp.bool_(False))

    def observe(self, state: LakeState) -> Int[Array, ""]:
        return state.cell

    def legal(self, state: LakeState) -> Bool[Array, "A"]:
        return jnp.ones(4, bool)

    def optimal_qvalues(self, discount: float) -> Float[np.ndarray, "cells 4"]:
        """Returns the value of every action, by value iteration."""
        goal = self.size**2 - 1
        playing = ~self.holes & (np.arange(self.size**2) != goal)
        qvalues = np.zeros((self.size**2, 4))
        for _ in range(2000):
            values = np.where(playing, qvalues.max(axis=1), 0.0)
            after = (self.transitions == goal) + discount * values[self.transitions]
            qvalues = np.where(playing[:, None], after.mean(axis=2), 0.0)
        return qvalues
