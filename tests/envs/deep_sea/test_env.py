import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments import deep_sea as bsuite_deep_sea

from emcts.envs import DeepSea
from emcts.envs.deep_sea import average_regret, episodes_to_solve, regret

KEY = jax.random.key(0)


def states_of(env: DeepSea, actions: np.ndarray):
    """Every state, observation and outcome of one episode, the start included."""

    def step(state, action):
        state, outcome = env.step(state, action, KEY)
        return state, (state, env.observe(state), outcome)

    start = env.init(KEY)
    _, (states, observations, outcomes) = jax.lax.scan(step, start, jnp.asarray(actions))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)
    return states, jnp.concatenate([env.observe(start)[None], observations]), outcomes


def bsuite_env(size: int, seed: int | None) -> bsuite_deep_sea.DeepSea:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bsuite_deep_sea.DeepSea(size, mapping_seed=seed, randomize_actions=seed is not None)


def mostly_optimal(env: DeepSea, rng: np.random.Generator, slips: float) -> np.ndarray:
    """Actions that follow the path but for a few slips: random ones would never see the goal."""
    actions = np.diagonal(env.right_actions).copy()
    return np.where(rng.random(env.size) < slips, 1 - actions, actions)


@pytest.mark.parametrize("size", [2, 3, 7, 10, 23, 50, 100])
def test_equals_bsuite_step_by_step(size):
    rng = np.random.default_rng(size)
    for seed in [None, 0, 1, 42, 2**32 - 1]:
        env, oracle = DeepSea(size, seed), bsuite_env(size, seed)
        np.testing.assert_array_equal(env.right_actions, oracle._action_mapping)
        play = jax.jit(lambda actions, env=env: states_of(env, actions))
        for slips in [0.0, 1 / size, 0.5, 0.5, 0.5]:
            actions = mostly_optimal(env, rng, slips)
            _, observations, outcomes = play(actions)
            expected = [oracle.reset(), *(oracle.step(action) for action in actions)]
            np.testing.assert_array_equal(observations, [each.observation for each in expected])
            assert observations.dtype == np.float32
            rewards = np.array([each.reward for each in expected[1:]], np.float32)
            np.testing.assert_array_equal(outcomes.reward, rewards)
            np.testing.assert_array_equal(outcomes.terminated, [each.last() for each in expected[1:]])
            assert not outcomes.truncated.any()


def test_action_map_equals_bsuite_for_many_seeds():
    for seed in range(200):
        size = 2 + seed % 20
        np.testing.assert_array_equal(
            DeepSea(size, seed).right_actions, bsuite_env(size, seed)._action_mapping
        )


def test_strayed_counts_bad_episodes_as_bsuite_does():
    size, rng = 4, np.random.default_rng(0)
    env, oracle = DeepSea(size, 3), bsuite_env(size, 3)
    play = jax.jit(lambda actions: states_of(env, actions))
    bad = 0
    for _ in range(64):
        actions = rng.integers(0, 2, size)
        states, _, _ = play(actions)
        end = jax.tree.map(lambda leaf: leaf[-1], states)
        oracle.reset()
        for action in actions:
            oracle.step(action)
        bad += int(env.strayed(end))
        assert oracle.bsuite_info()["total_bad_episodes"] == bad
        assert env.solved(end) == ~env.strayed(end)
    assert 0 < bad < 64


@pytest.mark.parametrize("env", [DeepSea(9, 5), DeepSea(9, None), DeepSea(100, 1)])
def test_optimal_policy_earns_the_optimal_return(env):
    def step(state, _):
        state, outcome = env.step(state, env.optimal_action(state), KEY)
        return state, (outcome.reward, env.optimal_value(state), outcome.terminated)

    start = env.init(KEY)
    end, (rewards, values, terminated) = jax.lax.scan(step, start, length=env.size)
    np.testing.assert_allclose(rewards.sum(), env.optimal_return, rtol=1e-6)
    np.testing.assert_allclose(env.optimal_value(start), env.optimal_return, rtol=1e-6)
    later = jnp.cumsum(rewards[::-1])[::-1]
    np.testing.assert_allclose(values[:-1], later[1:], rtol=1e-5)
    assert values[-1] == 0
    assert env.solved(end)
    np.testing.assert_array_equal(terminated, np.arange(env.size) == env.size - 1)


def test_best_of_all_action_sequences_is_the_optimal_return():
    env = DeepSea(6, 2)
    sequences = (np.arange(2**6)[:, None] >> np.arange(6)) & 1
    _, _, outcomes = jax.vmap(lambda actions: states_of(env, actions))(jnp.asarray(sequences))
    returns = np.sort(np.asarray(outcomes.reward.sum(axis=1)))
    np.testing.assert_allclose(returns[-1], env.optimal_return, rtol=1e-6)
    assert returns[-2] <= 0, "only one path reaches the goal"


def test_off_the_path_the_optimal_action_is_the_free_one():
    env = DeepSea(5, 7)
    state = env.init(KEY).replace(row=jnp.int32(3), column=jnp.int32(1))
    moved, outcome = env.step(state, env.optimal_action(state), KEY)
    assert moved.column == 0
    assert outcome.reward == 0
    assert env.optimal_value(state) == 0


@pytest.mark.parametrize(
    ("row", "column", "right", "mean", "noisy"),
    [
        (5, 5, True, 1 - 0.01 / 6, True),
        (5, 5, False, 0.0, False),
        (5, 0, True, -0.01 / 6, True),
        (5, 0, False, 0.0, True),
        (5, 2, True, -0.01 / 6, False),
        (2, 0, False, 0.0, False),
        (2, 2, True, -0.01 / 6, False),
    ],
)
def test_stochastic_rewards(row, column, right, mean, noisy):
    env = DeepSea(6, 4, stochastic=True)
    state = env.init(KEY).replace(row=jnp.int32(row), column=jnp.int32(column))
    action = jnp.where(right, env.right_action(state), 1 - env.right_action(state))
    keys = jax.random.split(KEY, 20_000)
    rewards = jax.jit(jax.vmap(lambda key: env.step(state, action, key)[1].reward))(keys)
    np.testing.assert_allclose(rewards.mean(), mean, atol=0.03)
    np.testing.assert_allclose(rewards.std(), 1.0 if noisy else 0.0, atol=0.03)


def test_cells_number_the_grid_and_the_end():
    env = DeepSea(3, None)
    states, observations, _ = states_of(env, np.array([1, 0, 1]))
    np.testing.assert_array_equal(jax.vmap(env.cell)(states), [0, 4, 6, 9])
    for cell, observation in zip([0, 4, 6], observations, strict=False):
        assert observation.reshape(-1)[cell] == 1
        assert observation.sum() == 1
    assert observations[-1].sum() == 0


@pytest.mark.parametrize("size", [-1, 0, 1, 101])
def test_size_out_of_range(size):
    with pytest.raises(ValueError, match=rf"size {size}.*2 to 100"):
        DeepSea(size)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seed_out_of_range(seed):
    with pytest.raises(ValueError, match="None for the same action everywhere"):
        DeepSea(10, seed)


def test_equal_settings_are_one_static_argument():
    assert DeepSea(10, 1) == DeepSea(10, 1)
    assert hash(DeepSea(10, 1)) == hash(DeepSea(10, 1))
    assert DeepSea(10, 1) != DeepSea(10, 2)


def test_average_regret_by_hand():
    np.testing.assert_allclose(average_regret(np.array([1, 1, 0, 1])), [1, 1, 2 / 3, 3 / 4])


def test_solved_at_the_first_goal_within_nine_episodes():
    assert episodes_to_solve(np.array([True] * 8 + [False])) == 9


def test_exactly_ninety_percent_is_not_yet_solved():
    assert episodes_to_solve(np.array([True] * 9 + [False])) is None
    assert episodes_to_solve(np.array([True] * 9 + [False, False])) == 11


def test_never_solved():
    assert episodes_to_solve(np.ones(50, bool)) is None
    assert episodes_to_solve(np.ones(0, bool)) is None


def test_equals_the_first_row_that_bsuite_would_take():
    rng = np.random.default_rng(0)
    strayed = rng.random(400) > np.linspace(0, 0.5, 400)
    totals, episodes = np.cumsum(strayed), np.arange(1, 401)
    (rows,) = np.nonzero(totals / episodes < 0.9)
    assert episodes_to_solve(strayed) == episodes[rows[0]]


def test_regret_of_returns():
    np.testing.assert_allclose(regret(np.array([0.99, 0.0, -0.0099]), 0.99), [0, 1, 1.01], atol=1e-12)
    with pytest.raises(ValueError, match="positive"):
        regret(np.array([1.0]), 0.0)


@pytest.mark.parametrize("size", [2, 5, 12])
def test_states_are_numbered_without_a_gap(size):
    env = DeepSea(size)
    numbers = jnp.arange(env.num_states)
    states = jax.vmap(env.state_at)(numbers)
    np.testing.assert_array_equal(jax.vmap(env.index)(states), numbers)
    assert len({(int(r), int(c)) for r, c in zip(states.row, states.column, strict=True)}) == env.num_states
    assert np.all(np.asarray(states.column) <= np.asarray(states.row))


def test_the_end_of_an_episode_has_a_number_of_its_own():
    env = DeepSea(3)
    for column in range(4):
        state = env.init(KEY).replace(row=jnp.int32(3), column=jnp.int32(column))
        assert int(env.index(state)) == env.num_states


def test_a_grid_has_each_value_at_its_cell_and_nan_where_no_path_leads():
    env = DeepSea(4, 1)
    grid = np.asarray(jax.jit(env.grid)(jnp.arange(10.0)))
    nan = np.nan
    expected = [[0, nan, nan, nan], [1, 2, nan, nan], [3, 4, 5, nan], [6, 7, 8, 9]]
    np.testing.assert_array_equal(grid, expected)
    for number in range(10):
        state = env.state_at(jnp.int32(number))
        assert grid[int(state.row), int(state.column)] == number


def test_an_action_map_may_be_traced():
    """Two seeds under one `vmap` are the environments of these seeds."""
    actions = np.random.default_rng(0).integers(0, 2, 5)
    maps = jnp.stack([DeepSea(5, seed).right_actions for seed in (0, 7)])
    mapped = jax.jit(jax.vmap(lambda right: states_of(DeepSea(5).with_map(right), actions)))(maps)
    for place, seed in enumerate((0, 7)):
        alone = states_of(DeepSea(5, seed), actions)
        jax.tree.map(lambda one, other, i=place: np.testing.assert_array_equal(one[i], other), mapped, alone)
    assert not np.array_equal(mapped[0].column[0], mapped[0].column[1])
