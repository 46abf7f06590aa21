"""Evaluation of an agent that plans: greedy episodes, maps of a grid, and the simulator steps of its searches."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from emcts.agents.mcts.agent import Agent
from emcts.agents.mcts.lookahead import further_steps
from emcts.agents.mcts.planners import ExplorationParams, SearchOutput
from emcts.agents.mcts.state import TrainState
from emcts.agents.mcts.tree_reuse import ReusingPlayer
from emcts.envs.base import FiniteEnvironment, GridEnvironment
from emcts.models.evaluators import all_states
from emcts.training.evaluation import EvaluationResult, Player, Policy, play_episodes
from emcts.training.learner import Maps, SimulatorRates
from emcts.training.log import evaluation_keys
from emcts.types import Key


def policy(agent: Agent, state: TrainState, *, beta: float = 0.0) -> Policy:
    """Returns how evaluation acts: with the networks as they are; a `beta` below 0 is careful."""
    model = agent.world_model.planning_models(agent.env(state.env_params), state.networks)(state.novelty)

    def choose(key: Key, states: PyTree) -> Int[Array, "B"]:
        params = ExplorationParams.constant(states, beta=beta)
        return agent.evaluation_planner(key, model, states, params).action

    return choose


def search(
    agent: Agent,
    state: TrainState,
    key: Key,
    states: PyTree,
    *,
    beta: float = 0.0,
    num_simulations: int | None = None,
) -> SearchOutput:
    """Runs the search by which evaluation acts, with as many simulations unless another number is given."""
    planner = agent.evaluation_planner
    if num_simulations is not None:
        planner = dataclasses.replace(planner, num_simulations=num_simulations)
    model = agent.world_model.planning_models(agent.env(state.env_params), state.networks)(state.novelty)
    return planner.search(key, model, states, ExplorationParams.constant(states, beta=beta))


def evaluate(
    agent: Agent, state: TrainState, key: Key, *, episodes: int, beta: float = 0.0
) -> EvaluationResult:
    """Plays `episodes` as `policy` acts; with `agent.reuse_tree`, searches go on in the tree of the last one."""
    env = agent.env(state.env_params)
    player: Policy | Player = policy(agent, state, beta=beta)
    if agent.reuse_tree:
        model = agent.world_model.planning_models(env, state.networks)(state.novelty)
        player = ReusingPlayer(agent.evaluation_planner, model, beta)
    return play_episodes(
        env,
        player,
        key,
        num_episodes=episodes,
        max_steps=agent.evaluation.max_steps,
        success=agent.evaluation.success,
    )


def uncertainty_maps(agent: Agent) -> Callable[[TrainState], Maps] | None:
    """Returns a function of one seed's state; None if the environment is no grid.

    Maps have the visits of each cell, the value and UBE heads, and the uncertainty at the root of a search.
    """
    if not isinstance(agent.env_factory.example, GridEnvironment):
        return None

    def maps(state: TrainState) -> Maps:
        env = agent.env(state.env_params)
        assert isinstance(env, GridEnvironment)
        model = agent.world_model.planning_models(env, state.networks)(state.novelty)
        states = all_states(env)
        params = ExplorationParams.constant(states, beta=max(agent.exploration.betas), exploring=True)
        plan = agent.planner(evaluation_keys(state).maps, model, states, params)
        estimate = model.estimate(states)
        values = {
            "visits": state.log.visits.astype(jnp.float32),
            "value": estimate.value,
            "UBE std": jnp.sqrt(jnp.maximum(estimate.ube, 0)),
            "search std": plan.value_std,
        }
        return {name: env.grid(by_state) for name, by_state in values.items()}

    return maps


def simulator_rates(agent: Agent) -> SimulatorRates:
    """Returns the simulator steps of planning, by the settings of an agent; none if its model takes none.

    A simulation of a search takes one for each outcome that is sampled, and one-step lookahead as many for each action.
    In a tabular environment Reanalyse searches each state once in an iteration, however often it was sampled.
    Rebuilding stored states does not count.
    """
    env, world_model, reanalyse = agent.env_factory.example, agent.world_model, agent.reanalyse
    actions: int = env.num_actions
    steps = world_model.simulator_steps
    if steps == 0:
        return SimulatorRates()
    states = agent.schedule.updates * agent.replay.batch_size * agent.replay.sequence
    is_tabular = world_model.all_states(env) is not None and isinstance(env, FiniteEnvironment)
    if isinstance(env, FiniteEnvironment) and is_tabular:
        states = env.num_states
    searching = world_model if reanalyse.uses_novelty else world_model.without_novelty()
    search = searching.simulator_steps * reanalyse.planner.model_steps(actions)
    ube = reanalyse.ube.model_steps(actions, reanalyse.exploring, tabular=is_tabular)
    ube += further_steps(actions, reanalyse.lookahead_depth, tabular=is_tabular)
    per_state = search + steps * ube
    return SimulatorRates(
        acting=steps * agent.planner.model_steps(actions),
        reanalyse=states * per_state,
        evaluation=steps * agent.evaluation_planner.model_steps(actions),
    )
