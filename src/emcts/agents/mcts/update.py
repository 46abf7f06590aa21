"""Learning: sampled stories, their targets by one large search, and a few updates of the networks."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from emcts.agents.mcts.agent import Agent, NoveltyUpdate
from emcts.agents.mcts.losses import UpdateStats, batch_loss
from emcts.agents.mcts.planners import exploiting_prior
from emcts.agents.mcts.state import TrainState, first_time
from emcts.agents.mcts.targets import SearchEstimate, TargetContext, Targets, Trajectory
from emcts.envs.base import choose
from emcts.models.evaluators import row
from emcts.models.world_model import Transition
from emcts.search.ube import one_step_lookahead
from emcts.training import replay as replays
from emcts.training.data_parallel import per_example
from emcts.training.replay import Sample
from emcts.types import Key, Replaceable, record


@record
class TrainingBatch(Replaceable):
    """What an iteration learns from: U batches of B samples of the replay, of K states in a row each.

    On several devices, B is this one's part of each batch; where samples are is known to all, of whole batches.
    """

    at: Sample  # of whole batches, one after the other
    trajectories: Trajectory  # [U, B, K, ...]
    targets: Targets  # [U, B, K]
    importance: Float[Array, "U B"]


def learn(agent: Agent, state: TrainState, progress: Float[Array, ""]) -> tuple[TrainState, UpdateStats]:
    """All batches of an iteration are drawn, and their targets made, before the first update.

    So one search serves them all. `progress` goes from 0 to 1 over the whole training.
    """
    key, sample_key, target_key, update_key = jax.random.split(state.key, 4)
    training_batch = make_batch(agent, state, progress, sample_key, target_key)
    return update_networks(agent, state.replace(key=key), training_batch, update_key)


def make_batch(
    agent: Agent, state: TrainState, progress: Float[Array, ""], sample_key: Key, target_key: Key
) -> TrainingBatch:
    """Samples the replay, and makes targets for what it finds there."""
    env = agent.world(state.world)
    memory, updates, data_parallel = agent.memory, agent.schedule.updates, agent.data_parallel
    at = replays.sample(
        state.replay,
        sample_key,
        updates * memory.batch_size,
        exponent=memory.priority_exponent,
        ahead=agent.moves_ahead,
        data_parallel=data_parallel,
    )
    start, end = memory.correction
    size = state.replay.filled * len(agent.lanes)
    importance = replays.importance(at, size, start + (end - start) * progress)
    trajectory = gather_trajectories(agent, env, state, at)
    targets = make_targets(agent, env, state, trajectory, target_key)
    shape = (updates, memory.batch_size // data_parallel.count, memory.sequence)
    trajectory, targets = jax.tree.map(
        lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), (trajectory, targets)
    )
    return TrainingBatch(at, trajectory, targets, data_parallel.part(importance.reshape(updates, -1), axis=1))


def update_networks(
    agent: Agent, state: TrainState, training_batch: TrainingBatch, key: Key
) -> tuple[TrainState, UpdateStats]:
    """Updates the networks batch by batch, and the priorities of what was sampled."""
    env, data_parallel = agent.world(state.world), agent.data_parallel
    fresh_key, updates_key = jax.random.split(key)
    fresh = _fresh(agent, env, state, fresh_key) if agent.memory.fresh else None

    def update(carry: Any, batch: tuple[Trajectory, Targets, Array, Key]) -> tuple[Any, UpdateStats]:
        networks, optimiser, novelty = carry
        trajectory, targets, importance, key = batch
        gradient, learned = jax.grad(batch_loss, has_aux=True)(
            networks, agent.world_model, env, trajectory, targets, importance, agent.weights, data_parallel
        )
        changes, optimiser = agent.optimiser.update(data_parallel.total(gradient), optimiser, networks)
        networks = optax.apply_updates(networks, changes)
        if agent.seen is NoveltyUpdate.TRAINING:
            trajectories = jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2), trajectory)
            keys = data_parallel.part(
                jax.random.split(key, trajectories.actions.shape[0] * data_parallel.count)
            )
            moves = data_parallel.whole(_lived(env, trajectories, keys))
            if fresh is not None:
                moves = jax.tree.map(lambda *rows: jnp.concatenate(rows), moves, fresh)
            novelty = agent.world_model.look(env, networks, novelty, moves)
        return (networks, optimiser, novelty), learned

    carry = (state.networks, state.optimiser, state.novelty)
    keys = jax.random.split(updates_key, agent.schedule.updates)
    batches = (training_batch.trajectories, training_batch.targets, training_batch.importance, keys)
    (networks, optimiser, novelty), learned = jax.lax.scan(update, carry, batches)
    learned = learned.replace(
        total=data_parallel.total(learned.total), losses=data_parallel.total(learned.losses)
    )
    new = jnp.sqrt(jnp.maximum(training_batch.targets.local_variance, 0))
    errors = data_parallel.whole((learned.value_error, learned.std_error, new), axis=1)
    learned = learned.replace(value_error=errors[0], std_error=errors[1])
    first = [error[..., 0].reshape(-1) for error in errors]
    state = state.replace(
        networks=networks,
        optimiser=optimiser,
        novelty=novelty,
        replay=replays.prioritise(
            state.replay, training_batch.at, agent.memory.priority(*first) + 1e-3, data_parallel
        ),
        log=_note(agent, state.log, learned),
    )
    return state, jax.tree.map(jnp.mean, learned)


def refresh_target(agent: Agent, state: TrainState) -> TrainState:
    """Copies the networks into the target, every `schedule.target_every` iterations."""
    age = state.log.target_age + 1
    due = age >= agent.schedule.target_every
    target = jax.tree.map(lambda new, old: jnp.where(due, new, old), state.networks, state.target)
    return state.replace(target=target, log=state.log.replace(target_age=jnp.where(due, 0, age)))


def gather_trajectories(agent: Agent, env: Any, state: TrainState, at: Sample) -> Trajectory:
    """The sampled steps with what came after them; each step of a sequence is a story of its own.

    Of each batch a device gets its part, wherever the lanes are that it was sampled from.
    """
    sequence, moves, data_parallel = agent.memory.sequence, agent.reanalyse.moves, agent.data_parallel
    steps = replays.window(state.replay, at, sequence + moves, data_parallel)
    steps = data_parallel.deal(steps, groups=agent.schedule.updates)

    def each_start(leaf: Array) -> Array:
        windows = jnp.stack([leaf[:, start : start + moves + 1] for start in range(sequence)], axis=1)
        return jax.lax.collapse(windows, 0, 2)

    steps = jax.tree.map(each_start, steps)
    unpack = jax.vmap(jax.vmap(agent.env_factory.unpack, in_axes=(None, 0)), in_axes=(None, 0))
    return Trajectory(
        states=unpack(env, steps.state),
        actions=steps.action[:, :-1],
        rewards=steps.reward[:, :-1],
        terminated=steps.terminated[:, :-1],
        truncated=steps.truncated[:, :-1],
        policy=steps.policy[:, 0],
    )


def make_targets(agent: Agent, env: Any, state: TrainState, trajectory: Trajectory, key: Key) -> Targets:
    """Targets by the target networks, and by what is known now."""
    search_key, explore_key, value_key, ahead_key, step_key, choice_key = jax.random.split(key, 6)
    world_model, reanalyse = agent.world_model, agent.reanalyse
    model = world_model.models(env, state.target)(state.novelty)
    plain = world_model if reanalyse.needs_novelty else world_model.known()
    search_model = plain.models(env, state.target)(state.novelty)
    first = trajectory.state(0)

    def each(key: Key, fn: Callable[[Key, Any], Any]) -> Callable[[Any], Any]:
        return _each(agent, env, key, fn, trajectory.actions.shape[0])

    def ahead(key: Key, states: Any) -> Float[Array, "M"]:
        root, step = model.root(states, exploiting_prior), model.recurrent_fn(exploiting_prior)
        stds = one_step_lookahead(None, key, root, step).stds
        return jnp.max(jnp.where(model.illegal(states), 0.0, stds), axis=-1) ** 2

    def explore(key: Key, states: Any) -> SearchEstimate:
        return reanalyse.explore(key, model, states)

    step = per_example(lambda key, states, actions: model.step(states, actions, key).reward_variance)

    def local_variance(move: int) -> Float[Array, "M"]:
        keys = _keys(agent, jax.random.fold_in(step_key, move), trajectory.actions.shape[0])
        return step(keys, trajectory.state(move), trajectory.actions[:, move])

    context = TargetContext(
        trajectory=trajectory,
        discount=world_model.discount,
        here=each(search_key, lambda key, states: reanalyse.search(key, search_model, states))(first),
        explored=lambda states: each(explore_key, explore)(states),
        value=each(value_key, lambda _, states: model.estimate(states).value),
        ahead_variance=each(ahead_key, ahead),
        local_variance=functools.cache(local_variance),
    )
    return reanalyse.targets(_keys(agent, choice_key, trajectory.actions.shape[0]), context)


def _keys(agent: Agent, key: Key, trajectories: int) -> Key:
    """One for each of the stories on this device, which has its part of every batch."""
    data_parallel, updates = agent.data_parallel, agent.schedule.updates
    keys = jax.random.split(key, trajectories * data_parallel.count)
    return (
        data_parallel.part(keys.reshape(updates, -1), axis=1).reshape(-1) if data_parallel.count > 1 else keys
    )


def _each(
    agent: Agent, env: Any, key: Key, fn: Callable[[Key, Any], Any], trajectories: int
) -> Callable[[Any], Any]:
    """`fn` of the states of stories; where the world has few states, computed once for each and looked up."""
    every = agent.world_model.all_states(env)
    if every is None:
        return lambda states: per_example(fn)(_keys(agent, key, trajectories), states)
    table = agent.data_parallel.work(per_example(fn), jax.random.split(key, env.num_states), every)
    return jax.vmap(lambda state: row(table, env.index(state)))


def _lived(env: Any, trajectory: Trajectory, keys: Key) -> Transition:
    """The first moves of stories [B], with a key for each."""
    over = trajectory.terminated[:, 0] | trajectory.truncated[:, 0]
    every = jnp.ones_like(over)
    moves = Transition(
        trajectory.state(0),
        trajectory.actions[:, 0],
        trajectory.rewards[:, 0],
        trajectory.state(1),
        over,
        every,
    )
    return _ended(env, moves, keys)


def _fresh(agent: Agent, env: Any, state: TrainState, key: Key) -> Transition:
    """The last moves of all lanes, those of other devices too, in one row; there may be fewer."""
    steps, there = replays.latest(state.replay, agent.memory.fresh)
    before = jax.vmap(jax.vmap(agent.env_factory.unpack, in_axes=(None, 0)), in_axes=(None, 0))(
        env, steps.state
    )
    after = jax.tree.map(
        lambda now, rows: jnp.concatenate([now[None], rows[:-1]]), state.episodes.state, before
    )
    over = steps.terminated | steps.truncated
    rows = agent.data_parallel.whole((before, steps.action, steps.reward, after, over, there), axis=1)
    flat = jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2), rows)
    return _ended(env, Transition(*flat), jax.random.split(key, flat[1].shape[0]))


def _ended(env: Any, moves: Transition, keys: Key) -> Transition:
    """What the replay has after the end of an episode is the start of another: the world says what was there."""
    ended, _ = jax.vmap(env.step)(moves.before, moves.action, keys)
    return moves.replace(after=jax.vmap(choose)(moves.over, ended, moves.after))


def _note(agent: Agent, log: Any, learned: UpdateStats) -> Any:
    bad = jnp.any(~jnp.isfinite(learned.total))
    return log.replace(
        train_steps=log.train_steps.add(agent.schedule.updates),
        not_finite=first_time(log.not_finite, bad, log.env_steps.add(agent.steps_per_iteration)),
    )
