"""Learning: sampled stories, their targets by one large search, and a few updates of the networks."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from emcts.agents import replay as replays
from emcts.agents.agent import Agent, Seen
from emcts.agents.losses import Learned, batch_loss
from emcts.agents.planners import exploiting_prior
from emcts.agents.replay import Sample
from emcts.agents.spread import alone
from emcts.agents.state import TrainState, first_time
from emcts.agents.targets import Context, Searched, Story, Targets
from emcts.envs.base import tree_where
from emcts.models.judges import row
from emcts.models.minds import Moves
from emcts.search.ube import one_step_lookahead
from emcts.types import Key, Replaceable, record


@record
class Lesson(Replaceable):
    """What an iteration learns from: U batches of B samples of the replay, of K states in a row each.

    On several devices, B is this one's part of each batch; where samples are is known to all, of whole batches.
    """

    at: Sample  # of whole batches, one after the other
    stories: Story  # [U, B, K, ...]
    targets: Targets  # [U, B, K]
    importance: Float[Array, "U B"]


def learn(agent: Agent, state: TrainState, progress: Float[Array, ""]) -> tuple[TrainState, Learned]:
    """All batches of an iteration are drawn, and their targets made, before the first update.

    So one search serves them all. `progress` goes from 0 to 1 over the whole training.
    """
    key, sample_key, target_key, update_key = jax.random.split(state.key, 4)
    lesson = prepare(agent, state, progress, sample_key, target_key)
    return study(agent, state.replace(key=key), lesson, update_key)


def prepare(
    agent: Agent, state: TrainState, progress: Float[Array, ""], sample_key: Key, target_key: Key
) -> Lesson:
    """Samples the replay, and makes targets for what it finds there."""
    env = agent.world(state.world)
    memory, updates, spread = agent.memory, agent.schedule.updates, agent.spread
    at = replays.sample(
        state.replay,
        sample_key,
        updates * memory.batch_size,
        exponent=memory.priority_exponent,
        ahead=agent.moves_ahead,
        spread=spread,
    )
    start, end = memory.correction
    size = state.replay.filled * len(agent.lanes)
    importance = replays.importance(at, size, start + (end - start) * progress)
    story = recall(agent, env, state, at)
    targets = make_targets(agent, env, state, story, target_key)
    shape = (updates, memory.batch_size // spread.count, memory.sequence)
    story, targets = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), (story, targets))
    return Lesson(at, story, targets, spread.part(importance.reshape(updates, -1), axis=1))


def study(agent: Agent, state: TrainState, lesson: Lesson, key: Key) -> tuple[TrainState, Learned]:
    """Updates the networks batch by batch, and the priorities of what was sampled."""
    env, spread = agent.world(state.world), agent.spread
    fresh_key, updates_key = jax.random.split(key)
    fresh = _fresh(agent, env, state, fresh_key) if agent.memory.fresh else None

    def update(carry: Any, batch: tuple[Story, Targets, Array, Key]) -> tuple[Any, Learned]:
        networks, optimiser, novelty = carry
        story, targets, importance, key = batch
        gradient, learned = jax.grad(batch_loss, has_aux=True)(
            networks, agent.mind, env, story, targets, importance, agent.weights, spread
        )
        changes, optimiser = agent.optimiser.update(spread.total(gradient), optimiser, networks)
        networks = optax.apply_updates(networks, changes)
        if agent.seen is Seen.TRAINING:
            stories = jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2), story)
            keys = spread.part(jax.random.split(key, stories.actions.shape[0] * spread.count))
            moves = spread.whole(_lived(env, stories, keys))
            if fresh is not None:
                moves = jax.tree.map(lambda *rows: jnp.concatenate(rows), moves, fresh)
            novelty = agent.mind.look(env, networks, novelty, moves)
        return (networks, optimiser, novelty), learned

    carry = (state.networks, state.optimiser, state.novelty)
    keys = jax.random.split(updates_key, agent.schedule.updates)
    batches = (lesson.stories, lesson.targets, lesson.importance, keys)
    (networks, optimiser, novelty), learned = jax.lax.scan(update, carry, batches)
    learned = learned.replace(total=spread.total(learned.total), losses=spread.total(learned.losses))
    new = jnp.sqrt(jnp.maximum(lesson.targets.local_variance, 0))
    errors = spread.whole((learned.value_error, learned.std_error, new), axis=1)
    learned = learned.replace(value_error=errors[0], std_error=errors[1])
    first = [error[..., 0].reshape(-1) for error in errors]
    state = state.replace(
        networks=networks,
        optimiser=optimiser,
        novelty=novelty,
        replay=replays.prioritise(state.replay, lesson.at, agent.memory.priority(*first) + 1e-3, spread),
        log=_note(agent, state.log, learned),
    )
    return state, jax.tree.map(jnp.mean, learned)


def refresh_target(agent: Agent, state: TrainState) -> TrainState:
    """Copies the networks into the target, every `schedule.target_every` iterations."""
    age = state.log.target_age + 1
    due = age >= agent.schedule.target_every
    target = jax.tree.map(lambda new, old: jnp.where(due, new, old), state.networks, state.target)
    return state.replace(target=target, log=state.log.replace(target_age=jnp.where(due, 0, age)))


def recall(agent: Agent, env: Any, state: TrainState, at: Sample) -> Story:
    """The sampled steps with what came after them; each step of a sequence is a story of its own.

    Of each batch a device gets its part, wherever the lanes are that it was sampled from.
    """
    sequence, moves, spread = agent.memory.sequence, agent.reanalyse.moves, agent.spread
    steps = replays.window(state.replay, at, sequence + moves, spread)
    steps = spread.deal(steps, groups=agent.schedule.updates)

    def each_start(leaf: Array) -> Array:
        windows = jnp.stack([leaf[:, start : start + moves + 1] for start in range(sequence)], axis=1)
        return jax.lax.collapse(windows, 0, 2)

    steps = jax.tree.map(each_start, steps)
    unpack = jax.vmap(jax.vmap(agent.worlds.unpack, in_axes=(None, 0)), in_axes=(None, 0))
    return Story(
        states=unpack(env, steps.state),
        actions=steps.action[:, :-1],
        rewards=steps.reward[:, :-1],
        terminated=steps.terminated[:, :-1],
        truncated=steps.truncated[:, :-1],
        policy=steps.policy[:, 0],
    )


def make_targets(agent: Agent, env: Any, state: TrainState, story: Story, key: Key) -> Targets:
    """Targets by the target networks, and by what is known now."""
    search_key, explore_key, value_key, ahead_key, step_key, choice_key = jax.random.split(key, 6)
    mind, reanalyse = agent.mind, agent.reanalyse
    model = mind.models(env, state.target)(state.novelty)
    plain = mind if reanalyse.needs_novelty else mind.known()
    search_model = plain.models(env, state.target)(state.novelty)
    first = story.state(0)

    def each(key: Key, fn: Callable[[Key, Any], Any]) -> Callable[[Any], Any]:
        return _each(agent, env, key, fn, story.actions.shape[0])

    def ahead(key: Key, states: Any) -> Float[Array, "M"]:
        root, step = model.root(states, exploiting_prior), model.recurrent_fn(exploiting_prior)
        stds = one_step_lookahead(None, key, root, step).stds
        return jnp.max(jnp.where(model.illegal(states), 0.0, stds), axis=-1) ** 2

    def explore(key: Key, states: Any) -> Searched:
        return reanalyse.explore(key, model, states)

    step = alone(lambda key, states, actions: model.step(states, actions, key).reward_variance)

    def local_variance(move: int) -> Float[Array, "M"]:
        keys = _keys(agent, jax.random.fold_in(step_key, move), story.actions.shape[0])
        return step(keys, story.state(move), story.actions[:, move])

    context = Context(
        story=story,
        discount=mind.discount,
        here=each(search_key, lambda key, states: reanalyse.search(key, search_model, states))(first),
        explored=lambda states: each(explore_key, explore)(states),
        value=each(value_key, lambda _, states: model.judged(states).value),
        ahead_variance=each(ahead_key, ahead),
        local_variance=functools.cache(local_variance),
    )
    return reanalyse.targets(_keys(agent, choice_key, story.actions.shape[0]), context)


def _keys(agent: Agent, key: Key, stories: int) -> Key:
    """One for each of the stories on this device, which has its part of every batch."""
    spread, updates = agent.spread, agent.schedule.updates
    keys = jax.random.split(key, stories * spread.count)
    return spread.part(keys.reshape(updates, -1), axis=1).reshape(-1) if spread.count > 1 else keys


def _each(
    agent: Agent, env: Any, key: Key, fn: Callable[[Key, Any], Any], stories: int
) -> Callable[[Any], Any]:
    """`fn` of the states of stories; where the world has few states, computed once for each and looked up."""
    every = agent.mind.every_state(env)
    if every is None:
        return lambda states: alone(fn)(_keys(agent, key, stories), states)
    table = agent.spread.work(alone(fn), jax.random.split(key, env.num_states), every)
    return jax.vmap(lambda state: row(table, env.index(state)))


def _lived(env: Any, story: Story, keys: Key) -> Moves:
    """The first moves of stories [B], with a key for each."""
    over = story.terminated[:, 0] | story.truncated[:, 0]
    every = jnp.ones_like(over)
    moves = Moves(story.state(0), story.actions[:, 0], story.rewards[:, 0], story.state(1), over, every)
    return _ended(env, moves, keys)


def _fresh(agent: Agent, env: Any, state: TrainState, key: Key) -> Moves:
    """The last moves of all lanes, those of other devices too, in one row; there may be fewer."""
    steps, there = replays.latest(state.replay, agent.memory.fresh)
    before = jax.vmap(jax.vmap(agent.worlds.unpack, in_axes=(None, 0)), in_axes=(None, 0))(env, steps.state)
    after = jax.tree.map(
        lambda now, rows: jnp.concatenate([now[None], rows[:-1]]), state.episodes.state, before
    )
    over = steps.terminated | steps.truncated
    rows = agent.spread.whole((before, steps.action, steps.reward, after, over, there), axis=1)
    flat = jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2), rows)
    return _ended(env, Moves(*flat), jax.random.split(key, flat[1].shape[0]))


def _ended(env: Any, moves: Moves, keys: Key) -> Moves:
    """What the replay has after the end of an episode is the start of another: the world says what was there."""
    ended, _ = jax.vmap(env.step)(moves.before, moves.action, keys)
    return moves.replace(after=jax.vmap(tree_where)(moves.over, ended, moves.after))


def _note(agent: Agent, log: Any, learned: Learned) -> Any:
    bad = jnp.any(~jnp.isfinite(learned.total))
    return log.replace(
        train_steps=log.train_steps.add(agent.schedule.updates),
        not_finite=first_time(log.not_finite, bad, log.env_steps.add(agent.steps_per_iteration)),
    )
