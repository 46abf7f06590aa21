"""A room with a key and a locked door, laid out anew for each episode.

cd examples && emcts train unlock:Unlock --agent e-az --targets.value-steps 1
"""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from emcts.envs import Outcome
from emcts.envs.base import tree_where
from emcts.types import Key, Replaceable, record

MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)], np.int32)  # up, right, down, left
FORWARD, LEFT, RIGHT, TAKE, OPEN = range(5)


@record
class UnlockState(Replaceable):
    """Where the agent looks from and to, the layout, and what was done. The door is in the right wall."""

    cell: Int[Array, "2"]
    direction: Int[Array, ""]
    key_cell: Int[Array, "2"]
    door_row: Int[Array, ""]
    has_key: Bool[Array, ""]
    is_open: Bool[Array, ""]
    steps: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Unlock:
    """Take the key in front of you, then open the door in front of you: 1, less up to 0.9 for the steps it took."""

    size: int = 6
    max_steps: int = 200

    @property
    def num_actions(self) -> int:
        return 5

    @property
    def deterministic(self) -> bool:
        return True

    def init(self, key: Key) -> UnlockState:
        inside = self.size - 2
        cell_key, direction_key, door_key, _ = jax.random.split(key, 4)
        agent, item = jax.random.permutation(cell_key, inside**2)[:2]
        no = jnp.bool_(False)
        return UnlockState(
            cell=jnp.stack([agent // inside, agent % inside]) + 1,
            direction=jax.random.randint(direction_key, (), 0, 4),
            key_cell=jnp.stack([item // inside, item % inside]) + 1,
            door_row=jax.random.randint(door_key, (), 1, inside + 1),
            has_key=no,
            is_open=no,
            steps=jnp.int32(0),
        )

    def step(self, state: UnlockState, action: Int[Array, ""], key: Key) -> tuple[UnlockState, Outcome]:
        front = state.cell + jnp.asarray(MOVES)[state.direction]
        is_key = jnp.all(front == state.key_cell) & ~state.has_key
        is_door = (front[0] == state.door_row) & (front[1] == self.size - 1)
        is_free = jnp.all((front > 0) & (front < self.size - 1)) & ~is_key
        turn = jnp.where(action == LEFT, 3, jnp.where(action == RIGHT, 1, 0))
        stepped = state.replace(
            cell=jnp.where((action == FORWARD) & is_free, front, state.cell),
            direction=(state.direction + turn) % 4,
            has_key=state.has_key | ((action == TAKE) & is_key),
            is_open=(action == OPEN) & is_door & state.has_key,
            steps=state.steps + 1,
        )
        over = state.is_open | (state.steps >= self.max_steps)
        after = tree_where(over, state, stepped)
        pays = after.is_open & ~over
        reward = jnp.where(pays, 1 - 0.9 * after.steps / self.max_steps, 0.0)
        ended = (after.steps >= self.max_steps) & ~after.is_open
        return after, Outcome(reward.astype(jnp.float32), terminated=after.is_open, truncated=ended)

    def observe(self, state: UnlockState) -> Bool[Array, "N N 8"]:
        rows = jnp.arange(self.size)
        edge = (rows == 0) | (rows == self.size - 1)

        def plane(row: Int[Array, ""], column: Int[Array, ""]) -> Bool[Array, "N N"]:
            return (rows[:, None] == row) & (rows[None, :] == column)

        door, agent = plane(state.door_row, jnp.int32(self.size - 1)), plane(*state.cell)
        planes = [
            (edge[:, None] | edge[None, :]) & ~door,
            door,
            plane(*state.key_cell) & ~state.has_key,
            *[agent & (state.direction == direction) for direction in range(4)],
            jnp.broadcast_to(state.has_key, (self.size, self.size)),
        ]
        return jnp.stack(planes, axis=-1)

    def legal(self, state: UnlockState) -> Bool[Array, "5"]:
        return jnp.ones(5, bool)

    @property
    def novelty_inputs(self) -> Mapping[str, Callable[[UnlockState], Array]]:
        """What the agent did, in whichever layout: hardly any observation comes twice."""
        return {"agent": self._done}

    def _done(self, state: UnlockState) -> Int[Array, "5"]:
        done = jnp.stack([state.has_key, state.is_open]).astype(jnp.int32)
        return jnp.concatenate([state.cell, state.direction[None], done])
