"""Stochastic Deep Sea after a low first reward at its goal: agents return to it, unless they ignore noise."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.mcts.planners import ExplorationParams, Planner, Puct, UbeAtRoot, Uct
from emcts.envs import DeepSea
from emcts.models.codecs import MeanCategorical
from emcts.models.evaluators import TabularEvaluator, Transition, pair_index
from emcts.models.networks import HeadSpec, indexed_networks
from emcts.models.simulator import SimulatorModel
from emcts.models.ube import horizon_factor
from emcts.novelty import Counts, NoiseAware, Novelty, RewardMoments
from tests.agents.tiny import CATALOGUE, settings

KEY = jax.random.key(0)
ENV = DeepSea(4, seed=3, stochastic=True)
PAIRS = 2 * ENV.num_states
GAMMA, VISITS, LOW_REWARD = 0.995, 40, -0.3
COUNTS = Counts(PAIRS, epsilon=0.01, scale=0.03)  # as in E-AZ's default: 3 unseen, 0.03 after one visit


def experience() -> Transition:
    """Every transition many times, and the one to the goal once."""
    states = jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))
    before = jax.tree.map(lambda leaf: jnp.repeat(leaf, 2), states)
    action = jnp.tile(jnp.arange(2), ENV.num_states)
    after, outcome = jax.vmap(ENV.step)(before, action, jax.random.split(KEY, PAIRS))
    goal = jax.vmap(ENV.solved)(after)

    def repeated(leaf: Any) -> Any:
        return jnp.tile(leaf, (VISITS,))

    keys = jax.random.split(KEY, PAIRS * VISITS)
    _, sampled = jax.vmap(ENV.step)(jax.tree.map(repeated, before), repeated(action), keys)
    reward = jnp.where(repeated(goal), LOW_REWARD, sampled.reward)
    valid = ~repeated(goal) | (jnp.arange(PAIRS * VISITS) < PAIRS)
    before, action, after, outcome = jax.tree.map(repeated, (before, action, after, outcome))
    return Transition(before, action, reward, after, outcome.terminated, outcome.truncated, valid)


def model(novelty: Novelty) -> Any:
    """Predicted rewards are the means of the experienced ones; values and variances are not learned yet."""
    data = experience()
    world_model = SimulatorModel(
        TabularEvaluator(novelty),
        GAMMA,
        lambda leaf: horizon_factor(GAMMA, (ENV.size - leaf.row).astype(jnp.float32)),
    )
    codec = MeanCategorical(10)
    heads = HeadSpec(2, codec, bounded=False, ube=True, exploration=False)
    zeros = jax.tree.map(jnp.zeros_like, indexed_networks(ENV.num_states, heads, widths=(), key=KEY))
    pairs = jax.vmap(pair_index, (None, 0, 0))(ENV, data.before, data.action)
    number = jnp.zeros(PAIRS).at[pairs].add(data.valid)
    means = jnp.zeros(PAIRS).at[pairs].add(jnp.where(data.valid, data.reward, 0.0)) / number
    rows = jnp.log(jax.vmap(codec.two_hot)(means) + 1e-12)
    networks = jax.tree_util.tree_map_with_path(
        lambda path, leaf: rows if path[0].name == "reward" else leaf, zeros
    )
    state = world_model.update_novelty(ENV, networks, novelty.init(KEY), data)
    return world_model.planning_models(ENV, networks)(world_model.record_rewards(ENV, state, data))


@functools.cache
def goes_right(planner: Planner, aware: bool) -> np.ndarray:
    """Whether the planner takes the right action, in each cell of the path to the goal."""
    novelty: Novelty = NoiseAware(COUNTS, RewardMoments(PAIRS)) if aware else COUNTS

    @jax.jit
    def run() -> Any:
        path = jnp.arange(ENV.size)
        states = jax.vmap(ENV.state_at)(path * (path + 1) // 2 + path)
        params = ExplorationParams(jnp.ones(ENV.size), jnp.ones(ENV.size, bool))
        return planner(KEY, model(novelty), states, params).action == jax.vmap(ENV.right_action)(states)

    return np.asarray(run())


def test_a_search_returns_to_a_goal_whose_first_reward_was_low() -> None:
    planner = Uct(400, c=0.5)
    assert goes_right(planner, aware=True).all()
    assert not goes_right(planner, aware=False).any()


def test_one_step_lookahead_returns_if_the_goal_is_the_next_state() -> None:
    planner = UbeAtRoot(Puct(50, temperature=0.0))
    assert goes_right(planner, aware=True)[-1]
    assert not goes_right(planner, aware=False)[-1]


def test_the_novelty_of_a_leaf_does_not_include_noise() -> None:
    """Noise makes a reward uncertain, but not the rewards after it."""
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


def test_beta_is_larger_where_rewards_are_noisy() -> None:
    def largest_beta(changes: dict[str, Any]) -> float:
        learner = CATALOGUE.compose("deep-sea", "e-az", settings("deep-sea", "e-az", changes))
        return max(learner.exploration.betas)

    betas = {}
    for stochastic in (False, True):
        betas[stochastic] = largest_beta({"env.stochastic": stochastic})
        assert largest_beta({"env.stochastic": stochastic, "exploration.beta": 2.5}) == 2.5
    assert betas == {False: 1.0, True: 10.0}
