"""Acting: some moves of all lanes, each planned by a search, remembered, and shown to the novelty estimator."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.mcts.agent import Agent, NoveltyUpdate
from emcts.agents.mcts.state import RunningEpisodes, TrainState, count_visits, first_time, log_regret
from emcts.envs.base import choose
from emcts.models.world_model import Transition
from emcts.training import replay as replays
from emcts.training.data_parallel import per_example
from emcts.training.replay import StoredTransition
from emcts.types import Key, Replaceable, record


@record
class RolloutStats(Replaceable):
    """What happened, for each move and lane. Returns count where an episode ended."""

    ended: Bool[Array, "... L"]
    episode_return: Float[Array, "... L"]
    success: Bool[Array, "... L"]
    value_std: Float[Array, "... L"]  # at the root of the search
    artifact: PyTree


def act(agent: Agent, state: TrainState) -> tuple[TrainState, RolloutStats]:
    """Plays `schedule.moves` moves with the networks as they are, of the lanes that are on this device."""
    env = agent.world(state.world)
    models = agent.world_model.models(env, state.networks)
    model_before = models(state.novelty)
    data_parallel, lanes = agent.data_parallel, len(agent.lanes)
    params = data_parallel.part(agent.lanes.params)

    def keys(key: Key) -> Key:
        return data_parallel.part(jax.random.split(key, lanes))

    def move(carry: TrainState, inputs: tuple[Key, Int[Array, ""]]) -> tuple[TrainState, RolloutStats]:
        plan_key, step_key, reset_key = jax.random.split(inputs[0], 3)
        model = models(carry.novelty) if agent.seen is NoveltyUpdate.ACTING else model_before
        before = carry.episodes.state
        acting = per_example(lambda key, states, params: agent.acting(key, model, states, params))
        plan = acting(keys(plan_key), before, params)
        after, outcome = jax.vmap(env.step)(before, plan.action, keys(step_key))
        episode_return = carry.episodes.episode_return + outcome.reward
        fresh = jax.vmap(env.init)(keys(reset_key))
        episodes = RunningEpisodes(
            jax.vmap(choose)(outcome.over, fresh, after), jnp.where(outcome.over, 0.0, episode_return)
        )
        success = jax.vmap(agent.env_factory.success, in_axes=(None, 0, 0))(env, after, outcome)
        good = jax.vmap(agent.env_factory.good_episode, in_axes=(None, 0))(env, after)
        over, good = data_parallel.whole((outcome.over, good))
        log = _note(env, carry.log, data_parallel.whole(before), data_parallel.whole(success), inputs[1])
        step = StoredTransition(
            state=jax.vmap(agent.env_factory.pack)(before),
            action=plan.action,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.cut_off,
            policy=plan.policy,
        )
        everyone = jnp.ones_like(outcome.over)
        moves = Transition(before, plan.action, outcome.reward, after, outcome.over, everyone)
        carry = carry.replace(
            episodes=episodes,
            replay=replays.add(carry.replay, step),
            novelty=_look(agent, env, carry, moves),
            log=log_regret(log, over, good, inputs[1]),
        )
        artifact = jax.vmap(agent.env_factory.artifact)(after)
        return carry, RolloutStats(outcome.over, episode_return, success, plan.value_std, artifact)

    key, moves_key = jax.random.split(state.key)
    moves = agent.schedule.moves
    inputs = (jax.random.split(moves_key, moves), jnp.arange(moves, dtype=jnp.int32) * lanes)
    return jax.lax.scan(move, state.replace(key=key), inputs)


def _look(agent: Agent, env: Any, state: TrainState, moves: Transition) -> PyTree:
    moves = agent.data_parallel.whole(moves)
    novelty = agent.world_model.record_rewards(env, state.novelty, moves)
    if agent.seen is not NoveltyUpdate.ACTING:
        return novelty
    return agent.world_model.look(env, state.networks, novelty, moves)


def _note(env: Any, log: Any, before: Any, success: Bool[Array, "L"], steps: Int[Array, ""]) -> Any:
    """`steps` were made in this iteration before. Lanes move one after the other, as far as steps are counted."""
    when = log.env_steps.add(steps + jnp.argmax(success).astype(jnp.int32) + 1)
    log = log.replace(first_success=first_time(log.first_success, jnp.any(success), when))
    if log.visits.shape[0] == 0:
        return log
    return log.replace(visits=count_visits(log.visits, jax.vmap(env.index)(before)))
