"""Vector environments give the results of single simulators, whatever else their other simulators do."""

import functools
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import check, from_gymnasium
from emcts.envs.base import SimulatorError, advance, simulator_errors
from emcts.envs.rollout import random_legal_action
from emcts.training.evaluation import play_episodes
from tests.envs.adapters.simulators import Forgetful, Wanderer, discrete

KEY = jax.random.key(0)


class Vector:
    """Simulators side by side, with the rules of Gymnasium's vector environments."""

    metadata = types.MappingProxyType({"autoreset_mode": types.SimpleNamespace(value="Disabled")})

    def __init__(self, make, size):
        self.simulators, self.num_envs, self.calls, self.closed = (
            [make() for _ in range(size)],
            size,
            0,
            False,
        )
        self.single_action_space = self.simulators[0].action_space
        self.single_observation_space = self.simulators[0].observation_space
        self.seen, self.over = [np.zeros(2)] * size, np.ones(size, bool)

    def reset(self, *, seed, options=None):
        assert len(seed) == self.num_envs
        mask = np.ones(self.num_envs, bool) if options is None else options.pop("reset_mask")
        assert mask.any()
        for place in np.flatnonzero(mask):
            self.seen[place], _ = self.simulators[place].reset(seed=seed[place])
        self.over &= ~mask
        return np.stack(self.seen), {}

    def step(self, actions):
        self.calls += 1
        assert actions.shape == (self.num_envs,)
        assert not self.over.any(), "one is over and was not reset"
        results = [one.step(action) for one, action in zip(self.simulators, actions.tolist(), strict=True)]
        self.seen, rewards, terminated, truncated, _ = map(list, zip(*results, strict=True))
        self.over = np.array(terminated) | np.array(truncated)
        return np.stack(self.seen), np.array(rewards), np.array(terminated), np.array(truncated), {}

    def close(self):
        self.closed = True


def vector(size, make=Wanderer):
    """An environment, and a list of the vector environments that it makes, whose calls count from here on."""
    made = []

    def record():
        made.append(Vector(make, size))
        return made[-1]

    env = from_gymnasium(record)
    made[0].calls = 0
    return env, made


def advanced(env, states, first, last, *, closing=False):
    """Makes moves with random actions, which are the same for all environments; returns all results."""
    one, results = jax.vmap(functools.partial(advance, env), (0, 0, None, 0)), []
    for time in range(first, last):
        key = jax.random.fold_in(KEY, time)
        size = states.time.shape[0]
        actions = jax.random.randint(key, (size,), 0, 3)
        if closing:
            env.close()
        results.append(one(states, actions, KEY, jax.random.split(key, size)))
        states = results[-1][2]
    return results


def all_equal(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


@functools.cache
def single(episodes):
    """The results of single simulators."""
    env = from_gymnasium(Wanderer)
    return advanced(env, jax.vmap(env.init)(jax.random.split(KEY, episodes)), 0, 20)


@pytest.mark.parametrize(("size", "vectors"), [(5, 1), (8, 1), (2, 3)])
def test_a_batch_steps_together(size, vectors):
    env, made = vector(size)
    all_equal(advanced(env, jax.vmap(env.init)(jax.random.split(KEY, 5)), 0, 20), single(5))
    assert [one.calls for one in made] == [20] * vectors


@pytest.mark.parametrize("size", [5, 3])
def test_episodes_of_different_lengths_are_replayed_together(size):
    expected = single(5)
    assert len(set(expected[15][2].time.tolist())) > 1
    other, made = vector(size)
    all_equal(advanced(other, expected[15][2], 16, 20), expected[16:])
    assert made[0].calls == 4 + int(expected[15][2].time[:size].max())


def test_a_replay_before_every_move_changes_nothing():
    env, made = vector(5)
    states = jax.vmap(env.init)(jax.random.split(KEY, 5))
    all_equal(advanced(env, states, 0, 8, closing=True), single(5)[:8])
    assert all(one.closed for one in made[:-1])


def test_two_batches_do_not_disturb_each_other():
    """As evaluation between two moves of training: smaller, and with episodes that end at different times."""
    env, made = vector(5)
    states = jax.vmap(env.init)(jax.random.split(KEY, 5))
    first = advanced(env, states, 0, 7)
    alone = from_gymnasium(Wanderer)

    def policy(key, states):
        return jnp.full(states.time.shape, jnp.arange(3) % 2, jnp.int32)

    played, expected = (
        play_episodes(one, policy, jax.random.key(5), num_episodes=3, max_steps=9) for one in (env, alone)
    )
    all_equal(played, expected)
    all_equal(advanced(env, first[-1][2], 7, 20), single(5)[7:])
    assert [one.calls for one in made] == [20, int(played.length.max())]


def test_contract():
    env, _ = vector(4)
    assert check(env, episodes=6, steps=14).ended == 6


def test_lost_episodes_are_cut_off_and_the_others_go_on(capfd):
    class Half(Wanderer):
        """Ignores odd seeds."""

        def reset(self, *, seed):
            return super().reset(seed=None if seed % 2 else seed)

    env, _ = vector(6, Half)
    states = jax.vmap(env.init)(jax.random.split(KEY, 6))
    states = advanced(env, states, 0, 3)[-1][2]
    odd = np.asarray(states.seed) % 2 == 1
    assert 0 < odd.sum() < 6
    env.close()
    after, outcome, begun = advanced(env, states, 3, 4)[-1]
    np.testing.assert_array_equal(outcome.truncated, odd)
    np.testing.assert_array_equal(begun.time, np.where(odd, 0, 4))
    np.testing.assert_array_equal(after.time, np.where(odd, 3, 4))
    assert capfd.readouterr().err.count("not determined by its seed") == 1


def test_a_simulator_that_ignores_its_seed_runs_as_long_as_it_is_there(capfd):
    env, _ = vector(3, Forgetful)
    results = advanced(env, jax.vmap(env.init)(jax.random.split(KEY, 3)), 0, 9)
    assert not any(np.asarray(outcome.over).any() for _, outcome, _ in results[:5])
    assert capfd.readouterr().err == ""


def test_exceptions_are_readable():
    class Broken(Wanderer):
        def step(self, action):
            if self.time == 1:
                raise KeyError("no such level")
            return super().step(action)

    env, _ = vector(2, Broken)
    states = jax.vmap(env.init)(jax.random.split(KEY, 2))
    with pytest.raises(SimulatorError, match="Vector failed in a step: KeyError"), simulator_errors(env):
        jax.block_until_ready(advanced(env, states, 0, 2))


def test_wrong_results_are_refused():
    class OldReset(Vector):
        def reset(self, *, seed, options=None):
            return super().reset(seed=seed, options=options)[0]

    class OldStep(Vector):
        def step(self, actions):
            seen, rewards, terminated, truncated, info = super().step(actions)
            return seen, rewards, terminated | truncated, info

    class Wider(Vector):
        def reset(self, *, seed, options=None):
            seen, info = super().reset(seed=seed, options=options)
            return np.pad(seen, ((0, 0), (0, 1))), info

    for wrong, message in [
        (OldReset, "reset returned an array of shape (2, 2), not (observation, info)"),
        (OldStep, "step returned 4 values (the old API)"),
        (Wider, "the observation has the shape (3,), and observation_space has (2,)"),
    ]:
        with pytest.raises(SimulatorError, match=re.escape(message)):
            from_gymnasium(functools.partial(wrong, Wanderer, 2))


def test_automatic_resets_are_refused():
    class Resetting(Vector):
        metadata = types.MappingProxyType({"autoreset_mode": types.SimpleNamespace(value="NextStep")})

    with pytest.raises(ValueError, match=r"AutoresetMode\.DISABLED"):
        from_gymnasium(lambda: Resetting(Wanderer, 2))


@pytest.mark.parametrize("name", ["CartPole-v1", "Taxi-v4"])
def test_equals_single_simulators_of_gymnasium(name):
    gymnasium = pytest.importorskip("gymnasium")
    disabled = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}
    make = functools.partial(
        gymnasium.make_vec, name, num_envs=2, vectorization_mode="sync", vector_kwargs=disabled
    )
    results = []
    for env in (from_gymnasium(make), from_gymnasium(lambda: gymnasium.make(name))):
        assert env.max_steps == {"CartPole-v1": 500, "Taxi-v4": 200}[name]
        one = jax.vmap(functools.partial(advance, env), (0, 0, None, 0))
        states = jax.vmap(env.init)(jax.random.split(KEY, 3))
        for time in range(30):
            noise = jax.random.uniform(jax.random.fold_in(KEY, time), (3, env.num_actions))
            actions = jax.vmap(random_legal_action)(jax.vmap(env.legal)(states), noise)
            keys = jax.random.split(jax.random.fold_in(KEY, time), 3)
            after, outcome, states = one(states, actions, KEY, keys)
            results.append((after, outcome, states))
        env.close()
    all_equal(results[:30], results[30:])


def test_actions_are_numbered_as_in_the_space():
    class Shifted(Wanderer):
        action_space = discrete(3, start=-2)

        def step(self, action):
            return super().step(action + 3)

    env, made = vector(8, Shifted)
    all_equal(advanced(env, jax.vmap(env.init)(jax.random.split(KEY, 5)), 0, 20), single(5))
    assert made[0].calls == 20
