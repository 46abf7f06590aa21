"""Acting: steps of all parallel episodes, each planned by a search, stored, and used to update novelty."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from emcts.agents.mcts.agent import Agent, NoveltyUpdate
from emcts.agents.mcts.planners import ExplorationParams, SearchTree
from emcts.agents.mcts.state import RunningEpisodes, TrainState
from emcts.agents.mcts.tree_reuse import empty_tree, plan_move, tree_after
from emcts.envs.base import AnyEnvironment, advance, artifact_of, pack_state
from emcts.models.evaluators import Transition
from emcts.training import replay as replays
from emcts.training.data_parallel import per_example
from emcts.training.learner import RolloutStats
from emcts.training.log import StepEvents, log_step, zero_regret
from emcts.training.replay import StoredTransition
from emcts.types import Key


def act(agent: Agent, state: TrainState) -> tuple[TrainState, RolloutStats]:
    """Steps the parallel episodes of this device `schedule.rollout_length` times, with the networks as they are.

    Statistics are updated with every step, and used from the next rollout on. With `agent.reuse_tree` the searches of
    an episode go on in one tree for the length of the rollout; its variances are those of when its nodes were added.
    """
    env = agent.env(state.env_params)
    models = agent.world_model.planning_models(env, state.networks)
    model_before = models(state.novelty)
    parallel, num_envs = agent.data_parallel, agent.num_envs
    params = parallel.shard(ExplorationParams.of(agent.exploration))

    def keys(key: Key) -> Key:
        return parallel.shard(jax.random.split(key, num_envs))

    def step(
        before_step: tuple[TrainState, SearchTree | None], inputs: tuple[Key, Int[Array, ""]]
    ) -> tuple[tuple[TrainState, SearchTree | None], RolloutStats]:
        carry, tree = before_step
        plan_key, step_key, reset_key = jax.random.split(inputs[0], 3)
        model = models(carry.novelty) if agent.novelty_update is NoveltyUpdate.ACTING else model_before
        before = carry.episodes.state
        planner = per_example(functools.partial(plan_move, agent.planner, model))
        plan, tree = planner(keys(plan_key), before, params, tree)
        after, outcome, next_state = jax.vmap(functools.partial(advance, env))(
            before, plan.action, keys(step_key), keys(reset_key)
        )
        episode_return = carry.episodes.episode_return + outcome.reward
        discounted = agent.world_model.discount * carry.episodes.discounted + outcome.reward
        success = jax.vmap(functools.partial(agent.evaluation.success, env))(
            after, outcome, episode_return, outcome.over
        )
        no_regret = jax.vmap(lambda after: zero_regret(env, after))(after)
        stored = StoredTransition(
            state=jax.vmap(lambda state: pack_state(env, state))(before),
            action=plan.action,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.cut_off,
            policy=plan.policy,
        )
        valid = jnp.ones_like(outcome.over)
        transitions = Transition(
            before, plan.action, outcome.reward, after, outcome.terminated, outcome.cut_off, valid
        )
        gathered = parallel.gather(transitions)
        events = StepEvents(before, success, outcome.over, no_regret)
        carry = carry.replace(
            episodes=RunningEpisodes(
                next_state,
                jnp.where(outcome.over, 0.0, episode_return),
                jnp.where(outcome.over, 0.0, discounted),
            ),
            replay=replays.add(carry.replay, stored),
            networks=agent.world_model.update_statistics(
                env, carry.networks, gathered, parallel.gather(discounted)
            ),
            novelty=_update_novelty(agent, env, carry, gathered),
            log=log_step(carry.log, env, parallel.gather(events), inputs[1]),
        )
        artifact = jax.vmap(lambda state: artifact_of(env, state))(after)
        tree = tree_after(model, tree, plan.action, next_state, ~outcome.over)
        return (carry, tree), RolloutStats(outcome.over, episode_return, success, plan.value_std, artifact)

    key, steps_key = jax.random.split(state.key)
    length = agent.schedule.rollout_length
    inputs = (jax.random.split(steps_key, length), jnp.arange(length, dtype=jnp.int32) * num_envs)
    tree = None
    if agent.reuse_tree:
        tree = empty_tree(agent.planner, model_before, state.episodes.state, params)
    (state, _), stats = jax.lax.scan(step, (state.replace(key=key), tree), inputs)
    return state, stats


def _update_novelty(agent: Agent, env: AnyEnvironment, state: TrainState, transitions: Transition) -> PyTree:
    """Records rewards always, and updates the estimator if acting does that."""
    novelty = agent.world_model.record_rewards(env, state.novelty, transitions)
    if agent.novelty_update is not NoveltyUpdate.ACTING:
        return novelty
    return agent.world_model.update_novelty(env, state.networks, novelty, transitions)
