"""Units: beta means the same in a world that pays 1 and in one that pays 1024."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.bdqn.settings import (
    BdqnScheduleSettings,
    BdqnSettings,
    EnsembleSettings,
    UniformReplaySettings,
)
from emcts.agents.bdqn.settings import compose as compose_bdqn
from emcts.agents.mcts.agent import LossWeights
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.state import TrainState
from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.presets import gumbel
from emcts.agents.settings import (
    LearnedModelSettings,
    NetworkSettings,
    NoveltySettings,
    ReplaySettings,
    ScheduleSettings,
    Settings,
)
from emcts.agents.task import Task
from emcts.envs import Outcome, time_limit
from emcts.models.statistics import update_statistics
from emcts.training.env_factory import SharedEnv
from emcts.types import Key
from tests.agents.chain import KEY
from tests.agents.tiny import assert_equal

FACTOR = 1024.0  # a power of 2: every product is exact
LENGTH, LIMIT = 5, 8
COST = 0.125


@dataclasses.dataclass(frozen=True)
class Line:
    """Positions in a row: each step costs something, the last position pays the goal. `pays` multiplies both."""

    pays: float = 1.0

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def deterministic(self) -> bool:
        return True

    def init(self, key: Key) -> Int[Array, ""]:
        return jnp.int32(0)

    def step(self, state: Int[Array, ""], action: Int[Array, ""], key: Key) -> tuple[Int[Array, ""], Outcome]:
        over = state == LENGTH
        after = jnp.where(over, state, jnp.maximum(state + 2 * action - 1, 0))
        reward = self.pays * jnp.where(after == LENGTH, 1.0, -COST)
        return after, Outcome(jnp.where(over, 0.0, reward), after == LENGTH, jnp.bool_(False))

    def observe(self, state: Int[Array, ""]) -> Float[Array, "P"]:
        return jax.nn.one_hot(state, LENGTH + 1)

    def legal(self, state: Int[Array, ""]) -> Bool[Array, "A"]:
        return jnp.ones(2, bool)


@dataclasses.dataclass(frozen=True)
class Numbered(Line):
    """The same with a number for each state, and so with tables and learned rewards."""

    num_states = LENGTH

    def index(self, state: Int[Array, ""]) -> Int[Array, ""]:
        return state

    def state_at(self, index: Int[Array, ""]) -> Int[Array, ""]:
        return index.astype(jnp.int32)

    def steps_left(self, state: Int[Array, ""]) -> Int[Array, ""]:
        return jnp.int32(LIMIT)


NOVELTY = {
    "simulator": NoveltySettings(kind="hash-counts", hash_bits=8, max_variance=8.0, leaf_horizon="episode"),
    "finite": NoveltySettings(kind="counts", leaf_horizon="episode"),
    "learned": NoveltySettings(
        kind="ensemble", ensemble_size=2, ensemble_hidden=(8,), leaf_horizon="endless", update="training"
    ),
}


def settings_of(case: str, return_range: float | None) -> Settings[Any, Any]:
    model: NetworkSettings | LearnedModelSettings = NetworkSettings(width=8, support="wide")
    if case == "learned":
        small = (8,)
        model = LearnedModelSettings(
            latent=8,
            representation=small,
            dynamics=small,
            heads=small,
            ube_head=small,
            support="wide",
            beyond_known=True,
        )
    return Settings(
        steps=1000,
        env=None,
        model=model,
        search=dataclasses.replace(gumbel.SEARCH, simulations=4),
        exploration=gumbel.EXPLORATION,
        novelty=dataclasses.replace(NOVELTY[case], return_range=return_range),
        targets=gumbel.TARGETS,
        replay=ReplaySettings(capacity=200, batch_size=8, sequence=2),
        loss=LossWeights(uncertainty_weight=1.0),
        schedule=ScheduleSettings(num_envs=2, rollout_length=8, updates=2, warmup_steps=20),
    )


def learner(case: str, pays: float, return_range: float | None) -> MctsLearner:
    env = Numbered(pays) if case == "finite" else time_limit(Line(pays), LIMIT)
    task = Task(SharedEnv(env), max_steps=LIMIT)
    variant = VARIANTS["e-mz" if case == "learned" else "e-az"]
    return compose(variant, task, settings_of(case, return_range))


def assert_alike(one: TrainState, scaled: TrainState) -> None:
    """The same actions for the same reasons, at other rewards."""
    transitions, other = one.replay.transitions, scaled.replay.transitions
    np.testing.assert_array_equal(transitions.action, other.action)
    np.testing.assert_array_equal(FACTOR * transitions.reward, other.reward)
    assert_equal(transitions.policy, other.policy, rtol=1e-2)


@pytest.mark.parametrize("case", ["simulator", pytest.param("learned", marks=pytest.mark.long)])
def test_a_given_range_makes_rewards_of_any_size_the_same(case: str) -> None:
    """Training is the same step for step: only rewards, and with them standard deviations, are multiplied."""
    ends, stds = [], []
    for pays in (1.0, FACTOR):
        agent = learner(case, pays, return_range=pays)
        act, learn = jax.jit(agent.act), jax.jit(agent.learn)
        state, _ = act(jax.jit(agent.init)(KEY, ()))
        state, _ = act(state)
        for _ in range(3):
            state, stats = learn(state, jnp.float32(0))
            state, rollout = act(state.replace(target=state.networks))
        ends.append(state)
        stds.append(rollout.value_std)
    assert stats.clipped_targets == 0
    one, scaled = ends
    assert np.unique(one.replay.transitions.reward).size == 3, "costs, the goal and 0 of rows not yet written"
    assert_alike(one, scaled)
    np.testing.assert_allclose(FACTOR * stds[0], stds[1], rtol=1e-2)
    assert_equal(one.replay.priorities, scaled.replay.priorities, rtol=1e-2)
    assert_equal((one.networks, one.novelty), (scaled.networks, scaled.novelty), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("case", ["simulator", "finite"])
def test_once_the_range_was_seen_rewards_of_any_size_are_explored_alike(case: str) -> None:
    ends = []
    for pays in (1.0, FACTOR):
        agent = learner(case, pays, return_range=None)
        state = jax.jit(agent.init)(KEY, ())
        seen = update_statistics(state.networks, pays * jnp.array([-COST, 1.0]))
        state, _ = jax.jit(agent.act)(state.replace(networks=seen))
        ends.append(state)
    assert_alike(*ends)
    one, scaled = (end.novelty.novelty if case == "finite" else end.novelty for end in ends)
    assert_equal(one, scaled)


@pytest.mark.parametrize("given", [True, False])
def test_bdqn_learns_rewards_of_any_size_alike(given: bool) -> None:
    ends = []
    for pays in (1.0, FACTOR):
        settings = BdqnSettings(
            steps=100,
            env=None,
            return_range=pays if given else None,
            normalise_observations=True,
            ensemble=EnsembleSettings(size=2, hidden=(8,), noise_scale=0.1),
            replay=UniformReplaySettings(capacity=100, batch_size=16),
            schedule=BdqnScheduleSettings(rollout_length=10, warmup_steps=10),
        )
        agent = compose_bdqn(Task(SharedEnv(time_limit(Line(pays), LIMIT)), max_steps=LIMIT), settings)
        act, learn = jax.jit(agent.act), jax.jit(agent.learn)
        state = jax.jit(agent.init)(KEY, ())
        assert state.statistics is not None
        if not given:
            seen = state.statistics.returns.update(pays * jnp.array([-COST, 1.0]))
            state = state.replace(statistics=state.statistics.replace(returns=seen))
        for _ in range(3):
            state, _ = act(state)
            state, _ = learn(state, jnp.float32(0))
        ends.append(state)
    one, scaled = ends
    np.testing.assert_array_equal(one.replay.transitions.action, scaled.replay.transitions.action)
    np.testing.assert_array_equal(FACTOR * one.replay.transitions.reward, scaled.replay.transitions.reward)
    assert_equal(one.networks, scaled.networks, rtol=1e-3, atol=1e-5)


def test_acting_records_the_range_of_the_returns() -> None:
    agent = learner("simulator", FACTOR, return_range=None)
    state = jax.jit(agent.init)(KEY, ())
    np.testing.assert_array_equal(agent.world_model.return_range(state.networks), 1)
    state, _ = jax.jit(agent.act)(state)
    stored, low, high = state.replay.transitions, 0.0, 0.0
    for rewards, over in zip(
        np.asarray(stored.reward).T, np.asarray(stored.terminated | stored.truncated).T, strict=True
    ):
        total = 0.0
        for reward, ended in zip(rewards[: int(state.replay.filled)], over, strict=False):
            total = agent.world_model.discount * total + reward
            low, high, total = min(low, total), max(high, total), 0.0 if ended else total
    np.testing.assert_allclose(agent.world_model.return_range(state.networks), high - low, rtol=1e-5)
    assert high - low >= COST * FACTOR
