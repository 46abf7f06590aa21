"""Gymnasium's FrozenLake 8 x 8 as a finite environment of this package, whose optimal values are known."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from emcts.envs import Outcome
from emcts.types import Key, Replaceable, record

MAP = """
SFFFFFFF
FFFFFFFF
FFFHFFFF
FFFFFHFF
FFFHFFFF
FHHFFFHF
FHFFHFHF
FFFHFFFG
"""
CELLS = "".join(MAP.split())
SIZE = 8
GOAL = CELLS.index("G")
HOLES = np.array([cell == "H" for cell in CELLS])
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)], np.int32)  # left, down, right, up
ICE = tuple(index for index, cell in enumerate(CELLS) if cell in "SF")
"""The cells where an episode goes on, by which states have numbers."""


@record
class LakeState(Replaceable):
    """The number of the cell, row by row."""

    cell: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class FrozenLake:
    """Cross the lake from one corner to the opposite one, which pays 1. A hole ends the episode, and pays nothing.

    If it is slippery, a step goes where it was meant to in one of three cases, else to the left or right of that.
    """

    slippery: bool = True

    @property
    def num_actions(self) -> int:
        return len(MOVES)

    @property
    def num_states(self) -> int:
        return len(ICE)

    @property
    def deterministic(self) -> bool:
        return not self.slippery

    @functools.cached_property
    def transitions(self) -> np.ndarray:
        """The cells [cells, 4, 3] that each action may lead to, equally likely. Holes and goal absorb."""
        cells = np.stack(np.unravel_index(np.arange(SIZE**2), (SIZE, SIZE)), axis=1)
        moved = np.clip(cells[:, None] + MOVES[None], 0, SIZE - 1) @ [SIZE, 1]
        turns = (0, 1, -1) if self.slippery else (0, 0, 0)
        led_to = np.stack([np.roll(moved, turn, axis=1) for turn in turns], axis=2)
        over = ~np.isin(np.arange(SIZE**2), ICE)
        return np.where(over[:, None, None], np.arange(SIZE**2)[:, None, None], led_to).astype(np.int32)

    def init(self, key: Key) -> LakeState:
        return LakeState(jnp.int32(0))

    def step(self, state: LakeState, action: Int[Array, ""], key: Key) -> tuple[LakeState, Outcome]:
        case = jax.random.randint(key, (), 0, 3)
        after = jnp.asarray(self.transitions)[state.cell, action, case]
        pays = (after == GOAL) & (state.cell != GOAL)
        over = jnp.asarray(HOLES)[after] | (after == GOAL)
        return LakeState(after), Outcome(pays.astype(jnp.float32), over, jnp.bool_(False))

    def observe(self, state: LakeState) -> Float[Array, "cells"]:
        return jax.nn.one_hot(state.cell, SIZE**2)

    def legal(self, state: LakeState) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)

    def index(self, state: LakeState) -> Int[Array, ""]:
        numbers = np.full(SIZE**2, len(ICE), np.int32)
        numbers[list(ICE)] = np.arange(len(ICE))
        return jnp.asarray(numbers)[state.cell]

    def state_at(self, index: Int[Array, ""]) -> LakeState:
        return LakeState(jnp.asarray(np.array(ICE, np.int32))[index])

    def grid(self, values: Float[Array, "S"]) -> Float[Array, "H W"]:
        return jnp.full(SIZE**2, jnp.nan).at[jnp.array(ICE)].set(values).reshape(SIZE, SIZE)

    def optimal_qvalues(self, discount: float) -> Float[np.ndarray, "cells 4"]:
        """Returns the value of every action, by value iteration."""
        playing = np.isin(np.arange(SIZE**2), ICE)
        qvalues = np.zeros((SIZE**2, self.num_actions))
        for _ in range(2000):
            values = np.where(playing, qvalues.max(axis=1), 0.0)
            after = (self.transitions == GOAL) + discount * values[self.transitions]
            qvalues = np.where(playing[:, None], after.mean(axis=2), 0.0)
        return qvalues
