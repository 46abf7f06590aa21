"""XLand-MiniGrid behind the protocol: its own transitions and rewards, without a reset, and the whole grid to see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import check, from_xminigrid
from emcts.envs.base import is_deterministic

KEY = jax.random.key(3)
FORWARD, RIGHT = 0, 1
TILES, COLOURS, DIRECTIONS = slice(0, 12), slice(12, 23), slice(23, 27)
CARRIED = slice(27, None)
WALL, GOAL, KEY_TILE = 2, 6, 7


@pytest.fixture(scope="module")
def xminigrid():
    return pytest.importorskip("xminigrid")


def test_equals_xminigrid_up_to_the_goal_and_then_absorbs(xminigrid):
    inner, params = xminigrid.make("MiniGrid-Empty-5x5")
    env = from_xminigrid(inner, params, view="partial")
    ours = env.init(KEY)
    theirs = inner.reset(params, jax.random.key_data(KEY))
    step, their_step = jax.jit(env.step), jax.jit(lambda now, action: inner.step(params, now, action))
    path, over = [FORWARD, FORWARD, RIGHT, FORWARD, FORWARD], False
    for action in path:
        assert not over
        np.testing.assert_array_equal(env.observe(ours), theirs.observation)
        theirs = their_step(theirs, action)
        ours, outcome = step(ours, jnp.int32(action), KEY)
        assert outcome.reward == theirs.reward
        over = bool(outcome.over)
        assert over == bool(theirs.last())
    assert outcome.terminated
    assert not outcome.truncated
    np.testing.assert_allclose(outcome.reward, 1 - 0.9 * len(path) / params.max_steps, rtol=1e-6)
    again, outcome = step(ours, jnp.int32(RIGHT), KEY)
    assert (outcome.reward, bool(outcome.terminated)) == (0, True)
    jax.tree.map(np.testing.assert_array_equal, again, ours)


def test_its_time_limit_truncates(xminigrid):
    env = from_xminigrid(*xminigrid.make("MiniGrid-Empty-5x5", max_steps=3))
    assert (env.max_steps, is_deterministic(env)) == (3, True)
    state, step = env.init(KEY), jax.jit(env.step)
    ends: list[tuple[bool, bool]] = []
    for _ in range(4):
        assert env.steps_left(state) == 3 - min(len(ends), 3)
        state, outcome = step(state, jnp.int32(RIGHT), KEY)
        ends.append((bool(outcome.terminated), bool(outcome.truncated)))
    assert ends == [(False, False), (False, False), (False, True), (False, True)]


def test_the_whole_grid_is_observed(xminigrid):
    env = from_xminigrid(*xminigrid.make("MiniGrid-DoorKey-6x6"))
    state = env.init(KEY)
    seen = np.asarray(env.observe(state))
    grid, agent = state.inner.state.grid, state.inner.state.agent
    assert seen.shape == (6, 6, 44)
    np.testing.assert_array_equal(seen[..., TILES].argmax(-1) + 1, grid[..., 0])
    np.testing.assert_array_equal(seen[..., COLOURS].argmax(-1) + 1, grid[..., 1])
    assert (seen[..., TILES].sum(-1) == 1).all()
    assert np.argwhere(seen[..., DIRECTIONS]).tolist() == [[*agent.position.tolist(), int(agent.direction)]]
    assert not seen[..., CARRIED].any()
    pocket = jnp.array([KEY_TILE, 5], jnp.uint8)
    holding = state.inner.state.replace(agent=agent.replace(pocket=pocket))
    carried = np.asarray(env.observe(state.replace(inner=state.inner.replace(state=holding))))[..., CARRIED]
    assert carried.sum() == 2 * 36
    assert np.flatnonzero(carried[0, 0]).tolist() == [3, 6 + 4]


def test_the_egocentric_view_has_the_cells_in_front_and_what_is_carried(xminigrid):
    inner, params = xminigrid.make("MiniGrid-DoorKey-6x6")
    env = from_xminigrid(inner, params, view="egocentric")
    state = env.init(KEY)
    seen, theirs = np.asarray(env.observe(state)), np.asarray(state.inner.observation)
    assert seen.shape == (7, 7, 12 + 4)
    np.testing.assert_array_equal(seen[..., TILES] @ np.arange(1, 13), theirs[..., 0])
    np.testing.assert_array_equal(seen[..., 12:] @ (1 << np.arange(4)), theirs[..., 1])
    agent = state.inner.state.agent
    holding = state.inner.state.replace(agent=agent.replace(pocket=jnp.array([KEY_TILE, 5], jnp.uint8)))
    carrying = np.asarray(env.observe(state.replace(inner=state.inner.replace(state=holding))))
    assert np.argwhere((carrying != seen).any(axis=-1)).tolist() == [[6, 3]]
    assert np.flatnonzero(carrying[6, 3]).tolist() == [KEY_TILE - 1, 12, 12 + 2], "the key, and colour 5"


def test_contract(xminigrid):
    checked = check(
        from_xminigrid(*xminigrid.make("MiniGrid-DoorKey-5x5", max_steps=12)), steps=16, samples=2
    )
    assert checked.ended == 8


def test_another_object_is_refused():
    with pytest.raises(ValueError, match="object is no environment of xminigrid"):
        from_xminigrid(object(), None)


def test_what_is_novel_is_the_same_in_every_layout(xminigrid):
    """Only what the agent did differs: where it went, what it took."""
    env = from_xminigrid(*xminigrid.make("MiniGrid-DoorKey-6x6"))
    layouts = jax.vmap(env.init)(jax.random.split(KEY, 64))
    novel = np.asarray(jax.vmap(env.novelty_inputs["agent"])(layouts))
    seen = np.asarray(jax.vmap(env.observe)(layouts)).reshape(64, -1)
    at_start = novel[:, 3:]  # without the agent's place and direction
    assert len(np.unique(at_start, axis=0)) == 1 < len(np.unique(seen, axis=0))
    one = jax.tree.map(lambda leaf: leaf[0], layouts)
    grid = one.inner.state.grid
    row, column = np.argwhere(np.asarray(grid[..., 0]) == KEY_TILE)[0]
    agent = one.inner.state.agent.replace(pocket=grid[row, column])
    taken = one.inner.state.replace(grid=grid.at[row, column].set(jnp.array([1, 7], grid.dtype)), agent=agent)
    after = env.novelty_inputs["agent"](one.replace(inner=one.inner.replace(state=taken)))
    np.testing.assert_array_equal(after[:3], novel[0, :3])
    assert not np.array_equal(after, novel[0])
