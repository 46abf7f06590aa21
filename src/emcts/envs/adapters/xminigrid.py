"""Grid worlds of XLand-MiniGrid, observed as a whole or as the agent sees them.

env = from_xminigrid(*xminigrid.make("MiniGrid-DoorKey-8x8"))
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Generic, Literal, Protocol, get_args, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, PyTree

from emcts.envs.base import Outcome, State, tree_where
from emcts.types import Key, Replaceable, record

View = Literal["full", "partial", "egocentric"]

NUM_DIRECTIONS = 4
NUM_TILES = 13  # without 0, which marks cells outside of the map
NUM_COLOURS = 12  # likewise
COLOUR_BITS = 4
CARRIED = (3, 4, 5, 7, 11, 12)  # tiles that can be picked up: ball, square, pyramid, key, hex, star


@runtime_checkable
class XminigridTimeStep(Protocol):
    """The fields of xminigrid's time steps that are used here."""

    @property
    def state(self) -> PyTree: ...

    @property
    def reward(self) -> Array: ...

    @property
    def discount(self) -> Array: ...

    @property
    def observation(self) -> PyTree: ...

    def last(self) -> Array: ...


@runtime_checkable
class Xminigrid(Protocol):
    """The members of xminigrid's environments that are used here."""

    def num_actions(self, params: PyTree) -> int: ...

    def reset(self, params: PyTree, key: Key) -> XminigridTimeStep: ...

    def step(self, params: PyTree, timestep: XminigridTimeStep, action: Array) -> XminigridTimeStep: ...

    def render(self, params: PyTree, timestep: XminigridTimeStep) -> np.ndarray | str: ...


@record
class XminigridState(Replaceable, Generic[State]):
    """xminigrid's time step, and how the episode ended, if it did."""

    inner: State
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@dataclasses.dataclass(frozen=True, eq=False)
class XminigridEnvironment:
    """A grid world whose episodes are truncated after the steps in `params`. Rewards fall with time, from 1 to 0.1.

    The `full` view is an image [H, W, C] of bool: the tile and the colour of each cell, the agent's direction in the
    agent's cell, and in every cell the tile and the colour of what the agent carries. The `partial` view is
    xminigrid's own: the cells in front of the agent, as numbers, without what it carries. The `egocentric` view is the
    same cells as an image [V, V, 16] of bool: the tile of each, the bits of its colour, and in the cell of the agent
    (the middle of the last row) what the agent carries, if it carries something.
    """

    env: Xminigrid
    params: PyTree
    view: View = "full"

    @property
    def num_actions(self) -> int:
        return int(self.env.num_actions(self.params))

    @property
    def deterministic(self) -> bool:
        return True

    @property
    def max_steps(self) -> int:
        return int(self.params.max_steps)

    def steps_left(self, state: XminigridState[PyTree]) -> Float[Array, ""]:
        return (self.max_steps - state.inner.state.step_num).astype(jnp.float32)

    def init(self, key: Key) -> XminigridState[PyTree]:
        # A state keeps its key: raw data can be stored in a replay like any other array.
        raw = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        with jax.numpy_rank_promotion("allow"):
            inner = self._without_unused(self.env.reset(self.params, raw))
        inner = jax.tree.map(jnp.asarray, inner)
        return XminigridState(inner, jnp.bool_(False), jnp.bool_(False))

    def step(
        self, state: XminigridState[PyTree], action: Int[Array, ""], key: Key
    ) -> tuple[XminigridState[PyTree], Outcome]:
        with jax.numpy_rank_promotion("allow"):
            inner = self.env.step(self.params, state.inner, action)
        terminated = inner.last() & (inner.discount == 0)
        reward = jnp.asarray(inner.reward, jnp.float32)
        kept = jax.tree.map(
            lambda was, now: jnp.asarray(now, was.dtype), state.inner, self._without_unused(inner)
        )
        stepped = XminigridState(kept, terminated, inner.last() & ~terminated)
        over = state.terminated | state.truncated
        state = tree_where(over, state, stepped)
        return state, Outcome(jnp.where(over, 0.0, reward), state.terminated, state.truncated)

    def observe(self, state: XminigridState[PyTree]) -> PyTree[Array]:
        if self.view == "partial":
            return state.inner.observation
        if self.view == "egocentric":
            return _seen_by_agent(state.inner.observation, state.inner.state.agent)
        return _whole_grid(state.inner.state.grid, state.inner.state.agent)

    def legal(self, state: XminigridState[PyTree]) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)

    @property
    def novelty_inputs(self) -> Mapping[str, Callable[[XminigridState[PyTree]], Array]]:
        """`agent`: where the agent is, what it carries, and how many tiles of each kind there are.

        Most of these worlds are laid out anew for each episode, so that hardly any observation is seen twice. What
        the agent did in one layout (took a key, opened a door) is known in the next.
        """
        return {"agent": lambda state: _agent_and_tiles(state.inner.state.grid, state.inner.state.agent)}

    def render(self, state: XminigridState[PyTree]) -> np.ndarray | str:
        return self.env.render(self.params, state.inner)

    def _without_unused(self, inner: PyTree) -> PyTree:
        """The time step without its reward, and without the partial view if that is not observed."""
        blank = inner.replace(reward=jnp.float32(0))
        return blank.replace(observation=jnp.zeros(0, jnp.uint8)) if self.view == "full" else blank


def from_xminigrid(env: object, params: PyTree, view: str = "full") -> XminigridEnvironment:
    """Makes an environment from what `xminigrid.make(name)` returns."""
    if not isinstance(env, Xminigrid):
        raise ValueError(
            f"{type(env).__name__} is no environment of xminigrid: give what xminigrid.make returns"
        )
    views: dict[str, View] = {one: one for one in get_args(View)}
    if view not in views:
        raise ValueError(f"view is {view!r}: give full, partial or egocentric")
    return XminigridEnvironment(env, params, views[view])


def _whole_grid(grid: Integer[Array, "H W 2"], agent: PyTree) -> Bool[Array, "H W C"]:
    rows, columns, _ = grid.shape
    row, column = (
        jax.nn.one_hot(at, n, dtype=bool) for at, n in zip(agent.position, (rows, columns), strict=True)
    )
    direction = jax.nn.one_hot(agent.direction, NUM_DIRECTIONS, dtype=bool)
    carried_tile = _one_hot(agent.pocket[0], NUM_TILES)[jnp.array(CARRIED) - 1]
    carried = jnp.concatenate([carried_tile, _one_hot(agent.pocket[1], NUM_COLOURS) & carried_tile.any()])
    parts = [
        _one_hot(grid[..., 0], NUM_TILES),
        _one_hot(grid[..., 1], NUM_COLOURS),
        row[:, None, None] & column[None, :, None] & direction[None, None, :],
        jnp.broadcast_to(carried, (rows, columns, carried.shape[0])),
    ]
    return jnp.concatenate(parts, axis=-1)


def _seen_by_agent(seen: Integer[Array, "V V 2"], agent: PyTree) -> Bool[Array, "V V C"]:
    rows, columns, _ = seen.shape
    here = rows - 1, columns // 2
    seen = seen.at[here].set(jnp.where(agent.pocket[0] > 0, agent.pocket, seen[here]))
    bits = seen[..., 1:] >> jnp.arange(COLOUR_BITS, dtype=seen.dtype)[None, None] & 1
    return jnp.concatenate([_one_hot(seen[..., 0], NUM_TILES), bits.astype(bool)], axis=-1)


def _agent_and_tiles(grid: Integer[Array, "H W 2"], agent: PyTree) -> Int[Array, "F"]:
    tiles = jnp.sum(_one_hot(grid[..., 0], NUM_TILES), axis=(0, 1), dtype=jnp.int32)
    parts = (agent.position, agent.direction[None], agent.pocket[:1], tiles)
    return jnp.concatenate([part.astype(jnp.int32) for part in parts])


def _one_hot(values: Integer[Array, "*S"], count: int) -> Bool[Array, "*S C"]:
    """The values from 1 on; 0 is none of them."""
    return jax.nn.one_hot(values, count, dtype=bool)[..., 1:]
