"""Gymnasium's FrozenLake as a finite environment of JAX, whose optimal values are known."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from emcts.envs import Outcome
from emcts.types import Key, Replaceable, record

MAPS = {
    4: "SFFF FHFH FFFH HFFG",
    8: "SFFFFFFF FFFFFFFF FFFHFFFF FFFFFHFF FFFHFFFF FHHFFFHF FHFFHFHF FFFHFFFG",
}
"""The rows of each map: the start, frozen cells, holes and the goal, which is the last cell."""
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)], np.int32)  # left, down, right, up


@record
class LakeState(Replaceable):
    """The number of the cell, row by row."""

    cell: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class FrozenLake:
    """Cross the lake from one corner to the opposite one, which pays 1. A hole ends the episode, and pays nothing.

    If it is slippery, a step goes where it was meant to in one of three cases, else to the left or right of that.
    """

    size: int = 8
    slippery: bool = True

    def __post_init__(self) -> None:
        if self.size not in MAPS:
            raise ValueError(f"there is no lake of size {self.size}: give 4 or 8")

    @property
    def num_actions(self) -> int:
        return len(MOVES)

    @property
    def num_states(self) -> int:
        return len(self.ice)

    @property
    def deterministic(self) -> bool:
        return not self.slippery

    @property
    def goal(self) -> int:
        return self.size**2 - 1

    @functools.cached_property
    def cells(self) -> str:
        return MAPS[self.size].replace(" ", "")

    @functools.cached_property
    def ice(self) -> np.ndarray:
        """The cells where an episode goes on, by which states have numbers."""
        return np.array([index for index, cell in enumerate(self.cells) if cell in "SF"], np.int32)

    @functools.cached_property
    def transitions(self) -> np.ndarray:
        """The cells [cells, 4, 3] that each action may lead to, equally likely. Holes and goal absorb."""
        numbers = np.arange(self.size**2)
        cells = np.stack(np.unravel_index(numbers, (self.size, self.size)), axis=1)
        moved = np.clip(cells[:, None] + MOVES[None], 0, self.size - 1) @ [self.size, 1]
        turns = (0, 1, -1) if self.slippery else (0, 0, 0)
        led_to = np.stack([np.roll(moved, turn, axis=1) for turn in turns], axis=2)
        over = ~np.isin(numbers, self.ice)
        return np.where(over[:, None, None], numbers[:, None, None], led_to).astype(np.int32)

    def init(self, key: Key) -> LakeState:
        return LakeState(jnp.int32(0))

    def step(self, state: LakeState, action: Int[Array, ""], key: Key) -> tuple[LakeState, Outcome]:
        case = jax.random.randint(key, (), 0, 3)
        after = jnp.asarray(self.transitions)[state.cell, action, case]
        pays = (after == self.goal) & (state.cell != self.goal)
        over = ~jnp.isin(after, jnp.asarray(self.ice))
        return LakeState(after), Outcome(pays.astype(jnp.float32), over, jnp.bool_(False))

    def observe(self, state: LakeState) -> Float[Array, "cells"]:
        return jax.nn.one_hot(state.cell, self.size**2)

    def legal(self, state: LakeState) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)

    def index(self, state: LakeState) -> Int[Array, ""]:
        numbers = np.full(self.size**2, len(self.ice), np.int32)
        numbers[self.ice] = np.arange(len(self.ice))
        return jnp.asarray(numbers)[state.cell]

    def state_at(self, index: Int[Array, ""]) -> LakeState:
        return LakeState(jnp.asarray(self.ice)[index])

    def grid(self, values: Float[Array, "S"]) -> Float[Array, "H W"]:
        filled = jnp.full(self.size**2, jnp.nan).at[jnp.asarray(self.ice)].set(values)
        return filled.reshape(self.size, self.size)

    def optimal_qvalues(self, discount: float) -> Float[np.ndarray, "cells 4"]:
        """Returns the value of every action, by value iteration."""
        playing = np.isin(np.arange(self.size**2), self.ice)
        qvalues = np.zeros((self.size**2, self.num_actions))
        for _ in range(2000):
            values = np.where(playing, qvalues.max(axis=1), 0.0)
            after = (self.transitions == self.goal) + discount * values[self.transitions]
            qvalues = np.where(playing[:, None], after.mean(axis=2), 0.0)
        return qvalues
