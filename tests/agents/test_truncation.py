"""Episodes that are cut off: what is worth nothing is the end of an episode, not the end of our patience."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from emcts.agents.gumbel_family import GumbelSettings, Problem, constant_factor
from jaxtyping import Array, Bool, Float, Int

from emcts.agents import deep_sea, deep_sea_mz, gumbel_family
from emcts.agents.mcts.planners import Gumbel, Planner, Puct, Uct, no_exploration
from emcts.agents.mcts.state import init
from emcts.agents.mcts.targets import NStep, Trajectory, ValueRule, searched_or_td, searched_value
from emcts.agents.mcts.update import make_targets
from emcts.envs import Outcome
from emcts.envs.wrappers import TimeLimit, TimeLimitState
from emcts.models.codecs import Policy
from emcts.models.networks import Head, Identity, Networks
from emcts.training.env_factory import SharedEnv
from emcts.types import Key, Replaceable, record

KEY = jax.random.key(0)
GAMMA, LIMIT, SIMULATIONS = 0.97, 20, 24
DISTANCES = np.arange(LIMIT)  # steps taken so far


@record
class Nowhere(Replaceable):
    place: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Treadmill:
    """Every step pays the same and leads nowhere, for ever: a value is `reward / (1 - gamma)` at all times."""

    reward: float
    num_actions: int = 2
    deterministic: bool = True

    def init(self, key: Key) -> Nowhere:
        return Nowhere(jnp.int32(0))

    def step(self, state: Nowhere, action: Int[Array, ""], key: Key) -> tuple[Nowhere, Outcome]:
        return state, Outcome(jnp.float32(self.reward), jnp.bool_(False), jnp.bool_(False))

    def observe(self, state: Nowhere) -> Float[Array, "1"]:
        return jnp.ones(1)

    def legal(self, state: Nowhere) -> Bool[Array, "A"]:
        return jnp.ones(2, bool)


@dataclasses.dataclass(frozen=True)
class Number:
    """A head that says a number, whatever its size."""

    size: int = 1

    def decode(self, raw: Array) -> Array:
        return raw[0]

    def loss(self, raw: Array, target: Array) -> Array:
        return (raw[0] - target) ** 2


class Constant(eqx.Module):
    said: Array

    def __call__(self, x: Array) -> Array:
        return self.said


def networks_that_say(value: Any, variance: float = 0.0) -> Networks:
    def head(said: Any, codec: Any) -> Head:
        return Head(Constant(jnp.asarray(said, jnp.float32)), codec)

    return Networks(
        torso=Identity(),
        value=head([value], Number()),
        policy=head([0.0, 0.0], Policy(2)),
        exploration=None,
        ube=head([variance], Number()),
        reward=None,
    )


def agent(reward: float, rule: ValueRule = searched_or_td, moves: int = 1) -> Any:
    """As one composes it for an environment of one's own, behind a time limit."""
    env = TimeLimit(Treadmill(reward), LIMIT)
    problem = Problem(
        env_factory=SharedEnv(env),
        make_networks=lambda key, uncertain: networks_that_say(0.0),
        observe=lambda env, state: env.observe(state),
        look=lambda env, state: env.observe(state),
        leaf_factor=constant_factor(1.0),
        largest_variance=100.0,
        longest_episode=LIMIT,
        solved=None,
    )
    settings = GumbelSettings(
        episodes=2, simulations=SIMULATIONS, discount=GAMMA, hash_bits=8, batch_size=8, replay_capacity=100
    )
    made = gumbel_family.e_az(settings, problem)
    return dataclasses.replace(made, reanalyse=dataclasses.replace(made.reanalyse, value=rule, moves=moves))


def at_every_distance(moves: int = 0) -> TimeLimitState:
    """States that have come so far, [D], or [D, moves + 1] in a row: after the limit an episode begins anew."""
    time = (DISTANCES[:, None] + np.arange(moves + 1)) % LIMIT
    start = TimeLimit(Treadmill(0.0), LIMIT).init(KEY)
    times = jnp.asarray(time if moves else time[:, 0], jnp.int32)
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
def test_a_search_with_a_perfect_value_is_right_at_every_distance(reward: float, planner: Planner) -> None:
    one = agent(reward)
    true = reward / (1 - GAMMA)

    @jax.jit
    def run(states: Any) -> Any:
        model = one.world_model.known().models(one.world(()), networks_that_say(true))(())
        return planner(KEY, model, states, no_exploration(states))

    plan = run(at_every_distance())
    np.testing.assert_allclose(plan.value, true, rtol=1e-5)
    np.testing.assert_allclose(plan.qvalues, true, rtol=1e-5)


def test_variance_is_carried_over_the_cut_and_counted_once() -> None:
    """One step before the limit a return has `gamma^2` of the variance of the state that is reached."""
    one = agent(1.0)
    states = at_every_distance()

    @jax.jit
    def run() -> Any:
        model = one.world_model.known().models(one.world(()), networks_that_say(0.0, 4.0))(())
        return Gumbel(SIMULATIONS, gumbel_scale=0.0)(KEY, model, states, no_exploration(states))

    plan = run()
    np.testing.assert_allclose(plan.qvalue_stds[LIMIT - 1], 2 * GAMMA, rtol=1e-5)
    assert np.all(plan.qvalue_stds <= 2 * GAMMA + 1e-5)


def trajectory(moves: int, reward: float) -> Trajectory:
    states = at_every_distance(moves)
    return Trajectory(
        states=states,
        actions=jnp.zeros((LIMIT, moves), jnp.int32),
        rewards=jnp.full((LIMIT, moves), reward),
        terminated=jnp.zeros((LIMIT, moves), bool),
        truncated=states.time[:, :-1] == LIMIT - 1,
        policy=jnp.full((LIMIT, 2), 0.5),
    )


@pytest.mark.parametrize("reward", [1.0, -1.0])
@pytest.mark.parametrize(
    ("rule", "moves"), [(searched_or_td, 1), (searched_value, 1), (NStep(1), 1), (NStep(5), 5)]
)
def test_the_true_value_is_a_fixed_point_of_the_targets(reward: float, rule: ValueRule, moves: int) -> None:
    """Time is not observed, so one number is learned for all distances: the mean of the targets, again and again."""
    one = agent(reward, rule, moves)
    state = init(one, KEY, ())

    @jax.jit
    def iterate(value: Any) -> Any:
        def once(value: Any, _: Any) -> Any:
            now = state.replace(target=networks_that_say(value))
            targets = make_targets(one, one.world(()), now, trajectory(moves, reward), KEY)
            return targets.value.mean(), None

        return jax.lax.scan(once, value, length=60)[0]

    true = reward / (1 - GAMMA)
    np.testing.assert_allclose(iterate(jnp.float32(true)), true, rtol=1e-4)


def test_without_a_discount_an_unknown_horizon_is_refused() -> None:
    settings = dataclasses.replace(deep_sea.BEST, discount=1.0, leaf_horizon="endless", size=4)
    with pytest.raises(ValueError, match="discount of 1 bounds no endless sum: give --leaf-horizon episode"):
        deep_sea.e_az(settings)
    learned = dataclasses.replace(deep_sea_mz.BEST, discount=1.0, leaf_horizon="endless", size=4)
    with pytest.raises(ValueError, match="discount of 1 bounds no endless sum"):
        deep_sea_mz.e_mz(learned)


def test_without_a_discount_the_horizon_of_the_episode_serves() -> None:
    settings = dataclasses.replace(deep_sea.BEST, discount=1.0, size=4, width=8)
    one = deep_sea.e_az(settings)
    env = one.env_factory.example
    state = init(one, KEY, jnp.asarray(env.right_actions))
    model = one.world_model.models(env, state.networks)(state.novelty)
    states = jax.vmap(env.init)(jax.random.split(KEY, 2))
    out = model.step(states, jnp.array([0, 1]), KEY)
    np.testing.assert_allclose(out.value_variance, 3.0 * settings.unseen_variance, rtol=1e-5)
