"""The room with a key and a door: the contract holds, and the door opens with the key alone."""

import jax
import jax.numpy as jnp
import numpy as np
from examples.unlock import FORWARD, LEFT, OPEN, RIGHT, TAKE, Unlock, UnlockState

from emcts.envs import check

KEY = jax.random.key(0)
ENV = Unlock()


def test_the_contract_holds() -> None:
    assert check(Unlock(max_steps=20), episodes=1, steps=30, samples=2).ended == 1


def test_the_key_opens_the_door() -> None:
    """The agent looks up at the key from the cell below it; the door is in the wall to its right."""
    start = ENV.init(KEY).replace(
        cell=jnp.array([2, 4]), direction=jnp.int32(0), key_cell=jnp.array([1, 4]), door_row=jnp.int32(2)
    )
    step = jax.jit(ENV.step)

    def play(actions: list[int]) -> tuple[UnlockState, float, bool]:
        state, reward, over = start, 0.0, False
        for action in actions:
            state, outcome = step(state, jnp.int32(action), KEY)
            reward, over = reward + float(outcome.reward), bool(outcome.terminated)
        return state, reward, over

    _, reward, over = play([TAKE, RIGHT, OPEN])
    np.testing.assert_allclose(reward, 1 - 0.9 * 3 / 200, rtol=1e-6)
    assert over
    assert play([RIGHT, OPEN])[1:] == (0.0, False), "without the key"
    blocked, *_ = play([FORWARD])
    np.testing.assert_array_equal(blocked.cell, [2, 4], "the key is in the way")
    moved, *_ = play([TAKE, FORWARD, LEFT])
    np.testing.assert_array_equal(moved.cell, [1, 4])
    assert int(moved.direction) == 3


def test_layouts_differ_and_what_can_be_novel_does_not() -> None:
    layouts = jax.vmap(ENV.init)(jax.random.split(KEY, 200))
    seen = np.asarray(jax.vmap(ENV.observe)(layouts)).reshape(200, -1)
    novel = np.asarray(jax.vmap(ENV.novelty_inputs["agent"])(layouts))
    assert len(np.unique(seen, axis=0)) > 190
    assert len(np.unique(novel, axis=0)) <= 4 * 4 * 4
