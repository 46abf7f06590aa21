from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import DeepSea, Subleq, auto_reset, time_limit

KEY = jax.random.key(0)
RIGHT = jnp.int32(1)


def play(env, actions):
    """States and outcomes after each action, from one compiled scan."""

    def step(state, action):
        state, outcome = env.step(state, action, KEY)
        return state, (state, env.observe(state), outcome)

    return jax.jit(lambda: jax.lax.scan(step, env.init(KEY), jnp.asarray(actions))[1])()


def test_auto_reset_starts_again_and_reports_the_end():
    env = DeepSea(3, None)
    states, observations, outcomes = play(auto_reset(env), [1, 1, 1, 1, 0, 1, 1])
    np.testing.assert_array_equal(outcomes.terminated, [0, 0, 1, 0, 0, 1, 0])
    np.testing.assert_allclose(outcomes.reward, np.array([-1, -1, 299, -1, 0, -1, -1]) * 0.01 / 3, rtol=1e-6)
    np.testing.assert_array_equal(states.inner.row, [1, 2, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(states.episodes, [0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(observations[2], env.observe(env.init(KEY)))


def test_auto_reset_keeps_the_final_state():
    env = DeepSea(3, None)
    states, _, _ = play(auto_reset(env), [1, 1, 1, 0])
    np.testing.assert_array_equal(states.final.row, [1, 2, 3, 1])
    np.testing.assert_array_equal(states.final.column, [1, 2, 3, 0])


def test_auto_reset_draws_a_new_key_for_each_episode():
    class Lottery(DeepSea):
        def init(self, key):
            return super().init(key).replace(column=jax.random.randint(key, (), 0, 1_000_000))

        def step(self, state, action, key):
            return state, super().step(state, action, key)[1].replace(terminated=jnp.bool_(True))

    env = auto_reset(Lottery(2, None))
    states = jax.vmap(lambda key: env.step(env.init(KEY), RIGHT, key)[0])(jax.random.split(KEY, 8))
    assert len(set(states.inner.column.tolist())) == 8


def test_time_limit_truncates_under_jit_and_holds_still():
    states, observations, outcomes = play(time_limit(DeepSea(5, None), 3), [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(outcomes.truncated, [0, 0, 1, 1, 1])
    assert not outcomes.terminated.any()
    np.testing.assert_array_equal(states.inner.row, [1, 2, 3, 3, 3])
    np.testing.assert_array_equal(states.time, [1, 2, 3, 3, 3])
    np.testing.assert_array_equal(outcomes.reward[3:], [0, 0])
    np.testing.assert_array_equal(observations[2], observations[4])


def test_an_end_by_the_rules_at_the_limit_is_no_truncation():
    _, _, outcomes = play(time_limit(DeepSea(3, None), 3), [1, 1, 1, 1])
    np.testing.assert_array_equal(outcomes.terminated, [0, 0, 1, 1])
    assert not outcomes.truncated.any()


class Both(DeepSea):
    """Says of its end that it is a truncation too, as Gymnasium's TimeLimit can."""

    def step(self, state, action, key):
        state, outcome = super().step(state, action, key)
        return state, outcome.replace(truncated=outcome.terminated)


def test_of_two_flags_terminated_wins():
    _, _, plain = play(Both(3, None), [1, 1, 1])
    np.testing.assert_array_equal(plain.cut_off, [0, 0, 0])
    _, _, limited = play(time_limit(Both(3, None), 5), [1, 1, 1])
    np.testing.assert_array_equal(limited.terminated, [0, 0, 1])
    assert not limited.truncated.any()


def test_a_time_limit_says_how_much_time_is_left():
    env = time_limit(DeepSea(6, None), 4)
    states, _, _ = play(env, [1, 1, 1, 1, 1])
    np.testing.assert_array_equal(jax.vmap(env.steps_left)(states), [3, 2, 1, 0, 0])
    assert env.deterministic
    assert not time_limit(DeepSea(6, stochastic=True), 4).deterministic


def test_the_shorter_of_two_limits_counts():
    for limits in [(2, 4), (4, 2)]:
        env = time_limit(time_limit(DeepSea(6, None), limits[0]), limits[1])
        _, _, outcomes = play(env, [1] * 5)
        np.testing.assert_array_equal(outcomes.truncated, [0, 1, 1, 1, 1])


def test_a_limited_environment_keeps_its_optional_members():
    inner = DeepSea(4, None)
    env: Any = time_limit(inner, 2)
    assert env == time_limit(DeepSea(4, None), 2)
    assert env.num_states == inner.num_states
    states, _, _ = play(env, [1, 1])
    # Cut off, it keeps its number: values are bootstrapped from it.
    assert [int(env.index(one)) for one in (env.init(KEY), jax.tree.map(lambda leaf: leaf[-1], states))] == [
        0,
        5,
    ]
    again = env.state_at(jnp.int32(5))
    assert (int(again.time), bool(again.truncated), int(env.index(again))) == (0, False, 5)
    np.testing.assert_array_equal(env.grid(jnp.arange(10.0)), inner.grid(jnp.arange(10.0)))
    assert env.render(again) == inner.render(again.inner)
    assert not env.solved(again)
    limited: Any = time_limit(Subleq(max_words=3), 2)
    after, _ = limited.step(limited.init(KEY), jnp.int32(1), KEY)
    back = limited.unpack(limited.pack(after))
    jax.tree.map(np.testing.assert_array_equal, back, after)
    jax.tree.map(np.testing.assert_array_equal, limited.artifact(after), limited.env.artifact(after.inner))


def test_each_element_of_a_batch_counts_for_itself():
    env = auto_reset(time_limit(DeepSea(6, None), 4))
    states = jax.vmap(env.init)(jax.random.split(KEY, 2))
    ahead = jax.vmap(env.step)(states, jnp.array([1, 1]), jax.random.split(KEY, 2))[0]
    states = jax.tree.map(lambda one, two: jnp.stack([one[0], two[0]]), states, ahead)
    times = []
    for _ in range(4):
        states, outcomes = jax.vmap(env.step)(states, jnp.array([1, 1]), jax.random.split(KEY, 2))
        times.append(outcomes.truncated.tolist())
    assert times == [[False, False], [False, False], [False, True], [True, False]]


@pytest.mark.parametrize("steps", [0, -3])
def test_a_limit_needs_a_step(steps):
    with pytest.raises(ValueError, match=f"time limit of {steps} steps"):
        time_limit(DeepSea(3), steps)
