"""Deep Sea: only N actions "right" in a row reach the goal, and each of them costs more than going left.

The cells on and below the diagonal of an N x N grid are the states: each step goes one row down, and one column left
or right. The rules are those of bsuite's `deep_sea`, cell by cell; so is the score, by the regret of episodes.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from emcts.envs.base import Outcome, tree_where
from emcts.types import Key, Replaceable, record

MIN_SIZE, MAX_SIZE = 2, 100
MOVE_COST = 0.01  # of N actions to the right; one costs this over N
GOAL_REWARD = 1.0  # of the step to the goal
SOLVED_BELOW = 0.9  # average regret

Regrets = Float[np.ndarray, "E"] | Bool[np.ndarray, "E"] | Int[np.ndarray, "E"]


@record
class DeepSeaState(Replaceable):
    """The agent's cell. `row` N means that the episode is over.

    After the last row, where nothing is observed, the grid has no right wall. So `column == row` says, even at the end,
    that every action so far went right; and (N, N) is the end at the goal.
    """

    row: Int[Array, ""]  # from 0, the top, on
    column: Int[Array, ""]  # from 0, the left, on


@dataclasses.dataclass(frozen=True)
class DeepSea:
    """Deep Sea of `size` x `size`.

    `seed` draws the action that means right for each cell, as bsuite's `mapping_seed` does; with None it is 1
    everywhere. `stochastic` draws the reward of the goal from N(1, 1) in place of 1, and adds a draw from N(0, 1) to
    the reward of either action in the bottom left cell. Transitions are always deterministic.
    """

    size: int = 10  # rows and columns, 2 to 100
    seed: int | None = 0  # of the action map
    stochastic: bool = False  # whether rewards have noise

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
        """Whether `step` ignores its key."""
        return not self.stochastic

    @property
    def optimal_return(self) -> float:
        """The return of going right in every step; its mean, where rewards are stochastic."""
        return GOAL_REWARD - MOVE_COST

    def with_map(self, right_actions: Int[Array, "N N"] | Int[np.ndarray, "N N"]) -> "DeepSea":
        """The same size with another action map, which may be traced: so each seed of a `vmap` has its own."""
        return _MappedDeepSea(self.size, self.seed, self.stochastic, right_actions=right_actions)

    @functools.cached_property
    def right_actions(self) -> Int[Array, "N N"] | Int[np.ndarray, "N N"]:
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
        state = tree_where(over, state, moved)
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
        """The number of cells that can be reached."""
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

    def grid(self, values: Float[Array, "S"]) -> Float[Array, "N N"]:
        """One value per state, by `index`, as a map; NaN where no path leads."""
        rows, columns = np.tril_indices(self.size)
        return jnp.full((self.size, self.size), jnp.nan).at[rows, columns].set(values)

    def render(self, state: DeepSeaState | None = None, values: ArrayLike | None = None) -> str:
        """The grid as text: `A` the agent, `$` the goal, and the other cells shaded by `values` [N, N]."""
        from emcts.envs.deep_sea import render  # which imports matplotlib

        cell = None if state is None or int(state.row) == self.size else (int(state.row), int(state.column))
        return render.text(self.size, cell, values)

    def action_names(self, state: DeepSeaState) -> tuple[str, str]:
        """`left` and `right`, as the cell has it."""
        row, column = (min(int(at), self.size - 1) for at in (state.row, state.column))
        return ("left", "right") if np.asarray(self.right_actions)[row, column] else ("right", "left")

    def right_action(self, state: DeepSeaState) -> Int[Array, ""]:
        """The action that means right in a state."""
        return jnp.asarray(self.right_actions).at[state.row, state.column].get(mode="clip")

    def optimal_action(self, state: DeepSeaState) -> Int[Array, ""]:
        """Right on the diagonal; off it the goal is out of reach, and left costs nothing."""
        right = self.right_action(state)
        return jnp.where(self.strayed(state), 1 - right, right)

    def optimal_value(self, state: DeepSeaState) -> Float[Array, ""]:
        """The expected undiscounted return of the optimal policy from here on."""
        ahead = GOAL_REWARD - MOVE_COST * (1 - state.row / self.size)
        return jnp.where(self.strayed(state) | (state.row == self.size), 0.0, ahead)

    def strayed(self, state: DeepSeaState) -> Bool[Array, ""]:
        """Whether an action so far went left of the diagonal: the episode then counts as bad in bsuite's score."""
        return state.column < state.row

    def solved(self, state: DeepSeaState) -> Bool[Array, ""]:
        """Whether the episode ended at the goal."""
        return (state.row == self.size) & ~self.strayed(state)

    def _reward(self, state: DeepSeaState, right: Bool[Array, ""], key: Key) -> Float[Array, ""]:
        cost = MOVE_COST / self.size
        at_goal = right & (state.column == self.size - 1)
        move = jnp.where(right, jnp.float32(-cost), jnp.float32(0))
        reward = jnp.where(at_goal, jnp.float32(GOAL_REWARD - cost), move)
        if self.stochastic:
            bottom_left = (state.row == self.size - 1) & (state.column == 0)
            noise = jax.random.normal(key)
            reward = reward + jnp.where(at_goal | bottom_left, noise, 0.0)
        return reward


@dataclasses.dataclass(frozen=True)
class _MappedDeepSea(DeepSea):
    right_actions: Int[Array, "N N"] | Int[np.ndarray, "N N"] = dataclasses.field(kw_only=True)


def regret(returns: Float[np.ndarray, "E"], optimal_return: float) -> Float[np.ndarray, "E"]:
    """The share of the optimal return that each episode missed: 0 is the best, 1 a return of nothing."""
    if optimal_return <= 0:
        raise ValueError(f"optimal_return is {optimal_return}: regret as a share of it needs a positive one")
    return 1 - returns / optimal_return


def average_regret(regrets: Regrets) -> Float[np.ndarray, "E"]:
    """The mean over the episodes so far, after each of them.

    bsuite counts an episode as 1 if it strayed from the path and as 0 if not: pass those flags. With `regret` of real
    returns the two differ by the move costs alone.
    """
    episodes = np.arange(1, len(regrets) + 1)
    return np.cumsum(regrets, dtype=np.float64) / episodes


def episodes_to_solve(regrets: Regrets, below: float = SOLVED_BELOW) -> int | None:
    """The number of episodes until the average regret first fell below 90%; None if it never did.

    Times `env.size`, this is the number of environment steps: the axis "until 90% regret" of the paper's figure.
    """
    (solved,) = np.nonzero(average_regret(regrets) < below)
    return int(solved[0]) + 1 if len(solved) else None
