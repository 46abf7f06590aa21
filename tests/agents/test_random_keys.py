"""Random keys: none is used twice, and agents, seeds and evaluations have their own."""

import collections
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import ExplorationParams, Puct, UbeAtRoot
from emcts.agents.mcts.targets import Reanalyse, SearchedEdgeUbe, searched_value
from emcts.training.learner import Learner
from emcts.training.log import evaluation_keys
from emcts.training.loop import run_chunk
from emcts.training.seeds import SeedTrainer
from tests.agents.chain import Chain, ChainState, random_tables, state_from_tables, tabular_agent
from tests.agents.mcts.test_targets import PLANNER
from tests.agents.tiny import CATALOGUE, Changes, settings, trainer

STOCHASTIC: Changes = {
    "env.size": 3,
    "env.stochastic": True,
    "replay.batch_size": 4,
    "evaluation.every": 30,
}
SMALL_SEARCH: Changes = {"schedule.updates": 2, "search.simulations": 3}
FUNCTIONS = (
    "split",
    "bits",
    "uniform",
    "normal",
    "gumbel",
    "categorical",
    "dirichlet",
    "randint",
    "bernoulli",
)
Uses = collections.Counter[tuple[int, int]]


def make(agent: str, changes: Changes | None = None) -> SeedTrainer[Any]:
    """A trainer of stochastic Deep Sea, with short chunks."""
    small = {**STOCHASTIC, **({} if agent == "bdqn" else SMALL_SEARCH), **(changes or {})}
    return CATALOGUE.trainer("deep-sea", agent, settings("deep-sea", agent, small), (0,))


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> Iterator[Uses]:
    """How often each key is used, while programs that are traced from here on run.

    Counted when the programs run, so equal keys count as one, however they were made.
    """
    counted: Uses = collections.Counter()

    def count(data: Any) -> None:
        counted.update(map(tuple, np.asarray(data).reshape(-1, 2).tolist()))

    def wrap(name: str) -> Any:
        original = getattr(jax.random, name)

        def counting(key: Any, *args: Any, **kwargs: Any) -> Any:
            jax.debug.callback(count, jax.random.key_data(key))
            return original(key, *args, **kwargs)

        return counting

    for name in FUNCTIONS:
        monkeypatch.setattr(jax.random, name, wrap(name))
    yield counted
    jax.clear_caches()


def assert_used_once(uses: Uses) -> None:
    jax.effects_barrier()
    assert len(uses) > 10
    assert {key: times for key, times in uses.items() if times > 1} == {}


ALL_KEYS: Changes = {
    "novelty.kind": "ensemble",
    "replay.recent": 4,
    "targets.ube": "root",
    "targets.ube_steps": 2,
    "targets.value_steps": 2,
    "targets.fraction": 0.5,
}


@pytest.mark.parametrize(
    ("agent", "changes"), [("e-az", ALL_KEYS), pytest.param("e-mz", {}, marks=pytest.mark.long), ("bdqn", {})]
)
def test_no_key_is_used_twice_in_training_and_evaluation(agent: str, changes: Changes, uses: Uses) -> None:
    """Over three chunks: evaluation after one must not have a key that training uses in the next."""
    one = make(agent, changes)
    state = one.init()
    for _ in range(3):
        state, progress = one.advance(state)
    assert progress.train_steps > 0
    assert_used_once(uses)


@pytest.mark.parametrize("policy", [emcts.muzero_policy, emcts.gumbel_muzero_policy, emcts.uct_policy])
def test_no_key_is_used_twice_in_a_search(policy: Any, uses: Uses) -> None:
    def model(_: Any, key: Any, action: Any, embedding: Any) -> Any:
        ones = jnp.ones(1)
        reward = jax.random.normal(key, (1,))
        step = emcts.RecurrentFnOutput(reward, ones, jnp.zeros((1, 3)), 0 * ones)
        return step, embedding

    root = emcts.RootFnOutput(jnp.zeros((1, 3)), jnp.zeros(1), jnp.zeros(1))
    jax.jit(lambda key: policy(None, key, root, model, 6).action)(jax.random.key(5)).block_until_ready()
    assert_used_once(uses)


def test_no_key_is_used_twice_by_ube_at_the_root(uses: Uses) -> None:
    agent = tabular_agent(Reanalyse(PLANNER, searched_value, SearchedEdgeUbe(), exploring=PLANNER))
    state = state_from_tables(agent, random_tables(pairs=True))
    model = agent.world_model.planning_models(Chain(), state.target)(state.novelty)
    states = ChainState(jnp.zeros(1, jnp.int32))
    params = ExplorationParams.constant(states, beta=1.0, exploring=True)
    planner = UbeAtRoot(Puct(6, dirichlet_fraction=0.25))
    jax.jit(lambda key: planner(key, model, states, params).action)(jax.random.key(5)).block_until_ready()
    assert_used_once(uses)


def trace_chunk(learner: Learner[Any]) -> None:
    """Traces all that training does with one seed."""

    def chunk(state: Any, learning: Any, progress: Any) -> Any:
        state, metrics = run_chunk(learner, state, learning, progress)
        keys = evaluation_keys(state)
        return state, metrics, learner.evaluate(state, keys.episodes, episodes=2, beta=0.0)

    params = learner.env_factory.params(0)
    state = jax.jit(learner.init).trace(jax.random.key(0), params).out_info
    jax.jit(chunk).trace(state, jnp.ones(2, bool), jnp.ones(2))


@pytest.mark.usefixtures("key_reuse_checked")
def test_a_chunk_passes_the_check_for_reuse() -> None:
    """Trainings of every agent run with this check too: tests/agents/mcts and tests/agents/bdqn."""
    trace_chunk(make("bdqn").learner)


@pytest.mark.usefixtures("key_reuse_checked")
def test_the_check_finds_a_key_that_learning_uses_again(monkeypatch: pytest.MonkeyPatch) -> None:
    learn = MctsLearner.learn

    def careless(self: MctsLearner, state: Any, progress: Any) -> Any:
        learn(self, state, progress)
        return learn(self, state, progress)

    monkeypatch.setattr(MctsLearner, "learn", careless)
    with pytest.raises(jax.errors.KeyReuseError):
        trace_chunk(make("e-az").learner)


def key_numbers(key: Any) -> set[tuple[int, ...]]:
    return {tuple(row) for row in np.asarray(jax.random.key_data(key)).tolist()}


def test_agents_and_seeds_do_not_share_their_random_numbers() -> None:
    """In any process: the name enters by a checksum, not by Python's hash."""
    seeds = (0, 1)
    keys = [trainer("deep-sea", agent, seeds).init().key for agent in ("e-az", "az-ube", "bdqn")]
    assert len(set.union(*map(key_numbers, keys))) == 6
    one = trainer("deep-sea", "bdqn", seeds)
    expected = [jax.random.fold_in(jax.random.key(seed), jnp.uint32(3960274627)) for seed in seeds]
    params = jnp.stack([jnp.asarray(one.learner.env_factory.params(seed)) for seed in seeds])
    wanted = jax.vmap(one.learner.init)(jnp.stack(expected), params)
    np.testing.assert_array_equal(
        jax.random.key_data(wanted.key), jax.random.key_data(one.init().key), strict=True
    )


def test_the_same_seed_has_the_same_environment_for_every_agent() -> None:
    maps = [trainer("deep-sea", agent, (0, 1)).init().env_params for agent in ("e-az", "bdqn")]
    np.testing.assert_array_equal(maps[0], maps[1])


def test_evaluation_keys_change_with_the_steps_and_leave_training_alone() -> None:
    one = trainer("deep-sea", "bdqn", (0, 1))
    state = one.init()
    before = jax.vmap(evaluation_keys)(state)
    first = set.union(key_numbers(before.episodes), key_numbers(before.maps), key_numbers(state.key))
    state, _ = one.advance(state)
    after = jax.vmap(evaluation_keys)(state)
    second = set.union(key_numbers(after.episodes), key_numbers(after.maps), key_numbers(state.key))
    assert len(first) == len(second) == 6
    assert not first & second
