"""Against Gymnasium where it is installed, and against simulators of the same interface everywhere."""

import functools
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import auto_reset, check, from_gymnasium, time_limit
from emcts.envs.base import SimulatorError, advance, simulator_errors
from emcts.envs.wrappers import TimeLimit
from tests.envs.adapters.simulators import Forgetful, Wanderer, box, discrete

KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 5)


def by_hand(seed, actions):
    simulator = Wanderer()
    simulator.reset(seed=seed)
    return [simulator.step(action + 1) for action in actions][-1]


def follow(env, state, actions):
    for action in actions:
        state, outcome = env.step(state, jnp.int32(action), KEY)
    return state, outcome


def advanced(env, states, actions, first=0):
    """Makes moves with one action for all episodes, the first at time `first`; returns the results of the last."""
    one = jax.vmap(functools.partial(advance, env), (0, None, None, 0))
    for time, action in enumerate(actions, first):
        reset_keys = jax.random.split(jax.random.fold_in(KEY, time), len(KEYS))
        after, outcome, states = one(states, jnp.int32(action), KEY, reset_keys)
    return after, outcome, states


def all_equal(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


def test_contract():
    checked = check(from_gymnasium(Wanderer))
    assert checked.ended == 8
    assert checked.random


def test_auto_reset():
    assert check(auto_reset(from_gymnasium(Wanderer)), steps=40, resets=True).ended >= 8 * 3


def test_an_old_state_can_be_stepped_again_another_way():
    env = from_gymnasium(Wanderer)
    start = env.init(KEY)
    middle, _ = follow(env, start, [0, 1, 2])
    for tail in ([0, 0], [2, 1], [0, 2]):
        state, outcome = follow(env, middle, tail)
        seen, reward, *_ = by_hand(int(start.seed), [0, 1, 2, *tail])
        np.testing.assert_allclose(env.observe(state), seen, rtol=1e-6)
        np.testing.assert_allclose(outcome.reward, reward, rtol=1e-6)


def test_a_batch_steps_and_resets_in_one_call(monkeypatch):
    calls: list[object] = []

    class Counted(Wanderer):
        def step(self, action):
            calls.append("step")
            return super().step(action)

    env = from_gymnasium(Counted)
    calls.clear()
    counted = env.pool.step

    def step(moves):
        calls.append(len(moves))
        return counted(moves)

    monkeypatch.setattr(env.pool, "step", step)
    one = functools.partial(advance, env)
    states = jax.vmap(jax.vmap(env.init))(jnp.stack([KEYS, KEYS]))
    keys = jax.random.split(jax.random.key(7), (2, 5))
    batched = jax.jit(jax.vmap(jax.vmap(one, (0, None, None, 0)), (0, None, None, 0)))
    _, outcome, states = batched(states, jnp.int32(2), KEY, keys)
    assert calls == [10, *["step"] * 10]
    all_equal(*[jax.tree.map(lambda leaf, i=i: leaf[i], outcome) for i in range(2)])
    assert np.unique(states.seed).size == 5, "equal seeds and actions have a simulator each"


def test_a_new_episode_begins_where_one_ends():
    env = from_gymnasium(Wanderer)
    states = jax.vmap(env.init)(KEYS)
    members = ("num_actions", "init", "step", "observe", "legal")
    generic = types.SimpleNamespace(**{name: getattr(env, name) for name in members})
    for time in range(30):
        key = jax.random.fold_in(jax.random.key(3), time)
        reset_keys = jax.random.split(key, len(KEYS))
        actions = jax.random.randint(key, (len(KEYS),), 0, 3)
        results = [
            jax.vmap(functools.partial(advance, one), (0, 0, None, 0))(states, actions, KEY, reset_keys)
            for one in (generic, env)
        ]
        all_equal(*results)
        after, outcome, states = results[1]
        np.testing.assert_array_equal(states.time == 0, outcome.over)
        np.testing.assert_array_equal(after.over, outcome.over)
    assert int(states.time.max()) < 12


def test_episodes_go_on_without_their_simulators():
    actions = [0, 2, 1] * 5
    env = from_gymnasium(Wanderer)
    expected = advanced(env, jax.vmap(env.init)(KEYS), actions)
    other = from_gymnasium(Wanderer)
    states = jax.vmap(other.init)(KEYS)
    *_, states = advanced(other, states, actions[:5])
    fresh = from_gymnasium(Wanderer)
    built, resets = Wanderer.built, Wanderer.resets
    all_equal(advanced(fresh, states, actions[5:], first=5), expected)
    assert Wanderer.built - built == 4, "one was there"
    assert Wanderer.resets - resets == 5 + 5, "each was replayed once, and ended once"


@pytest.mark.parametrize("instances", [1, 16])
def test_simulators_are_bounded_and_closed(instances):
    class Own(Wanderer):
        pass

    env = from_gymnasium(Own, instances=instances)
    for seed in range(20):
        *_, states = advanced(env, jax.vmap(env.init)(jax.random.split(jax.random.key(seed), 5)), [0, 1])
    assert Own.built <= max(instances, 10) + 5
    assert Own.steps == 1 + 20 * 2 * 5, "none of the last batches was replayed"
    env.close()
    assert Own.closed == Own.built
    after, _, _ = advanced(env, states, [1])
    expected = [by_hand(int(seed), [0, 1, 1])[0] for seed in states.seed]
    np.testing.assert_allclose(jax.vmap(env.observe)(after), expected, rtol=1e-6)


def test_an_environment_that_is_dropped_closes_its_simulators():
    class Own(Wanderer):
        pass

    env = from_gymnasium(Own)
    env.pool.reset(np.arange(3))
    assert (Own.built, Own.closed) == (3, 0)
    del env
    assert Own.closed == 3


def test_a_step_from_an_end_does_not_reach_the_simulator():
    class Own(Wanderer):
        pass

    env = from_gymnasium(Own)
    end, outcome = follow(env, env.init(KEY), [0] * 12)
    assert outcome.terminated
    assert not outcome.truncated
    taken = Own.steps
    again, outcome = follow(env, end, [1, 2])
    assert Own.steps == taken
    all_equal(end, again)
    assert (outcome.reward, outcome.terminated) == (0, True)


def test_a_simulator_that_ignores_its_seed_is_cut_off_once_it_is_gone(capfd):
    env = from_gymnasium(Forgetful)
    states = jax.vmap(env.init)(KEYS)
    after, outcome, states = advanced(env, states, [0, 1])
    assert not outcome.over.any()
    assert capfd.readouterr().err == ""
    env.close()
    after, outcome, begun = advanced(env, states, [1])
    assert outcome.truncated.all()
    assert not outcome.terminated.any()
    np.testing.assert_array_equal(outcome.reward, 0)
    np.testing.assert_array_equal(after.observation, states.observation)
    np.testing.assert_array_equal(begun.time, 0)
    env.close()
    *_, states = advanced(env, begun, [1, 1, 1])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "Forgetful is not determined by its seed" in lines[0]


def test_a_simulator_whose_replay_ends_early_is_cut_off():
    class Ending(Wanderer):
        replaying = False

        def step(self, action):
            seen, reward, terminated, truncated, info = super().step(action)
            return seen, reward, terminated or type(self).replaying, truncated, info

    env = from_gymnasium(Ending)
    state, _ = follow(env, env.init(KEY), [0, 0])
    env.close()
    Ending.replaying = True
    _, outcome = follow(env, state, [0])
    assert outcome.truncated


def test_exceptions_of_a_simulator_are_readable():
    class Broken(Wanderer):
        def step(self, action):
            if self.time == 1:
                raise KeyError("no such level")
            return super().step(action)

    env = from_gymnasium(Broken)
    state, _ = follow(env, env.init(KEY), [0])
    message = rf"^Broken failed in step 1 of seed {state.seed}: KeyError: 'no such level'$"
    with pytest.raises(SimulatorError, match=message) as caught, simulator_errors(env):
        jax.block_until_ready(jax.jit(env.step)(state, jnp.int32(0), KEY))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(SimulatorError, match="^Broken failed in step 1"):
        check(env, episodes=2, steps=3)


class OldReset(Wanderer):
    """The API before 0.26. Its observation has two numbers, so that it can be unpacked as a pair."""

    def reset(self, *, seed):
        return super().reset(seed=seed)[0]


class NoInfo(Wanderer):
    def reset(self, *, seed):
        return super().reset(seed=seed)[0], 0.0


class OldStep(Wanderer):
    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, terminated or truncated, info


class OneNumber(Wanderer):
    """Its observation could be broadcast to the shape of the space."""

    def reset(self, *, seed):
        return super().reset(seed=seed)[0][:1], {}


class WiderAfterAStep(Wanderer):
    def step(self, action):
        seen, *rest = super().step(action)
        return np.append(seen, 0), *rest


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            OldReset,
            "the reset with seed 0: reset returned an array of shape (2,), not (observation, info): Gymnasium's API "
            "since 0.26",
        ),
        (
            NoInfo,
            "the reset with seed 0: reset returned a float as info, not a dictionary: Gymnasium's API since 0.26 is "
            "(observation, info)",
        ),
        (
            OldStep,
            "step 0 of seed 0: step returned 4 values (the old API), Gymnasium's has 5: observation, reward, "
            "terminated, truncated, info",
        ),
        (
            OneNumber,
            "the reset with seed 0: the observation has the shape (1,), and observation_space has (2,)",
        ),
        (
            WiderAfterAStep,
            "step 0 of seed 0: the observation has the shape (3,), and observation_space has (2,)",
        ),
    ],
)
def test_a_wrong_result_is_one_line_before_anything_is_compiled(wrong, message, capfd):
    with pytest.raises(SimulatorError) as caught:
        from_gymnasium(wrong)
    assert str(caught.value) == f"{wrong.__name__} failed in {message}"
    assert capfd.readouterr() == ("", ""), "JAX prints a traceback where a program fails that it compiled"
    assert wrong.closed == wrong.built


def test_limits():
    spec = types.SimpleNamespace(id="Walk-v0", max_episode_steps=9, reward_threshold=7.5)
    limited = type("Limited", (Wanderer,), {"spec": spec})
    assert from_gymnasium(Wanderer).max_steps == 10_000
    assert from_gymnasium(limited).max_steps == 9
    assert from_gymnasium(limited).reward_threshold == 7.5
    assert from_gymnasium(limited, max_steps=5).max_steps == 5
    env: Any = time_limit(from_gymnasium(Wanderer), 4)
    start = env.init(KEY)
    assert env.steps_left(start) == 4
    before, outcome = follow(env, start, [0, 0, 0])
    assert not outcome.over
    last, outcome = follow(env, before, [0])
    assert outcome.truncated
    assert not outcome.terminated
    assert outcome.reward > 0
    assert env.steps_left(last) == 0
    assert len(env.pool._idle) == 1, "its simulator is free"
    assert last.actions.shape == (4,)
    with pytest.raises(ValueError, match="at least 1"):
        time_limit(env, 0)
    with pytest.raises(ValueError, match="call `time_limit"):
        TimeLimit(env, 4)


def test_a_stored_state_can_be_observed_but_not_stepped():
    env = from_gymnasium(Wanderer)
    state, _ = follow(env, env.init(KEY), [0, 1])
    stored = env.unpack(env.pack(state))
    all_equal(env.observe(stored), env.observe(state))
    all_equal(env.legal(stored), env.legal(state))
    assert env.steps_left(stored) == env.steps_left(state)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(stored)) <= 8 + 4 + 2
    with pytest.raises(TypeError):
        env.step(stored, jnp.int32(0), KEY)


def test_legal_actions_come_from_the_info():
    class Masked(Wanderer):
        def reset(self, *, seed):
            seen, _ = super().reset(seed=seed)
            return seen, {"action_mask": np.array([1, 0, 1], np.int8)}

        def step(self, action):
            *result, _ = super().step(action)
            return *result, {"action_mask": np.array([0, 0, int(self.time < 2)])}

    env = from_gymnasium(Masked)
    state = env.init(KEY)
    np.testing.assert_array_equal(env.legal(state), [True, False, True])
    state, _ = follow(env, state, [2])
    np.testing.assert_array_equal(env.legal(state), [False, False, True])
    state, _ = follow(env, state, [2])
    np.testing.assert_array_equal(env.legal(state), [True, True, True], err_msg="some action is always legal")
    np.testing.assert_array_equal(env.legal(env.pack(state)), env.legal(state))


def test_many_actions_fit_into_a_state():
    many = type("Many", (Wanderer,), {"action_space": discrete(300, start=1)})
    assert from_gymnasium(many).init(KEY).actions.dtype == np.uint16


def test_what_cannot_be_an_environment():
    continuous = type("Continuous", (Wanderer,), {"action_space": box(1)})
    with pytest.raises(ValueError, match="only discrete actions"):
        from_gymnasium(continuous)
    with pytest.raises(ValueError, match="instances is 0"):
        from_gymnasium(Wanderer, instances=0)
    with pytest.raises(ValueError, match="max_steps is 0"):
        from_gymnasium(Wanderer, max_steps=0)


def test_equals_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = from_gymnasium(lambda: gymnasium.make("CartPole-v1"))
    assert (env.max_steps, env.reward_threshold, env.pool.interface.name) == (500, 475, "CartPole-v1")
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


def test_two_devices_step_simulators_at_the_same_time():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-m", "tests.envs.adapters.two_devices"],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip() == "equal", done.stderr[-3000:]
