"""Truncated episodes: values are bootstrapped where a time limit cuts an episode off."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.mcts.planners import ExplorationParams, Gumbel, Planner, Puct, Uct
from emcts.agents.mcts.state import init
from emcts.agents.mcts.targets import NStep, Trajectory, ValueRule, searched_or_td, searched_value
from emcts.agents.mcts.update import make_targets
from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.presets import gumbel
from emcts.agents.settings import NetworkSettings, Settings
from emcts.agents.task import Task
from emcts.envs import Outcome
from emcts.envs.wrappers import TimeLimit, TimeLimitState
from emcts.models.codecs import Policy
from emcts.models.networks import Head, Identity, Networks
from emcts.runs.config import override
from emcts.training.env_factory import SharedEnv
from emcts.types import Key, Replaceable, record
from tests.agents.tiny import CATALOGUE, settings

KEY = jax.random.key(0)
GAMMA, LIMIT, SIMULATIONS = 0.97, 20, 24
TIMES = np.arange(LIMIT)  # steps taken so far


@record
class Position(Replaceable):
    position: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class ConstantReward:
    """Every step has the same reward and changes nothing: every value is `reward / (1 - gamma)`."""

    reward: float
    num_actions: int = 2
    deterministic: bool = True

    def init(self, key: Key) -> Position:
        return Position(jnp.int32(0))

    def step(self, state: Position, action: Int[Array, ""], key: Key) -> tuple[Position, Outcome]:
        return state, Outcome(jnp.float32(self.reward), jnp.bool_(False), jnp.bool_(False))

    def observe(self, state: Position) -> Float[Array, "1"]:
        return jnp.ones(1)

    def legal(self, state: Position) -> Bool[Array, "A"]:
        return jnp.ones(2, bool)


@dataclasses.dataclass(frozen=True)
class Scalar:
    """The codec of a head whose output is the number itself."""

    size: int = 1

    def decode(self, raw: Array) -> Array:
        return raw[0]

    def loss(self, raw: Array, target: Array) -> Array:
        return (raw[0] - target) ** 2


class Constant(eqx.Module):
    output: Array

    def __call__(self, x: Array) -> Array:
        return self.output


def constant_networks(value: Any, variance: float = 0.0) -> Networks:
    def head(output: Any, codec: Any) -> Head:
        return Head(Constant(jnp.asarray(output, jnp.float32)), codec)

    return Networks(
        torso=Identity(),
        value=head([value], Scalar()),
        policy=head([0.0, 0.0], Policy(2)),
        exploration=None,
        ube=head([variance], Scalar()),
        reward=None,
    )


def agent(reward: float, rule: ValueRule = searched_or_td, num_steps: int = 1) -> Any:
    """E-AZ, composed for an environment behind a time limit."""
    task = Task(SharedEnv(TimeLimit(ConstantReward(reward), LIMIT)), max_steps=LIMIT)
    changes = {
        "search.simulations": SIMULATIONS,
        "search.discount": GAMMA,
        "novelty.hash_bits": 8,
        "novelty.max_variance": 100.0,
        "replay.batch_size": 8,
        "replay.capacity": 100,
        "schedule.num_envs": 2,
    }
    made = compose(VARIANTS["e-az"], task, override(SETTINGS, changes))
    reanalyse = dataclasses.replace(made.reanalyse, value=rule, num_steps=num_steps)
    return dataclasses.replace(made, make_networks=lambda key: constant_networks(0.0), reanalyse=reanalyse)


SETTINGS = Settings(
    steps=1000,
    env=None,
    model=NetworkSettings(),
    search=gumbel.SEARCH,
    exploration=gumbel.EXPLORATION,
    novelty=gumbel.NOVELTY,
    targets=gumbel.TARGETS,
    replay=gumbel.REPLAY,
    schedule=gumbel.SCHEDULE,
)


def at_every_time(num_steps: int = 0) -> TimeLimitState[Position]:
    """States after each number of steps, [D], or [D, num_steps + 1] in a row: a new episode begins after the limit."""
    time = (TIMES[:, None] + np.arange(num_steps + 1)) % LIMIT
    start = TimeLimit(ConstantReward(0.0), LIMIT).init(KEY)
    times = jnp.asarray(time if num_steps else time[:, 0], jnp.int32)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, times.shape), start)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: times if path[-1].name == "time" else leaf, states
    )


@pytest.mark.parametrize("reward", [1.0, -1.0])
@pytest.mark.parametrize(
    "planner",
    [Gumbel(SIMULATIONS, gumbel_scale=0.0), Puct(SIMULATIONS, temperature=0.0), Uct(SIMULATIONS)],
    ids=["gumbel", "puct", "uct"],
)
def test_a_search_with_exact_values_is_exact_at_every_time(reward: float, planner: Planner) -> None:
    one = agent(reward)
    true = reward / (1 - GAMMA)

    @jax.jit
    def run(states: Any) -> Any:
        model = one.world_model.without_novelty().planning_models(one.env(()), constant_networks(true))(())
        return planner(KEY, model, states, ExplorationParams.constant(states))

    plan = run(at_every_time())
    np.testing.assert_allclose(plan.value, true, rtol=1e-5)
    np.testing.assert_allclose(plan.qvalues, true, rtol=1e-5)


def test_variance_is_backed_up_over_the_cut_and_counted_once() -> None:
    """One step before the limit, the variance of a return is `gamma^2` times that of the state that is reached."""
    one = agent(1.0)
    states = at_every_time()

    @jax.jit
    def run() -> Any:
        world_model = one.world_model.without_novelty()
        model = world_model.planning_models(one.env(()), constant_networks(0.0, 4.0))(())
        return Gumbel(SIMULATIONS, gumbel_scale=0.0)(KEY, model, states, ExplorationParams.constant(states))

    plan = run()
    np.testing.assert_allclose(plan.qvalue_stds[LIMIT - 1], 2 * GAMMA, rtol=1e-5)
    assert np.all(plan.qvalue_stds <= 2 * GAMMA + 1e-5)


def trajectory(num_steps: int, reward: float) -> Trajectory:
    states = at_every_time(num_steps)
    return Trajectory(
        states=states,
        actions=jnp.zeros((LIMIT, num_steps), jnp.int32),
        rewards=jnp.full((LIMIT, num_steps), reward),
        terminated=jnp.zeros((LIMIT, num_steps), bool),
        truncated=states.time[:, :-1] == LIMIT - 1,
        policy=jnp.full((LIMIT, 2), 0.5),
    )


@pytest.mark.parametrize("reward", [1.0, -1.0])
@pytest.mark.parametrize(
    ("rule", "num_steps"), [(searched_or_td, 1), (searched_value, 1), (NStep(1), 1), (NStep(5), 5)]
)
def test_the_true_value_is_a_fixed_point_of_the_targets(
    reward: float, rule: ValueRule, num_steps: int
) -> None:
    """Time is not observed, so one number is learned for all times: the mean of the targets, again and again."""
    one = agent(reward, rule, num_steps)
    state = init(one, KEY, ())

    @jax.jit
    def iterate(value: Any) -> Any:
        def once(value: Any, _: Any) -> Any:
            now = state.replace(target=constant_networks(value))
            targets = make_targets(one, one.env(()), now, trajectory(num_steps, reward), KEY)
            return targets.value.mean(), None

        return jax.lax.scan(once, value, length=60)[0]

    true = reward / (1 - GAMMA)
    np.testing.assert_allclose(iterate(jnp.float32(true)), true, rtol=1e-4)


@pytest.mark.parametrize("agent", ["e-az", "e-mz"])
def test_without_a_discount_an_endless_horizon_is_refused(agent: str) -> None:
    endless = settings("deep-sea", agent, {"search.discount": 1.0, "novelty.leaf_horizon": "endless"})
    with pytest.raises(
        ValueError, match="discount of 1 bounds no endless sum: give --novelty.leaf-horizon episode"
    ):
        CATALOGUE.compose("deep-sea", agent, endless)


def test_without_a_discount_the_horizon_of_the_episode_is_enough() -> None:
    undiscounted = settings("deep-sea", "e-az", {"search.discount": 1.0, "env.size": 4, "model.width": 8})
    one: Any = CATALOGUE.compose("deep-sea", "e-az", undiscounted)
    env = one.env_factory.example
    state = init(one, KEY, jnp.asarray(env.right_actions))
    model = one.world_model.planning_models(env, state.networks)(state.novelty)
    states = jax.vmap(env.init)(jax.random.split(KEY, 2))
    out = model.step(states, jnp.array([0, 1]), KEY)
    np.testing.assert_allclose(out.value_variance, 3.0 * undiscounted.novelty.unseen_variance, rtol=1e-5)
