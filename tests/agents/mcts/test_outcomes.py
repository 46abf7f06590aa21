"""Agents in stochastic worlds: searches that sample several outcomes of each action of the simulator."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int

from emcts import SampledOutcomes
from emcts.agents.mcts.evaluation import evaluate, simulator_rates
from emcts.agents.mcts.planners import UbeAtRoot, policy_prior
from emcts.agents.mcts.state import init
from emcts.agents.mcts.update import learn
from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.presets.default import LEARNED, SIMULATOR, STOCHASTIC_OUTCOMES, fill_open
from emcts.agents.task import make_task
from emcts.envs import Outcome
from emcts.envs.wrappers import TimeLimit
from emcts.models.evaluators import StateEstimate, TransitionEstimate
from emcts.models.simulator import SimulatorPlanningModel
from emcts.runs.config import override
from emcts.search.ube import one_step_lookahead
from emcts.types import Key, Replaceable, record

KEY = jax.random.key(0)
SURE, PRIZE, CHANCE = 0.5, 1.0, 0.3
START, WON, LOST, SAFE = 0, 1, 2, 3
SMALL: dict[str, Any] = {
    "search.simulations": 16,
    "model.width": 8,
    "novelty.kind": "hash-counts",
    "novelty.hash_bits": 6,
    "replay.batch_size": 4,
    "replay.capacity": 40,
    "schedule.num_envs": 2,
    "schedule.rollout_length": 8,
    "schedule.updates": 1,
    "schedule.warmup_steps": 0,
}


@record
class Ticket(Replaceable):
    at: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Lottery:
    """Action 0 pays 0.5; action 1 draws a ticket, which is worth 1 in 3 of 10 cases. Any step then cashes it in."""

    deterministic: bool = False
    num_actions: int = 2
    max_steps: int = 3

    def init(self, key: Key) -> Ticket:
        return Ticket(jnp.int32(START))

    def step(self, state: Ticket, action: Int[Array, ""], key: Key) -> tuple[Ticket, Outcome]:
        ticket = jnp.where(jax.random.bernoulli(key, CHANCE), WON, LOST)
        first = jnp.where(action == 0, SAFE, ticket)
        pays = jnp.where((state.at == START) & (action == 0), SURE, 0.0)
        reward = jnp.where(state.at == WON, PRIZE, pays)
        after = jnp.where(state.at == START, first, SAFE).astype(jnp.int32)
        return Ticket(after), Outcome(reward, after == SAFE, jnp.bool_(False))

    def observe(self, state: Ticket) -> Float[Array, "4"]:
        return jax.nn.one_hot(state.at, 4)

    def legal(self, state: Ticket) -> Bool[Array, "A"]:
        return jnp.ones(2, bool)


def agent(variant: str, outcomes: int | None, env: Any = None, **changes: Any) -> Any:
    task = make_task(Lottery() if env is None else env)
    preset: Any = SIMULATOR if "az" in variant else LEARNED
    small = {path: value for path, value in SMALL.items() if "mz" not in variant or path != "model.width"}
    settings = fill_open(override(preset, {**small, "search.outcomes": outcomes, **changes}), task)
    return compose(VARIANTS[variant], task, settings)


@functools.cache
def chosen(outcomes: int) -> tuple[float, Any]:
    """How often an untrained agent takes part in the lottery, and the trees of its searches."""
    az = agent("az", outcomes)
    state = init(az, KEY, ())
    roots = Ticket(jnp.full(64, START, jnp.int32))
    out = jax.jit(az.search)(state, KEY, roots)
    return float(np.mean(np.asarray(out.action) == 1)), out.search_tree


def test_one_draw_is_believed_and_several_are_weighed() -> None:
    naive, tree = chosen(1)
    assert tree.num_outcomes == 1
    assert 0.15 < naive < 0.45, "it takes part whenever the one draw wins"
    believed = np.asarray(tree.summary().qvalues[:, 1])
    assert believed.std() > 0.3

    wise, tree = chosen(16)
    assert tree.num_outcomes == 16
    assert wise < 0.1, "of 16 draws, more than 8 rarely win"
    believed = np.asarray(tree.summary().qvalues[:, 1])
    assert believed.std() < 0.2


@pytest.mark.long
def test_an_epistemic_agent_acts_and_learns_with_several_outcomes() -> None:
    learner = agent("e-az", 3)
    state = init(learner, KEY, ())

    @jax.jit
    def iteration(state: Any) -> Any:
        state, _ = learner.act(state)
        state, stats = learner.learn(state, jnp.float32(0))
        return state, stats.total, evaluate(learner, state, KEY, episodes=2).episode_return

    _, total, returns = iteration(state)
    assert np.all(np.isfinite(total))
    assert set(np.asarray(returns).tolist()) <= {0.0, SURE, PRIZE}


def table(state: Ticket) -> StateEstimate:
    at = state.at.astype(jnp.float32)
    return StateEstimate(jnp.stack([at, -at]), jnp.stack([at, -at]), 0.1 + at, 0.2 * at)


def transition(before: Any, action: Array, after: Ticket, outcome: Outcome) -> TransitionEstimate:
    novelty = 0.1 * after.at.astype(jnp.float32)
    return TransitionEstimate(outcome.reward, novelty, novelty)


@dataclasses.dataclass(frozen=True)
class Wandering:
    """Moves to one of three places, which is all that happens."""

    num_actions: int = 2

    def init(self, key: Key) -> Ticket:
        return Ticket(jnp.int32(0))

    def step(self, state: Ticket, action: Int[Array, ""], key: Key) -> tuple[Ticket, Outcome]:
        place = jax.random.randint(key, (), 0, 3, jnp.int32)
        reward = action.astype(jnp.float32)
        return Ticket(place), Outcome(reward, jnp.bool_(False), jnp.bool_(False))

    def observe(self, state: Ticket) -> Float[Array, "3"]:
        return jax.nn.one_hot(state.at, 3)

    def legal(self, state: Ticket) -> Bool[Array, "A"]:
        return jnp.ones(2, bool)


LIMITED = TimeLimit(Wandering(), 3)


def planning_model(outcomes: int) -> SimulatorPlanningModel:
    return SimulatorPlanningModel(
        LIMITED,
        lambda state: table(state.inner),
        lambda before, action, after, outcome: transition(before, action, after.inner, outcome),
        0.9,
        lambda leaf: jnp.float32(1),
        100.0,
        num_outcomes=outcomes,
    )


def states_at(times: Any) -> Any:
    start = LIMITED.init(KEY)
    return jax.vmap(lambda time: start.replace(time=time))(jnp.asarray(times, jnp.int32))


def test_an_outcome_is_evaluated_as_a_single_draw_is() -> None:
    """Also where the time limit cuts the episode off: the last state's value is part of the reward."""
    one, several = (planning_model(k).recurrent_fn(policy_prior) for k in (1, 4))
    assert not isinstance(one, SampledOutcomes)
    assert isinstance(several, SampledOutcomes)
    states, actions = states_at([0, 1, 2, 2]), jnp.array([0, 1, 0, 1], jnp.int32)
    expected = jax.jit(one)(None, KEY, actions, states)
    found = jax.jit(several)(None, KEY, actions, states)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
    out, after = found
    np.testing.assert_array_equal(out.discount, np.array([0.9, 0.9, 0, 0], np.float32))
    value = 0.1 + np.asarray(after.inner.at)
    np.testing.assert_allclose(out.reward[2:], actions[2:] + 0.9 * value[2:], rtol=1e-6)


def test_lookahead_is_the_mean_over_outcomes() -> None:
    model = planning_model(64)
    states = states_at([0])
    root, step = model.root(states, policy_prior), model.recurrent_fn(policy_prior)
    ahead = jax.jit(lambda: one_step_lookahead(None, KEY, root, step))()
    np.testing.assert_allclose(
        ahead.qvalues[0], [0.99, 1.99], atol=0.3
    )  # of 0.09, 0.99 and 1.89, and of 1 more
    stds = [np.sqrt(0.1 * at + 0.81 * 0.2 * at) for at in range(3)]
    np.testing.assert_allclose(ahead.stds[0], np.full(2, np.mean(stds)), atol=0.1)


CALLS: list[int] = []


def counted(at: np.ndarray, random: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(at.shape, random.shape)
    CALLS.append(int(np.prod(shape)))
    return np.zeros(shape, at.dtype)


@dataclasses.dataclass(frozen=True)
class CountedLottery(Lottery):
    """Calls the host in every step whose outcome is used."""

    def step(self, state: Ticket, action: Int[Array, ""], key: Key) -> tuple[Ticket, Outcome]:
        shape = jax.ShapeDtypeStruct((), state.at.dtype)
        random = jax.random.randint(key, (), 0, 2**30)
        nothing = jax.pure_callback(counted, shape, state.at, random, vmap_method="expand_dims")
        after, outcome = super().step(state, action, key)
        return after.replace(at=after.at + nothing), outcome


def calls(function: Any, *inputs: Any) -> tuple[Any, int]:
    CALLS.clear()
    out = jax.block_until_ready(jax.jit(function)(*inputs))
    jax.effects_barrier()
    return out, sum(CALLS)


def test_every_draw_is_counted_as_a_step_of_the_simulator() -> None:
    learner = agent("az-ube", 3, CountedLottery(), **{"search.simulations": 4})
    assert isinstance(learner.planner, UbeAtRoot)
    rates = simulator_rates(learner)
    assert (rates.acting, rates.evaluation) == (3 * (4 + 2), 3 * 4)
    steps = learner.steps_per_iteration
    state, found = calls(lambda state: learner.act(state)[0], init(learner, KEY, ()))
    assert found == steps * (1 + rates.acting)
    _, found = calls(lambda state: learn(learner, state, jnp.float32(0))[0], state)
    assert found == rates.reanalyse == 4 * 3 * 4


def test_the_default_depends_on_whether_the_world_is_stochastic() -> None:
    assert agent("az", None).world_model.num_outcomes == STOCHASTIC_OUTCOMES
    assert agent("az", None, Lottery(deterministic=True)).world_model.num_outcomes == 1
    assert agent("az", 5).world_model.num_outcomes == 5
    task = make_task(Lottery())
    assert fill_open(LEARNED, task).search.outcomes == 1


def test_bad_numbers_of_outcomes_are_refused() -> None:
    with pytest.raises(ValueError, match="search.outcomes is 0: give a number of at least 1"):
        agent("az", 0)
    with pytest.raises(ValueError, match="search.outcomes is 4, and a learned model predicts one"):
        agent("mz", 4)
