"""Simulator steps: the formula against a count of the calls, and the numbers of the presets."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from emcts.agents.mcts.acting import act
from emcts.agents.mcts.agent import Agent
from emcts.agents.mcts.evaluation import evaluate, simulator_rates
from emcts.agents.mcts.planners import Gumbel, Planner, Puct, UbeAtRoot
from emcts.agents.mcts.state import TrainState, init
from emcts.agents.mcts.targets import (
    EDGE,
    LOOKAHEAD,
    NStepUbe,
    Reanalyse,
    SearchedEdgeUbe,
    UbeRule,
    searched_or_td,
)
from emcts.agents.mcts.update import learn
from emcts.envs import Outcome
from emcts.models.networks import indexed_networks
from emcts.runs.config import override
from emcts.training import replay as replays
from emcts.training.env_factory import SharedEnv
from emcts.training.learner import SimulatorRates
from emcts.training.replay import StoredTransition
from emcts.types import Key
from tests.agents.chain import (
    KEY,
    LENGTH,
    TABULAR_HEADS,
    Chain,
    ChainState,
    network_agent,
    tabular_agent,
)
from tests.agents.tiny import CATALOGUE, trainer

CALLS: list[int] = []


def counted(position: np.ndarray, action: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(position.shape, action.shape)
    CALLS.append(int(np.prod(shape)))
    return np.zeros(shape, position.dtype)


@dataclasses.dataclass(frozen=True)
class CountedChain(Chain):
    """Calls the host in every step whose outcome is used."""

    def step(self, state: ChainState, action: Int[Array, ""], key: Key) -> tuple[ChainState, Outcome]:
        shape = jax.ShapeDtypeStruct(state.position.shape, state.position.dtype)
        nothing = jax.pure_callback(counted, shape, state.position, action, vmap_method="expand_dims")
        after, outcome = super().step(state, action, key)
        return after.replace(position=after.position + nothing), outcome


def counting(agent: Agent, planner: Planner | None = None) -> Agent:
    agent = dataclasses.replace(agent, env_factory=SharedEnv(CountedChain()))
    return agent if planner is None else dataclasses.replace(agent, planner=planner)


def calls(function: Any, *inputs: Any) -> tuple[Any, int]:
    CALLS.clear()
    out = jax.block_until_ready(jax.jit(function)(*inputs))
    jax.effects_barrier()
    return out, sum(CALLS)


def reanalyse(ube: UbeRule, *, uses_novelty: bool = True) -> Reanalyse:
    return Reanalyse(Gumbel(3), searched_or_td, ube, exploring=Puct(5), uses_novelty=uses_novelty)


AGENTS = {
    "searched variances": network_agent(reanalyse(SearchedEdgeUbe())),
    "one-step lookahead": network_agent(reanalyse(NStepUbe(1, LOOKAHEAD))),
    "another search for variances": network_agent(reanalyse(NStepUbe(0, EDGE))),
    "tabular": tabular_agent(reanalyse(NStepUbe(0, LOOKAHEAD), uses_novelty=False)),
    "a target without a head": dataclasses.replace(
        tabular_agent(reanalyse(NStepUbe(0, LOOKAHEAD))),
        make_networks=lambda key: indexed_networks(
            LENGTH, dataclasses.replace(TABULAR_HEADS, ube=False), widths=(), key=key
        ),
    ),
}


def with_transitions(agent: Agent) -> TrainState:
    """A state whose replay has as many transitions as updates need: searches take as many steps whatever they are."""
    state = init(agent, KEY, ())
    zeros = jnp.zeros(2)
    never = jnp.zeros(2, bool)
    policy = jnp.zeros((2, 2))
    step = StoredTransition(state.episodes.state, zeros.astype(jnp.int32), zeros, never, never, policy)
    replay = state.replay
    for _ in range(agent.schedule.rollout_length):
        replay = replays.add(replay, step)
    return state.replace(replay=replay)


@pytest.mark.parametrize("name", AGENTS)
def test_every_call_of_reanalyse_is_counted(name: str) -> None:
    agent = counting(AGENTS[name])
    state = with_transitions(agent)
    _, found = calls(lambda state: learn(agent, state, jnp.float32(0))[0], state)
    assert found == simulator_rates(agent).reanalyse > 0


@pytest.mark.parametrize(
    ("name", "planner"), [("searched variances", UbeAtRoot(Gumbel(2))), ("tabular", Puct(3))]
)
def test_every_call_of_acting_and_evaluation_is_counted(name: str, planner: Planner) -> None:
    agent = counting(AGENTS[name], planner)
    rates = simulator_rates(agent)
    state, found = calls(lambda state: act(agent, state)[0], init(agent, KEY, ()))
    steps = agent.steps_per_iteration
    assert found == steps + steps * rates.acting, "steps of acting, and steps of planning"
    result, found = calls(lambda state: evaluate(agent, state, KEY, episodes=1), state)
    assert found == int(result.length.sum()) * (1 + rates.evaluation)


def test_states_of_a_tabular_environment_are_searched_once_each() -> None:
    agent = tabular_agent(reanalyse(NStepUbe(0, EDGE)))
    assert simulator_rates(agent).reanalyse == LENGTH * (3 + 5)


def of_preset(
    environment: str, agent: str, preset: str | None = None, size: int | None = None
) -> tuple[Any, SimulatorRates]:
    changes = {} if size is None else {"env.size": size}
    settings = override(CATALOGUE.settings(environment, agent, preset), changes)
    learner = CATALOGUE.compose(environment, agent, settings)
    return learner, learner.simulator_rates


def test_a_step_of_subleq_runs_160_programs_in_searches() -> None:
    for agent in ("e-az", "az"):
        learner, rates = of_preset("subleq", agent)
        assert rates.acting == 32
        assert rates.reanalyse == 128 * learner.steps_per_iteration
    assert of_preset("subleq", "az-ube")[1].acting == 32 + 16, "and a lookahead for each of 16 words"


def test_a_step_of_deep_sea() -> None:
    """820 states, each searched by 50 simulations in an iteration of 10 steps, and a lookahead of 40 steps of each."""
    learner, rates = of_preset("deep-sea", "e-az", size=40)
    assert learner.steps_per_iteration == 10
    assert (rates.acting, rates.reanalyse, rates.evaluation) == (50, 820 * (50 + 40 * 2), 50)


def test_learned_models_use_no_simulator_unless_they_track_true_states() -> None:
    assert of_preset("deep-sea", "e-mz", "anchored")[1] == SimulatorRates()
    assert of_preset("deep-sea", "mz")[1] == SimulatorRates()
    # Counts of true states: searches of acting and the lookahead step the simulator, those of the other targets do not.
    assert of_preset("deep-sea", "e-mz", size=40)[1] == SimulatorRates(50, 820 * 2, 50)
    assert of_preset("deep-sea", "bdqn")[1] == SimulatorRates()


def test_long_runs_are_counted_without_overflow() -> None:
    one = trainer("subleq", "e-az", (0,))
    rates = one.learner.simulator_rates
    assert one._reporter.simulator_steps(2**40, 2**36) == {
        "acting": 2**40 * rates.acting,
        "reanalyse": 2**36 // one.learner.schedule.updates * rates.reanalyse,
    }
