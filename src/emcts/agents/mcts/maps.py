"""What an agent thinks of every cell of a grid: visits, the UBE head, and the uncertainty at the root of a search."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.agents.mcts.agent import Agent
from emcts.agents.mcts.planners import ExplorationParams
from emcts.agents.mcts.state import TrainState, evaluation_keys
from emcts.envs import DeepSea

Maps = Mapping[str, Float[Array, "N N"]]


def uncertainty_maps(agent: Agent) -> Callable[[TrainState], Maps] | None:
    """A function of one seed's state, or None if the world is no grid."""
    if not isinstance(agent.env_factory.example, DeepSea):
        return None

    def maps(state: TrainState) -> Maps:
        env = agent.world(state.world)
        model = agent.world_model.models(env, state.networks)(state.novelty)
        states = jax.vmap(env.state_at)(jnp.arange(env.num_states))
        beta = max(agent.lanes.betas)
        params = ExplorationParams(jnp.full(env.num_states, beta), jnp.ones(env.num_states, bool))
        plan = agent.acting(evaluation_keys(state).maps, model, states, params)
        estimate = model.estimate(states)
        cells = {
            "visits": state.log.visits.astype(jnp.float32),
            "value": estimate.value,
            "UBE std": jnp.sqrt(jnp.maximum(estimate.ube, 0)),
            "search std": plan.value_std,
        }
        return {name: _grid(env, states, values) for name, values in cells.items()}

    return maps


def _grid(env: DeepSea, states: Any, values: Float[Array, "states"]) -> Float[Array, "N N"]:
    """NaN where no path leads."""
    return jnp.full((env.size, env.size), jnp.nan).at[states.row, states.column].set(values)
