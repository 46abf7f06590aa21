"""Deep Sea: one path of N moves to the right earns the treasure, and every other looks better at first.

The cells on and below the diagonal of an N x N grid are the states: each step goes one row down, and one
column left or right. The rules are those of bsuite's `deep_sea`, cell by cell.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from emcts.envs.base import Outcome, choose
from emcts.types import Key, Replaceable, record

MIN_SIZE, MAX_SIZE = 2, 100
MOVE_COST = 0.01  # of a whole path to the right; a single move costs this over N
TREASURE = 1.0


@record
class DeepSeaState(Replaceable):
    """Where the diver is. `row` N means that the episode is over.

    The right wall is left open after the last row, where nothing is observed. So `column == row` says, even
    at the end, that every move so far went right; and (N, N) is the end with the treasure.
    """

    row: Int[Array, ""]
    column: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class DeepSea:
    """Deep Sea of `size` x `size`.

    `seed` draws the action that means right for each cell, as bsuite's `mapping_seed` does; with None it is
    1 everywhere. `stochastic` pays N(1, 1) in place of 1 for the treasure, and N(0, 1) on top of the move
    cost for either action in the bottom left cell. Transitions are always deterministic.
    """

    size: int = 10
    seed: int | None = 0
    stochastic: bool = False

    def __post_init__(self) -> None:
        if not MIN_SIZE <= self.size <= MAX_SIZE:
            raise ValueError(f"Deep Sea of size {self.size}: give a size from {MIN_SIZE} to {MAX_SIZE}")
        if self.seed is not None and not 0 <= self.seed < 2**32:
            raise ValueError(
                f"seed {self.seed} cannot draw an action map: give an integer from 0 to 2**32 - 1, "
                "or None for the same action everywhere"
            )

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def deterministic(self) -> bool:
        return not self.stochastic

    @property
    def optimal_return(self) -> float:
        """Of the path that always goes right; its mean, where rewards are stochastic."""
        return TREASURE - MOVE_COST

    def with_map(self, right_actions: Int[Array, "N N"]) -> "DeepSea":
        """The same sea with another action map, which may be traced: so each seed of a `vmap` has its own."""
        return _MappedDeepSea(self.size, self.seed, self.stochastic, right_actions)

    @functools.cached_property
    def right_actions(self) -> Int[np.ndarray, "N N"]:
        """The action that means right, for each cell."""
        shape = (self.size, self.size)
        if self.seed is None:
            return np.ones(shape, np.int32)
        return np.random.RandomState(self.seed).binomial(1, 0.5, shape).astype(np.int32)

    def init(self, key: Key) -> DeepSeaState:
        return DeepSeaState(row=jnp.int32(0), column=jnp.int32(0))

    def step(self, state: DeepSeaState, action: Int[Array, ""], key: Key) -> tuple[DeepSeaState, Outcome]:
        over = state.row == self.size
        right = action == self.right_action(state)
        column = jnp.where(right, state.column + 1, jnp.maximum(state.column - 1, 0))
        moved = DeepSeaState(row=state.row + 1, column=column)
        reward = jnp.where(over, jnp.float32(0), self._reward(state, right, key))
        state = choose(over, state, moved)
        return state, Outcome(reward, terminated=state.row == self.size, truncated=jnp.bool_(False))

    def observe(self, state: DeepSeaState) -> Float[Array, "N N"]:
        """One-hot; all zeros once the episode is over."""
        rows = jax.nn.one_hot(state.row, self.size)
        columns = jax.nn.one_hot(state.column, self.size)
        return rows[:, None] * columns[None, :]

    def legal(self, state: DeepSeaState) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)

    def cell(self, state: DeepSeaState) -> Int[Array, ""]:
        """The number of the cell, row by row; N * N once the episode is over (`mode="drop"` skips it)."""
        return jnp.minimum(state.row * self.size + state.column, self.size**2)

    @property
    def num_states(self) -> int:
        """How many cells can be reached."""
        return self.size * (self.size + 1) // 2

    def index(self, state: DeepSeaState) -> Int[Array, ""]:
        """The number of a cell among those that can be reached, row by row; `num_states` once the episode is over."""
        return jnp.minimum(state.row * (state.row + 1) // 2 + state.column, self.num_states)

    def steps_left(self, state: DeepSeaState) -> Int[Array, ""]:
        """The number of steps until the episode is over."""
        return self.size - state.row

    def state_at(self, index: Int[Array, ""]) -> DeepSeaState:
        """The inverse of `index`."""
        rows, columns = np.tril_indices(self.size)
        return DeepSeaState(jnp.asarray(rows, jnp.int32)[index], jnp.asarray(columns, jnp.int32)[index])

    def right_action(self, state: DeepSeaState) -> Int[Array, ""]:
        return jnp.asarray(self.right_actions).at[state.row, state.column].get(mode="clip")

    def optimal_action(self, state: DeepSeaState) -> Int[Array, ""]:
        """Right on the diagonal; once off it the treasure is out of reach, and left is free."""
        right = self.right_action(state)
        return jnp.where(self.strayed(state), 1 - right, right)

    def optimal_value(self, state: DeepSeaState) -> Float[Array, ""]:
        """The undiscounted return still to be had, in the mean."""
        ahead = TREASURE - MOVE_COST * (1 - state.row / self.size)
        return jnp.where(self.strayed(state) | (state.row == self.size), 0.0, ahead)

    def strayed(self, state: DeepSeaState) -> Bool[Array, ""]:
        """Whether a move so far went left from the path: then the episode counts as bad in bsuite's score."""
        return state.column < state.row

    def solved(self, state: DeepSeaState) -> Bool[Array, ""]:
        """Whether the episode ended with the treasure."""
        return (state.row == self.size) & ~self.strayed(state)

    def _reward(self, state: DeepSeaState, right: Bool[Array, ""], key: Key) -> Float[Array, ""]:
        cost = MOVE_COST / self.size
        treasure = right & (state.column == self.size - 1)
        move = jnp.where(right, jnp.float32(-cost), jnp.float32(0))
        reward = jnp.where(treasure, jnp.float32(TREASURE - cost), move)
        if self.stochastic:
            bottom_left = (state.row == self.size - 1) & (state.column == 0)
            noise = jax.random.normal(key)
            reward = reward + jnp.where(treasure | bottom_left, noise, 0.0)
        return reward


@dataclasses.dataclass(frozen=True)
class _MappedDeepSea(DeepSea):
    right_actions: Any = None
