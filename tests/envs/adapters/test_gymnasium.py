"""Against Gymnasium where it is installed, and against a simulator of the same interface everywhere."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import auto_reset, check, from_gymnasium

KEY = jax.random.key(0)


def discrete(n, start=0):
    return types.SimpleNamespace(n=n, start=start, shape=(), dtype=np.int64)


class Wanderer:
    """Adds up actions and seeded noise, and ends at 12 steps, or is cut short at a sum over 20."""

    built = 0
    action_space = discrete(3, start=1)
    observation_space = types.SimpleNamespace(shape=(2,), dtype=np.float64)

    def __init__(self):
        type(self).built += 1

    def reset(self, *, seed):
        self.rng, self.time, self.total = np.random.default_rng(seed), 0, 0.0
        return np.array([self.time, self.total]), {}

    def step(self, action):
        assert action in (1, 2, 3)
        self.time += 1
        self.total += action + self.rng.random()
        seen = np.array([self.time, self.total])
        return seen, self.total / 2, self.time >= 12, self.total > 20, {}

    def close(self):
        pass


class Forgetful(Wanderer):
    """Ignores its seed."""

    def reset(self, *, seed):
        return super().reset(seed=None)


def by_hand(seed, actions):
    simulator = Wanderer()
    simulator.reset(seed=seed)
    return [simulator.step(action + 1) for action in actions][-1]


def follow(env, state, actions):
    for action in actions:
        state, outcome = env.step(state, jnp.int32(action), KEY)
    return state, outcome


def test_contract_with_a_simulator():
    checked = check(from_gymnasium(Wanderer))
    assert checked.ended == 8
    assert checked.random


def test_auto_reset_with_a_simulator():
    assert check(auto_reset(from_gymnasium(Wanderer)), steps=40, resets=True).ended >= 8 * 3


def test_an_old_state_can_be_stepped_again_another_way():
    env = from_gymnasium(Wanderer)
    start = env.init(KEY)
    seed = int(start.seed)
    middle, _ = follow(env, start, [0, 1, 2])
    for tail in ([0, 0], [2, 1], [0, 2]):
        state, outcome = follow(env, middle, tail)
        seen, reward, *_ = by_hand(seed, [0, 1, 2, *tail])
        np.testing.assert_allclose(env.observe(state), seen, rtol=1e-6)
        np.testing.assert_allclose(outcome.reward, reward, rtol=1e-6)


@pytest.mark.parametrize("instances", [1, 3, 16])
def test_fewer_simulators_than_episodes_change_no_result(instances):
    env = from_gymnasium(Wanderer, instances=instances)
    built = Wanderer.built
    states = jax.vmap(env.init)(jax.random.split(KEY, 5))
    for action in [0, 2, 1]:
        states, outcomes = jax.vmap(env.step, (0, None, None))(states, jnp.int32(action), KEY)
    expected = [by_hand(int(seed), [0, 2, 1]) for seed in states.seed]
    np.testing.assert_allclose(jax.vmap(env.observe)(states), [each[0] for each in expected], rtol=1e-6)
    np.testing.assert_allclose(outcomes.reward, [each[1] for each in expected], rtol=1e-6)
    assert Wanderer.built - built - len(expected) == min(instances, 5)


def test_a_repeated_step_is_answered_from_memory():
    env = from_gymnasium(Wanderer)
    start = env.init(KEY)
    first, _ = follow(env, start, [1, 1, 1])
    second, _ = follow(env, start, [1, 1, 1])
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert int(first.number) == 3, "no state was counted twice"


def test_forgotten_states_are_an_error():
    env = from_gymnasium(Wanderer, memory=4)
    old, _ = follow(env, env.init(KEY), [0, 1])
    follow(env, env.init(jax.random.key(1)), [0, 1])
    with pytest.raises(Exception, match=r"forgotten.*raise memory"):
        jax.block_until_ready(env.step(old, jnp.int32(0), KEY))
    restarted, _ = follow(env, env.init(KEY), [0, 1])
    np.testing.assert_allclose(env.observe(restarted), by_hand(int(old.seed), [0, 1])[0], rtol=1e-6)


def test_a_simulator_that_ignores_its_seed_is_found_out():
    env = from_gymnasium(Forgetful)
    middle, _ = follow(env, env.init(KEY), [0, 1])
    follow(env, middle, [0])
    with pytest.raises(Exception, match="not determined by its seed"):
        jax.block_until_ready(follow(env, middle, [1]))


def test_discrete_observations_are_one_hot():
    class Chain(Wanderer):
        observation_space = discrete(4, start=2)

        def reset(self, *, seed):
            return 2, {}

    env = from_gymnasium(Chain)
    np.testing.assert_array_equal(env.observe(env.init(KEY)), [1, 0, 0, 0])


def test_spaces_that_do_not_fit():
    class Continuous(Wanderer):
        action_space = types.SimpleNamespace(shape=(1,), dtype=np.float32)

    class Nested(Wanderer):
        observation_space = types.SimpleNamespace(shape=None, dtype=None)

    with pytest.raises(ValueError, match="only discrete actions"):
        from_gymnasium(Continuous)
    with pytest.raises(ValueError, match="FlattenObservation"):
        from_gymnasium(Nested)
    with pytest.raises(ValueError, match="at least 1"):
        from_gymnasium(Wanderer, instances=0)


def test_equals_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = from_gymnasium(lambda: gymnasium.make("CartPole-v1"))
    state = env.init(KEY)
    simulator = gymnasium.make("CartPole-v1")
    seen, _ = simulator.reset(seed=int(state.seed))
    step = jax.jit(env.step)
    for time in range(100):
        np.testing.assert_array_equal(env.observe(state), seen)
        action = time % 3 % 2
        seen, reward, terminated, truncated, _ = simulator.step(action)
        state, outcome = step(state, jnp.int32(action), KEY)
        assert (outcome.reward, outcome.terminated, outcome.truncated) == (reward, terminated, truncated)
        if terminated:
            break
    assert 5 < time < 99
