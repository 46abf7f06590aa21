import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import check, from_gymnax

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def cart_pole():
    gymnax = pytest.importorskip("gymnax")
    return gymnax.make("CartPole-v1")


def test_equals_gymnax_up_to_the_end_and_then_absorbs(cart_pole):
    inner, params = cart_pole
    env = from_gymnax(inner, params)
    observation, theirs = inner.reset_env(KEY, params)
    ours = env.init(KEY)
    np.testing.assert_array_equal(env.observe(ours), observation)
    step, their_step = jax.jit(env.step), jax.jit(inner.step_env)
    terminated, steps = False, 0
    while not terminated and steps < 50:
        observation, theirs, reward, terminated, _ = their_step(KEY, theirs, jnp.int32(1), params)
        ours, outcome = step(ours, jnp.int32(1), KEY)
        np.testing.assert_allclose(env.observe(ours), observation, rtol=1e-6)
        assert (outcome.reward, outcome.terminated) == (reward, terminated)
        steps += 1
    assert 5 < steps < 20
    again, outcome = step(ours, jnp.int32(0), KEY)
    assert outcome.reward == 0
    assert outcome.terminated
    jax.tree.map(np.testing.assert_array_equal, again, ours)


def test_its_time_limit_truncates(cart_pole):
    inner, params = cart_pole
    env = from_gymnax(inner, params.replace(max_steps_in_episode=3))
    state, ends = env.init(KEY), []
    for action in [0, 1, 0, 1]:
        state, outcome = env.step(state, jnp.int32(action), KEY)
        ends.append((bool(outcome.terminated), bool(outcome.truncated), float(outcome.reward)))
    assert ends == [(False, False, 1), (False, False, 1), (False, True, 1), (False, True, 0)]


class Countdown:
    """gymnax's interface: action 1 counts down from 3, and after `params` steps it is truncated."""

    name = "Countdown"

    def action_space(self, params):
        return types.SimpleNamespace(n=2)

    def reset_env(self, key, params):
        return jnp.zeros(2), {"left": 3, "time": 0}

    def step_env(self, key, state, action, params):
        state = {"left": state["left"] - action, "time": state["time"] + 1}
        observation = jnp.stack([state["left"], state["time"]]).astype(jnp.float32)
        return observation, state, 1.0, state["left"] == 0, {}

    def is_truncated(self, state, params):
        return state["time"] >= params


def test_contract_with_the_interface_of_gymnax():
    checked = check(from_gymnax(Countdown(), 5), steps=16)
    assert checked.ended == 8
    assert not checked.random


@pytest.mark.parametrize(("action", "end"), [(1, (True, False)), (0, (False, True))])
def test_ends_by_rules_and_by_limits_are_told_apart(action, end):
    env = from_gymnax(Countdown(), 3)
    state, step = env.init(KEY), jax.jit(env.step)
    for _ in range(3):
        state, outcome = step(state, jnp.int32(action), KEY)
    assert (bool(outcome.terminated), bool(outcome.truncated)) == end
    assert outcome.reward == 1
    assert env.num_actions == 2


def test_continuous_actions_are_refused():
    gymnax = pytest.importorskip("gymnax")
    with pytest.raises(ValueError, match="continuous"):
        from_gymnax(*gymnax.make("Pendulum-v1"))


def test_gymnax_before_its_new_interface_is_refused():
    with pytest.raises(ValueError, match=r"gymnax 1\.0 or later"):
        from_gymnax(types.SimpleNamespace(name="CartPole-v1"), None)
