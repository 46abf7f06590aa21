"""Episodes that are neither noisy nor exploring, played to their end."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.mcts.agent import Agent
from emcts.agents.mcts.planners import no_exploration
from emcts.agents.mcts.state import TrainState
from emcts.training.evaluation import EvaluationResult
from emcts.types import Key, Replaceable, record


@record
class _Game(Replaceable):
    state: Any
    over: Bool[Array, "E"]
    episode_return: Float[Array, "E"]
    length: Int[Array, "E"]
    solved: Bool[Array, "E"]
    time: Int[Array, ""]


def evaluate(
    agent: Agent, state: TrainState, key: Key, *, episodes: int, beta: float = 0.0
) -> EvaluationResult:
    """Plays `episodes` with the networks as they are; a `beta` below 0 is careful."""
    env = agent.world(state.world)
    evaluation = agent.evaluation
    model = agent.world_model.models(env, state.networks)(state.novelty)
    init_key, play_key = jax.random.split(key)

    def continuation(game: _Game) -> Bool[Array, ""]:
        return ~jnp.all(game.over) & (game.time < evaluation.max_steps)

    def move(game: _Game) -> _Game:
        # Not carried: under `vmap` over seeds, the key of a seed whose episodes are over would be used again.
        plan_key, step_key = jax.random.split(jax.random.fold_in(play_key, game.time))
        plan = evaluation.planner(plan_key, model, game.state, no_exploration(game.state, beta))
        after, outcome = jax.vmap(env.step)(game.state, plan.action, jax.random.split(step_key, episodes))
        success = jax.vmap(agent.env_factory.success, in_axes=(None, 0, 0))(env, after, outcome)
        return _Game(
            state=after,
            over=game.over | outcome.over,
            episode_return=game.episode_return + jnp.where(game.over, 0.0, outcome.reward),
            length=game.length + ~game.over,
            solved=game.solved | (success & ~game.over),
            time=game.time + 1,
        )

    start = _Game(
        state=jax.vmap(env.init)(jax.random.split(init_key, episodes)),
        over=jnp.zeros(episodes, bool),
        episode_return=jnp.zeros(episodes),
        length=jnp.zeros(episodes, jnp.int32),
        solved=jnp.zeros(episodes, bool),
        time=jnp.int32(0),
    )
    end = jax.lax.while_loop(continuation, move, start)
    return EvaluationResult(end.episode_return, end.length, end.solved)
