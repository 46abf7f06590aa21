"""Four rooms, with a key in one and a locked door to another: an environment of one's own that `emcts train` trains.

cd examples && emcts train rooms:FourRooms --env size=12 --time-limit 200 --agent e-az
"""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from emcts.envs import Outcome
from emcts.types import Key, Replaceable, record

MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)], np.int32)  # up, right, down, left


@record
class RoomsState(Replaceable):
    """The cell of the agent, whether it has the key, and whether it reached the goal."""

    cell: Int[Array, "2"]
    has_key: Bool[Array, ""]
    at_goal: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class FourRooms:
    """Fetch the key in the lower left room, open the door of the lower right one, reach the goal in its far corner.

    Stepping on the key takes it; stepping on the door opens it with the key, and is like a wall without. Every step
    pays `step_reward`, the one to the goal `goal_reward` as well.
    """

    size: int = 12
    goal_reward: float = 1.0
    step_reward: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 7:
            raise ValueError(f"rooms of size {self.size} have no inside: give 7 or more")

    @property
    def num_actions(self) -> int:
        return 4

    @property
    def deterministic(self) -> bool:
        return True

    @functools.cached_property
    def walls(self) -> np.ndarray:
        """The cells that are walls; the door is none."""
        size, middle = self.size, self.size // 2
        walls = np.zeros((size, size), bool)
        walls[[0, -1], :] = walls[:, [0, -1]] = True
        walls[middle, :] = walls[:, middle] = True
        walls[middle // 2, middle] = False  # between the upper rooms
        walls[middle, middle // 2] = False  # between the left rooms
        walls[self.door] = False
        return walls

    @property
    def key(self) -> tuple[int, int]:
        return self.size - 2, 1

    @property
    def door(self) -> tuple[int, int]:
        """Between the right rooms."""
        middle = self.size // 2
        return middle, middle + (self.size - middle) // 2

    @property
    def goal(self) -> tuple[int, int]:
        return self.size - 2, self.size - 2

    def init(self, key: Key) -> RoomsState:
        return RoomsState(jnp.ones(2, jnp.int32), jnp.bool_(False), jnp.bool_(False))

    def step(self, state: RoomsState, action: Int[Array, ""], key: Key) -> tuple[RoomsState, Outcome]:
        to = state.cell + jnp.asarray(MOVES)[action]
        locked = jnp.all(to == jnp.array(self.door)) & ~state.has_key
        blocked = jnp.asarray(self.walls)[to[0], to[1]] | locked | state.at_goal
        cell = jnp.where(blocked, state.cell, to)
        after = RoomsState(
            cell,
            state.has_key | jnp.all(cell == jnp.array(self.key)),
            jnp.all(cell == jnp.array(self.goal)),
        )
        reward = self.step_reward + jnp.where(after.at_goal, self.goal_reward, 0.0)
        reward = jnp.where(state.at_goal, 0.0, reward).astype(jnp.float32)
        return after, Outcome(reward, terminated=after.at_goal, truncated=jnp.bool_(False))

    def observe(self, state: RoomsState) -> Bool[Array, "H W 5"]:
        """Returns planes of walls, agent, key, locked door and goal."""

        def plane(cell: tuple[int, int] | Int[Array, "2"], shown: Bool[Array, ""] | bool = True) -> Array:
            return jnp.zeros((self.size, self.size), bool).at[cell[0], cell[1]].set(shown)

        planes = [plane(state.cell), plane(self.key, ~state.has_key), plane(self.door, ~state.has_key)]
        return jnp.stack([jnp.asarray(self.walls), *planes, plane(self.goal)], axis=-1)

    def legal(self, state: RoomsState) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)

    def render(self, state: RoomsState) -> str:
        """Draws the rooms: `A` is the agent, `k` the key, `D` the locked door, `G` the goal."""
        cells = np.where(self.walls, "#", ".")
        cells[self.goal] = "G"
        if not state.has_key:
            cells[self.key], cells[self.door] = "k", "D"
        cells[tuple(np.asarray(state.cell))] = "A"
        return "\n".join("".join(row) for row in cells)
