"""Stochastic Deep Sea after a bad first draw at its goal: agents come back, unless they ignore noise."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents import catalogue, deep_sea
from emcts.agents.mcts.planners import ExplorationParams, Planner, Puct, UbeAtRoot, Uct
from emcts.envs import DeepSea
from emcts.models.codecs import MeanCategorical
from emcts.models.evaluators import TabularEvaluator, Transition
from emcts.models.networks import indexed_networks, pair_index
from emcts.models.simulator import SimulatorModel
from emcts.models.ube import horizon_factor
from emcts.novelty import Counts, NoiseAware, Novelty, RewardMoments
from emcts.novelty.noise_aware import NoiseAwareState
from tests.agents import tiny

KEY = jax.random.key(0)
ENV = DeepSea(4, seed=3, stochastic=True)
PAIRS = 2 * ENV.num_states
GAMMA, VISITS, BAD_DRAW = 0.995, 40, -0.3
COUNTS = Counts(
    PAIRS, epsilon=0.01, scale=0.03
)  # as E-AZ has them by default: 3 unseen, 0.03 after one visit


def moves() -> Transition:
    """Every transition many times, and the one to the goal once."""
    states = jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))
    before = jax.tree.map(lambda leaf: jnp.repeat(leaf, 2), states)
    action = jnp.tile(jnp.arange(2), ENV.num_states)
    after, outcome = jax.vmap(ENV.step)(before, action, jax.random.split(KEY, PAIRS))
    goal = jax.vmap(ENV.solved)(after)

    def repeated(leaf: Any) -> Any:
        return jnp.tile(leaf, (VISITS,))

    keys = jax.random.split(KEY, PAIRS * VISITS)
    _, drawn = jax.vmap(ENV.step)(jax.tree.map(repeated, before), repeated(action), keys)
    reward = jnp.where(repeated(goal), BAD_DRAW, drawn.reward)
    counts = ~repeated(goal) | (jnp.arange(PAIRS * VISITS) < PAIRS)
    before, action, after, over = jax.tree.map(repeated, (before, action, after, outcome.over))
    return Transition(before, action, reward, after, over, counts)


def model(novelty: Novelty) -> Any:
    """Rewards are learned as the means of what was drawn; values and their variances are not learned yet."""
    made = moves()
    world_model = SimulatorModel(
        TabularEvaluator(novelty),
        GAMMA,
        lambda leaf: horizon_factor(GAMMA, (ENV.size - leaf.row).astype(jnp.float32)),
    )
    codec = MeanCategorical(10)
    networks = indexed_networks(ENV.num_states, 2, widths=(), values=codec, ube=True, key=KEY)
    quiet = jax.tree.map(jnp.zeros_like, networks)
    pairs = jax.vmap(pair_index, (0, 0, None))(jax.vmap(ENV.index)(made.before), made.action, 2)
    number = jnp.zeros(PAIRS).at[pairs].add(made.counts)
    means = jnp.zeros(PAIRS).at[pairs].add(jnp.where(made.counts, made.reward, 0.0)) / number
    rows = jnp.log(jax.vmap(codec.two_hot)(means) + 1e-12)
    told = jax.tree_util.tree_map_with_path(
        lambda path, leaf: rows if path[0].name == "reward" else leaf, quiet
    )
    state = world_model.look(ENV, told, novelty.init(KEY), made)
    return world_model.models(ENV, told)(world_model.record_rewards(ENV, state, made))


@functools.cache
def goes_right(planner: Planner, aware: bool) -> np.ndarray:
    """On each cell of the path to the goal."""
    novelty: Novelty = NoiseAware(COUNTS, RewardMoments(PAIRS)) if aware else COUNTS

    @jax.jit
    def run() -> Any:
        path = jnp.arange(ENV.size)
        states = jax.vmap(ENV.state_at)(path * (path + 1) // 2 + path)
        params = ExplorationParams(jnp.ones(ENV.size), jnp.ones(ENV.size, bool))
        return planner(KEY, model(novelty), states, params).action == jax.vmap(ENV.right_action)(states)

    return np.asarray(run())


def test_a_search_comes_back_to_a_goal_that_paid_badly_once() -> None:
    planner = Uct(400, c=0.5)
    assert goes_right(planner, aware=True).all()
    assert not goes_right(planner, aware=False).any()


def test_so_does_one_step_ahead_where_the_goal_is_next() -> None:
    planner = UbeAtRoot(Puct(50, temperature=0.0))
    assert goes_right(planner, aware=True)[-1]
    assert not goes_right(planner, aware=False)[-1]


def test_novelty_behind_a_leaf_does_not_count_noise() -> None:
    """Noise makes a reward uncertain, but not all that may come after it."""
    states = jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))
    for action in range(2):
        out = jax.jit(
            lambda action=action: model(NoiseAware(COUNTS, RewardMoments(PAIRS))).step(
                states, jnp.full(ENV.num_states, action), KEY
            )
        )()
        novelty = 0.03 / (VISITS + 0.01)
        deep = np.asarray(states.row) < ENV.size - 1
        assert np.all(np.asarray(out.value_variance)[deep] <= ENV.size * novelty + 1e-6)
        corner = (np.asarray(states.row) == ENV.size - 1) & (np.asarray(states.column) == 0)
        assert float(out.reward_variance[corner][0]) == pytest.approx(1 / VISITS, rel=0.5)


def test_without_noise_training_does_not_change_in_the_last_digit() -> None:
    """Moments are kept by default: what they say of a deterministic environment is 0."""
    runs = []
    for aware in (True, False):
        settings = dataclasses.replace(
            catalogue.settings("deep-sea", "e-az"), **tiny.DEEP_SEA, reward_noise=aware
        )
        sea = catalogue.trainer("deep-sea", "e-az", settings, (0, 1))
        state, reports = tiny.advanced(sea, sea.init(), 3)
        assert isinstance(state.novelty, NoiseAwareState) == aware
        runs.append(reports)
    for one, two in zip(*runs, strict=True):
        for name in one.metrics:
            np.testing.assert_array_equal(one.metrics[name], two.metrics[name], err_msg=name)


def test_beta_is_larger_where_rewards_have_noise() -> None:
    betas = {}
    for stochastic in (False, True):
        settings = dataclasses.replace(deep_sea.BEST, stochastic=stochastic)
        betas[stochastic] = max(deep_sea.e_az(settings).lanes.betas)
        given = dataclasses.replace(settings, beta=2.5)
        assert max(deep_sea.e_az(given).lanes.betas) == 2.5
    assert betas == {False: 1.0, True: 10.0}
