"""Learning: trajectories sampled from the replay, their targets by one large search, and updates of the networks."""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from emcts.agents.mcts.agent import Agent, NoveltyUpdate
from emcts.agents.mcts.lookahead import lookahead
from emcts.agents.mcts.losses import LossStats, batch_loss
from emcts.agents.mcts.state import TrainState
from emcts.agents.mcts.targets import SearchEstimate, TargetContext, Targets, Trajectory
from emcts.distinct import for_wanted, saves_work
from emcts.envs.base import (
    AnyEnvironment,
    FiniteEnvironment,
    is_on_host,
    pack_state,
    tree_where,
    unpack_state,
)
from emcts.models.evaluators import Transition, look_up
from emcts.models.statistics import with_statistics
from emcts.training import replay as replays
from emcts.training.data_parallel import per_example
from emcts.training.log import log_updates
from emcts.training.replay import Sample
from emcts.types import Key, Replaceable, record

# JAX's default generator makes `fold_in(key, i)` and `split(key, n)[i]` the same key. No split is this long.
_DEEPER = 2**32 - 1
LEAST_PRIORITY = 1e-3  # in units of the return range, as all of them
ROWS_AT_ONCE = 256  # states of a tabular environment that are searched together, where fewer save work

T = TypeVar("T")


@record
class TrainingBatch(Replaceable):
    """What an iteration learns from: U batches of B samples of the replay, with K consecutive states each.

    On several devices, B is the shard of this one; samples are those of whole batches.
    """

    sample: Sample  # of all batches, one after the other
    trajectories: Trajectory  # [U, B, K, ...]
    targets: Targets  # [U, B, K]
    importance: Float[Array, "U B"]


def learn(agent: Agent, state: TrainState, progress: Float[Array, ""]) -> tuple[TrainState, LossStats]:
    """Draws all batches of an iteration and makes their targets, by one search, before the first update.

    `progress` goes from 0 to 1 over the whole training.
    """
    key, sample_key, target_key, update_key = jax.random.split(state.key, 4)
    batch = make_batch(agent, state, progress, sample_key, target_key)
    return update(agent, state.replace(key=key), batch, update_key)


def make_batch(
    agent: Agent, state: TrainState, progress: Float[Array, ""], sample_key: Key, target_key: Key
) -> TrainingBatch:
    """Samples the replay, and makes targets for the samples."""
    env = agent.env(state.env_params)
    config, updates, parallel = agent.replay, agent.schedule.updates, agent.data_parallel
    sample = replays.sample(
        state.replay,
        sample_key,
        updates * config.batch_size,
        exponent=config.priority_exponent,
        lookahead=agent.lookahead,
        data_parallel=parallel,
    )
    start, end = config.importance
    size = state.replay.filled * agent.num_envs
    importance = replays.importance(sample, size, start + (end - start) * progress)
    trajectory = gather_trajectories(agent, env, state, sample)
    targets = make_targets(agent, env, state, trajectory, target_key)
    shape = (updates, config.batch_size // parallel.num_devices, config.sequence)
    trajectories, targets = jax.tree.map(
        lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), (trajectory, targets)
    )
    return TrainingBatch(
        sample, trajectories, targets, parallel.shard(importance.reshape(updates, -1), axis=1)
    )


def update(agent: Agent, state: TrainState, batch: TrainingBatch, key: Key) -> tuple[TrainState, LossStats]:
    """Updates the networks batch by batch, and the priorities of the samples."""
    env, parallel = agent.env(state.env_params), agent.data_parallel
    recent_key, updates_key = jax.random.split(key)
    recent = _recent_transitions(agent, env, state, recent_key) if agent.replay.recent else None

    def step(
        carry: tuple[PyTree, PyTree, PyTree], inputs: tuple[Trajectory, Targets, Array, Key]
    ) -> tuple[tuple[PyTree, PyTree, PyTree], LossStats]:
        networks, optimiser, novelty = carry
        trajectories, targets, importance, key = inputs
        gradient, stats = jax.grad(batch_loss, has_aux=True)(
            networks, agent.world_model, env, trajectories, targets, importance, agent.loss_weights, parallel
        )
        changes, optimiser = agent.optimiser.update(parallel.sum(gradient), optimiser, networks)
        # Any optimiser leaves the statistics as they are, also one that changes parameters without a gradient.
        networks = with_statistics(optax.apply_updates(networks, changes), networks.statistics)
        if agent.novelty_update is NoveltyUpdate.TRAINING:
            flat = jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2), trajectories)
            keys = parallel.shard(jax.random.split(key, flat.actions.shape[0] * parallel.num_devices))
            transitions = parallel.gather(_first_transitions(agent, env, flat, keys))
            if recent is not None:
                transitions = jax.tree.map(lambda *rows: jnp.concatenate(rows), transitions, recent)
            novelty = agent.world_model.update_novelty(env, networks, novelty, transitions)
        return (networks, optimiser, novelty), stats

    carry = (state.networks, state.optimiser, state.novelty)
    keys = jax.random.split(updates_key, agent.schedule.updates)
    inputs = (batch.trajectories, batch.targets, batch.importance, keys)
    (networks, optimiser, novelty), stats = jax.lax.scan(step, carry, inputs)
    stats = stats.replace(
        total=parallel.sum(stats.total),
        losses=parallel.sum(stats.losses),
        clipped_targets=parallel.sum(stats.clipped_targets),
    )
    local_std = jnp.sqrt(jnp.maximum(batch.targets.local_variance, 0))
    errors = parallel.gather((stats.value_error, stats.std_error, local_std), axis=1)
    stats = stats.replace(value_error=errors[0], std_error=errors[1])
    unit = agent.world_model.return_range(state.networks)
    priorities = agent.replay.priority(*(error[..., 0].reshape(-1) / unit for error in errors))
    priorities = priorities + LEAST_PRIORITY
    state = state.replace(
        networks=networks,
        optimiser=optimiser,
        novelty=novelty,
        replay=replays.set_priorities(state.replay, batch.sample, priorities, parallel),
        log=log_updates(state.log, stats.total, agent.schedule.updates, agent.steps_per_iteration),
    )
    return state, jax.tree.map(jnp.mean, stats)


def refresh_target(agent: Agent, state: TrainState) -> TrainState:
    """Copies the networks to the target networks, every `schedule.target_period` iterations."""
    age = state.log.target_age + 1
    due = age >= agent.schedule.target_period
    target = tree_where(due, state.networks, state.target)
    return state.replace(target=target, log=state.log.replace(target_age=jnp.where(due, 0, age)))


def gather_trajectories(agent: Agent, env: AnyEnvironment, state: TrainState, sample: Sample) -> Trajectory:
    """Returns the sampled transitions with those after them; each state of a sequence begins a trajectory.

    Of each batch a device gets its shard, wherever the episodes are that it was sampled from.
    """
    sequence, steps = agent.replay.sequence, agent.reanalyse.num_steps
    stored = replays.window(state.replay, sample, sequence + steps, agent.data_parallel)
    stored = agent.data_parallel.scatter(stored, groups=agent.schedule.updates)

    def each_start(leaf: Array) -> Array:
        windows = jnp.stack([leaf[:, start : start + steps + 1] for start in range(sequence)], axis=1)
        return jax.lax.collapse(windows, 0, 2)

    stored = jax.tree.map(each_start, stored)
    return Trajectory(
        states=_unpack(env, stored.state),
        actions=stored.action[:, :-1],
        rewards=stored.reward[:, :-1],
        terminated=stored.terminated[:, :-1],
        truncated=stored.truncated[:, :-1],
        policy=stored.policy[:, 0],
    )


def make_targets(
    agent: Agent, env: AnyEnvironment, state: TrainState, trajectory: Trajectory, key: Key
) -> Targets:
    """Makes targets with the target networks and the present novelty."""
    search_key, explore_key, value_key, lookahead_key, step_key, choice_key = jax.random.split(key, 6)
    world_model, reanalyse = agent.world_model, agent.reanalyse
    model = world_model.planning_models(env, state.target)(state.novelty)
    plain = world_model if reanalyse.uses_novelty else world_model.without_novelty()
    search_model = plain.planning_models(env, state.target)(state.novelty)
    size = trajectory.actions.shape[0]

    def batched(key: Key, fn: Callable[[Key, PyTree], T]) -> Callable[[PyTree], T]:
        return _for_states(agent, env, key, fn, size)

    variances_ahead = lookahead(
        model,
        jax.random.fold_in(lookahead_key, jnp.uint32(_DEEPER)),
        env,
        world_model.all_states(env),
        reanalyse.lookahead_depth,
        agent.data_parallel,
    )

    def search(key: Key, states: PyTree) -> SearchEstimate:
        return reanalyse.search(key, search_model, states)

    def explore(key: Key, states: PyTree) -> SearchEstimate:
        return reanalyse.explore(key, model, states)

    reward_variance = per_example(
        lambda key, states, actions: model.step(states, actions, key).reward_variance
    )

    def local_variance(step: int) -> Float[Array, "M"]:
        keys = _keys(agent, jax.random.fold_in(step_key, step), size)
        return reward_variance(keys, trajectory.state(step), trajectory.actions[:, step])

    context = TargetContext(
        trajectory=trajectory,
        discount=world_model.discount,
        searched=batched(search_key, search)(trajectory.state(0)),
        explored=lambda states: batched(explore_key, explore)(states),
        value=batched(value_key, lambda _, states: model.estimate(states).value),
        lookahead_variances=batched(lookahead_key, variances_ahead),
        local_variance=functools.cache(local_variance),
    )
    return reanalyse.targets(_keys(agent, choice_key, size), context)


def _unpack(env: AnyEnvironment, packed: PyTree) -> PyTree:
    """Unpacks states with two leading axes."""
    return jax.vmap(jax.vmap(lambda one: unpack_state(env, one)))(packed)


def _keys(agent: Agent, key: Key, size: int) -> Key:
    """One key for each of the trajectories on this device, which has its shard of every batch."""
    parallel, updates = agent.data_parallel, agent.schedule.updates
    keys = jax.random.split(key, size * parallel.num_devices)
    if parallel.num_devices == 1:
        return keys
    return parallel.shard(keys.reshape(updates, -1), axis=1).reshape(-1)


def _for_states(
    agent: Agent, env: AnyEnvironment, key: Key, fn: Callable[[Key, PyTree], T], size: int
) -> Callable[[PyTree], T]:
    """Maps `fn` over states of trajectories; in a tabular environment it is computed once for each state.

    Where it saves work, that is once for each state of the trajectories.
    """
    states = agent.world_model.all_states(env)
    if states is None or not isinstance(env, FiniteEnvironment):
        return lambda states: per_example(fn)(_keys(agent, key, size), states)
    rows = jax.random.split(key, env.num_states), states
    of_rows, index = per_example(fn), jax.vmap(env.index)
    if agent.data_parallel.num_devices == 1 and saves_work():

        def of_wanted(wanted: PyTree) -> T:
            places = jnp.minimum(index(wanted), env.num_states - 1)
            table = for_wanted(of_rows, places, rows, ROWS_AT_ONCE)
            return jax.vmap(lambda place: look_up(table, place))(places)

        return of_wanted
    table = agent.data_parallel.map_rows(of_rows, *rows)
    return lambda wanted: jax.vmap(lambda place: look_up(table, place))(index(wanted))


def _first_transitions(agent: Agent, env: AnyEnvironment, trajectory: Trajectory, keys: Key) -> Transition:
    """The first transitions of trajectories [B], with a key for each."""
    terminated = trajectory.terminated[:, 0]
    transitions = Transition(
        before=trajectory.state(0),
        action=trajectory.actions[:, 0],
        reward=trajectory.rewards[:, 0],
        after=trajectory.state(1),
        terminated=terminated,
        truncated=trajectory.truncated[:, 0],
        valid=jnp.ones_like(terminated),
    )
    return with_final_states(agent, env, transitions, keys)


def _recent_transitions(agent: Agent, env: AnyEnvironment, state: TrainState, key: Key) -> Transition:
    """The last transitions of all episodes, also those of other devices; there may be fewer."""
    stored, valid = replays.latest(state.replay, agent.replay.recent)
    before = _unpack(env, stored.state)
    now = jax.vmap(lambda one: unpack_state(env, pack_state(env, one)))(state.episodes.state)
    after = jax.tree.map(lambda now, rows: jnp.concatenate([now[None], rows[:-1]]), now, before)
    ends = stored.terminated, stored.truncated
    rows = agent.data_parallel.gather((before, stored.action, stored.reward, after, *ends, valid), axis=1)
    flat = jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2), rows)
    return with_final_states(agent, env, Transition(*flat), jax.random.split(key, flat[1].shape[0]))


def with_final_states(agent: Agent, env: AnyEnvironment, transitions: Transition, keys: Key) -> Transition:
    """Replaces the states after an end of an episode, which the replay does not store, by a step of the environment.

    A simulator on the host cannot take that step: transitions that were cut off are then left out. Where the rules
    ended an episode, the models that learn from such a simulator do not read the state that it led to.
    """
    if not agent.world_model.reads_state_after:
        return transitions
    if is_on_host(env):
        return transitions.replace(valid=transitions.valid & ~transitions.truncated)
    final, _ = jax.vmap(env.step)(transitions.before, transitions.action, keys)
    return transitions.replace(after=jax.vmap(tree_where)(transitions.over, final, transitions.after))
