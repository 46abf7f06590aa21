"""The training state of an agent that plans, for one seed: what a checkpoint holds, with seeds stacked by `vmap`."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from emcts.agents.mcts.agent import Agent
from emcts.envs.base import pack_state
from emcts.training import replay as replays
from emcts.training.log import TrainingLog, new_log
from emcts.training.replay import Replay, StoredTransition
from emcts.types import Key, Replaceable, record


@record
class RunningEpisodes(Replaceable):
    """The current state of each parallel episode, and its return so far.

    `discounted` is the sum of its rewards with the last one in full and those before it discounted.
    """

    state: PyTree  # [E]
    episode_return: Float[Array, "E"]
    discounted: Float[Array, "E"]


@record
class TrainState(Replaceable):
    """Everything that training changes."""

    key: Key
    evaluation_key: Key
    env_params: PyTree
    networks: PyTree
    target: PyTree
    optimiser: PyTree
    novelty: PyTree
    episodes: RunningEpisodes
    replay: Replay
    log: TrainingLog


def init(agent: Agent, key: Key, env_params: PyTree) -> TrainState:
    """Returns the state before the first step."""
    network_key, novelty_key, episode_key, loop_key, evaluation_key = jax.random.split(key, 5)
    env, num_envs = agent.env(env_params), agent.num_envs
    networks = agent.make_networks(network_key)
    state = jax.vmap(env.init)(jax.random.split(episode_key, num_envs))
    example = StoredTransition(
        state=jax.vmap(lambda one: pack_state(env, one))(state),
        action=jnp.zeros(num_envs, jnp.int32),
        reward=jnp.zeros(num_envs),
        terminated=jnp.zeros(num_envs, bool),
        truncated=jnp.zeros(num_envs, bool),
        policy=jnp.zeros((num_envs, env.num_actions)),
    )
    return TrainState(
        key=loop_key,
        evaluation_key=evaluation_key,
        env_params=env_params,
        networks=networks,
        target=networks,
        optimiser=agent.optimiser.init(networks),
        novelty=agent.world_model.novelty.init(novelty_key),
        episodes=RunningEpisodes(state, jnp.zeros(num_envs), jnp.zeros(num_envs)),
        replay=replays.init(example, agent.replay_rows),
        log=new_log(env),
    )
