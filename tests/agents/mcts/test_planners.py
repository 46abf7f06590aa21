"""The actions of planners; and that without uncertainty, epistemic agents are the plain ones."""

import dataclasses
import functools
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.mcts.planners import (
    ExplorationParams,
    Gumbel,
    Planner,
    Puct,
    UbeAtRoot,
    Uct,
    policy_prior,
)
from emcts.agents.mcts.state import init
from emcts.agents.mcts.targets import Reanalyse, SearchedEdgeUbe, Trajectory, searched_or_td
from emcts.agents.mcts.update import make_targets
from emcts.search.ube import one_step_lookahead
from tests.agents.chain import (
    KEY,
    LENGTH,
    Chain,
    ChainState,
    random_tables,
    state_from_tables,
    tabular_agent,
)
from tests.agents.mcts.test_targets import ByHand
from tests.agents.tiny import CATALOGUE, settings

SIMULATIONS = 8
STATES = ChainState(jnp.tile(jnp.arange(LENGTH, dtype=jnp.int32), 2))


SEARCH = Gumbel(SIMULATIONS)
AGENT = tabular_agent(Reanalyse(SEARCH, searched_or_td, SearchedEdgeUbe(), exploring=SEARCH))
STATE = state_from_tables(AGENT, random_tables(pairs=True))


def model(networks: Any = STATE.target) -> Any:
    return AGENT.world_model.planning_models(Chain(), networks)(STATE.novelty)


@functools.partial(jax.jit, static_argnames="planner")
def run(planner: Planner, key: Any, params: ExplorationParams) -> Any:
    return planner(key, model(), STATES, params)


def plan(planner: Planner, beta: float, exploring: bool, key: Any = KEY) -> Any:
    return run(planner, key, ExplorationParams(jnp.full(2 * LENGTH, beta), jnp.full(2 * LENGTH, exploring)))


@pytest.mark.parametrize("inner", [Puct(SIMULATIONS, temperature=0.0), Gumbel(SIMULATIONS, gumbel_scale=0.0)])
def test_ube_at_root_takes_the_best_score_of_one_step_lookahead(inner: Any) -> None:
    params = ExplorationParams(jnp.full(2 * LENGTH, 3.0), jnp.arange(2 * LENGTH) >= LENGTH)
    found = run(UbeAtRoot(inner), KEY, params)
    search_key, _ = jax.random.split(KEY)
    plain = run(inner, search_key, params.replace(beta=jnp.zeros(2 * LENGTH)))
    prior = policy_prior
    lookahead = jax.jit(
        lambda: one_step_lookahead(None, KEY, model().root(STATES, prior), model().recurrent_fn(prior))
    )
    stds = lookahead().stds
    np.testing.assert_allclose(found.qvalues, plain.qvalues, rtol=1e-6)
    scores = np.asarray(found.qvalues) + 3.0 * np.asarray(stds)
    np.testing.assert_array_equal(found.action[LENGTH:], np.argmax(scores, axis=1)[LENGTH:])
    np.testing.assert_array_equal(found.action[:LENGTH], plain.action[:LENGTH])
    assert not np.array_equal(np.argmax(scores, axis=1), np.argmax(found.qvalues, axis=1))


def test_ube_at_root_scores_unvisited_actions_by_one_step() -> None:
    """One simulation visits one of two actions; `emcts.ube_root_scores` scores the other one."""
    params = ExplorationParams(jnp.full(2 * LENGTH, 0.1), jnp.ones(2 * LENGTH, bool))
    found = run(UbeAtRoot(Puct(1, temperature=0.0)), KEY, params)
    hand = ByHand(random_tables(pairs=True), known_rewards=False)
    scores = np.array([hand.q(at) + 0.1 * np.sqrt(hand.variances(at)) for at in range(LENGTH)])
    np.testing.assert_array_equal(found.action, np.tile(np.argmax(scores, axis=1), 2))


def test_puct_explores_by_most_visits_and_exploits_by_sampling() -> None:
    planner = Puct(SIMULATIONS, temperature=1.0)
    explored = [plan(planner, 0.0, True, jax.random.key(k)) for k in range(3)]
    for one in explored:
        np.testing.assert_array_equal(one.action, np.argmax(one.policy, axis=-1))
    params = ExplorationParams.constant(STATES)
    sampled = [run(planner, key, params) for key in jax.random.split(KEY, 200)]
    frequency = np.mean([one.action for one in sampled], axis=0)
    np.testing.assert_allclose(frequency, sampled[0].policy[:, 1], atol=0.12)
    assert np.any((frequency > 0) & (frequency < 1))


def test_exploring_episodes_search_without_the_policy() -> None:
    """With the same keys, the policy head changes the search of the other episodes alone."""
    other = state_from_tables(
        AGENT, dataclasses.replace(random_tables(pairs=True), policy=np.full((LENGTH, 2), [4.0, -4.0]))
    )
    planner = Puct(SIMULATIONS, temperature=0.0)

    @jax.jit
    def policies(networks: Any) -> Any:
        params = ExplorationParams(jnp.zeros(2 * LENGTH), jnp.arange(2 * LENGTH) >= LENGTH)
        return planner(KEY, model(networks), STATES, params).policy

    one, two = policies(STATE.target), policies(other.target)
    np.testing.assert_array_equal(one[LENGTH:], two[LENGTH:])
    assert not np.allclose(one[:LENGTH], two[:LENGTH])


def test_unvisited_actions_have_the_value_of_the_root() -> None:
    found = plan(Puct(1, temperature=0.0), 0.0, True)
    visited = np.asarray(found.policy) > 0
    assert np.all(visited.sum(axis=1) == 1)
    np.testing.assert_allclose(found.qvalues[~visited], found.value, rtol=1e-6)
    np.testing.assert_allclose(found.qvalue_stds[~visited], found.value_std, rtol=1e-6)


def test_uct_visits_every_action_and_follows_beta() -> None:
    visits = plan(Uct(SIMULATIONS), 0.0, False).policy * SIMULATIONS
    assert np.all(np.asarray(visits) >= 1)
    greedy, exploring = (plan(Uct(64, c=0.1), beta, True) for beta in (0.0, 50.0))
    np.testing.assert_array_equal(greedy.action, np.argmax(greedy.policy, axis=-1))
    stds = np.asarray(exploring.qvalue_stds)
    apart = np.abs(stds[:, 0] - stds[:, 1]) > 0.2
    assert apart.any()
    np.testing.assert_array_equal(np.asarray(exploring.action)[apart], np.argmax(stds, axis=1)[apart])


SMALL: dict[str, dict[str, Any]] = {
    "az": {"env.size": 4, "model.width": 8, "search.simulations": 6},
    "mz": {
        "env.size": 4,
        "model.latent": 8,
        "model.representation": (8,),
        "model.dynamics": (8,),
        "model.heads": (8,),
        "model.ube_head": (8,),
        "search.simulations": 6,
    },
}


def deep_sea(agent: str, **changes: Any) -> Any:
    small = {**SMALL[agent.removeprefix("e-")], **changes}
    return CATALOGUE.compose("deep-sea", agent, settings("deep-sea", agent, small))


def deep_sea_targets(agent: Any, networks: Any = None, only: slice = slice(None)) -> Any:
    params = jnp.asarray(agent.env_factory.params(0))
    env, state = agent.env(params), init(agent, KEY, params)
    rng = np.random.default_rng(0)
    number = env.num_states
    states = jax.vmap(env.state_at)(jnp.arange(number))
    after = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]], axis=1), states)
    trajectory = Trajectory(
        states=after,
        actions=jnp.asarray(rng.integers(0, 2, (number, 1)), jnp.int32),
        rewards=jnp.asarray(rng.normal(size=(number, 1)), jnp.float32),
        terminated=jnp.asarray(rng.random((number, 1)) < 0.3),
        truncated=jnp.zeros((number, 1), bool),
        policy=jnp.full((number, 2), 0.5),
    )
    target = state.networks if networks is None else networks(state.networks)
    trajectory = jax.tree.map(lambda leaf: leaf[only], trajectory)
    return jax.jit(lambda: make_targets(agent, env, state.replace(target=target), trajectory, KEY))()


def randomised(networks: Any) -> Any:
    """Networks with random weights, which are the same in each head that two agents have in common."""

    def fill(path: Any, leaf: Any) -> Any:
        key = jax.random.fold_in(KEY, zlib.crc32(str(path).encode()))
        return jax.random.normal(key, leaf.shape)

    return jax.tree_util.tree_map_with_path(fill, networks)


def test_with_beta_0_uncertainty_changes_no_value_and_no_policy() -> None:
    plain = deep_sea_targets(deep_sea("az"), randomised)
    epistemic = deep_sea_targets(deep_sea("e-az"), randomised)
    np.testing.assert_array_equal(plain.value, epistemic.value)
    np.testing.assert_array_equal(plain.policy, epistemic.policy)
    np.testing.assert_array_equal(plain.reward, epistemic.reward)
    assert np.all(np.asarray(epistemic.ube) > 0)


def test_without_variance_beta_changes_no_target() -> None:
    """An epistemic agent without any variance makes AlphaZero's targets."""
    plain = deep_sea_targets(deep_sea("az"), randomised)
    optimistic = deep_sea("e-az", **{"targets.beta": 5.0})
    without = dataclasses.replace(
        optimistic,
        world_model=optimistic.world_model.without_novelty(),
        make_networks=deep_sea("az").make_networks,
    )
    found = deep_sea_targets(without, randomised)
    for one, two in zip(jax.tree.leaves(plain), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.allclose(deep_sea_targets(optimistic, randomised).policy, plain.policy)


def test_a_search_that_uses_no_variance_may_leave_the_ube_head_out() -> None:
    """The other targets are the same, and so is that of the UBE head, which is not made by this search."""
    with_head = deep_sea("e-mz")
    assert not with_head.reanalyse.uses_novelty
    everything = dataclasses.replace(
        with_head, reanalyse=dataclasses.replace(with_head.reanalyse, uses_novelty=True)
    )
    without, full = (deep_sea_targets(agent, randomised) for agent in (with_head, everything))
    for name in ("value", "policy", "ube", "reward", "local_variance"):
        np.testing.assert_allclose(getattr(without, name), getattr(full, name), rtol=1e-5, atol=1e-6)
    assert np.all(np.asarray(without.ube) > 0)


@pytest.mark.parametrize("agent", ["e-az", "e-mz"])
def test_searching_the_states_of_a_batch_is_like_searching_all(
    agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they fill one part of several, and all but one of the states of a part are not of the batch."""
    every = deep_sea_targets(deep_sea(agent), randomised)
    monkeypatch.setattr("emcts.agents.mcts.update.ROWS_AT_ONCE", 3)
    parts = deep_sea_targets(deep_sea(agent), randomised, slice(5, 9))
    monkeypatch.setattr("emcts.agents.mcts.update.saves_work", lambda: False)
    at_once = deep_sea_targets(deep_sea(agent), randomised)
    for one, two, three in zip(*(jax.tree.leaves(found) for found in (every, parts, at_once)), strict=True):
        np.testing.assert_allclose(one, three, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(two, three[5:9], rtol=1e-5, atol=1e-6)


class Gated(Chain):
    """The chain, where the last action is illegal at every other position."""

    def legal(self, state: Any) -> Any:
        every = jnp.ones(self.num_actions, bool)
        return every.at[-1].set(state.position % 2 == 0)


@pytest.mark.parametrize(
    "planner",
    [
        Puct(SIMULATIONS, dirichlet_fraction=0.25),
        Uct(SIMULATIONS),
        Gumbel(SIMULATIONS),
        UbeAtRoot(Puct(SIMULATIONS)),
        UbeAtRoot(Gumbel(SIMULATIONS)),
    ],
)
def test_no_planner_takes_an_illegal_action(planner: Planner) -> None:
    env = Gated()
    illegal = ~np.asarray(jax.vmap(env.legal)(STATES))
    assert illegal.any()

    @jax.jit
    def search(key: Any, params: ExplorationParams) -> Any:
        gated = dataclasses.replace(model(), env=env)
        return planner(key, gated, STATES, params)

    for beta, exploring in ((0.0, False), (50.0, True)):
        found = search(KEY, ExplorationParams(jnp.full(2 * LENGTH, beta), jnp.full(2 * LENGTH, exploring)))
        assert not illegal[np.arange(2 * LENGTH), found.action].any()
        assert np.all(np.asarray(found.policy)[illegal] < 1e-6)
