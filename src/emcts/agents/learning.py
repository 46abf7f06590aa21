"""Learning: sampled stories, their targets by one large search, and a few updates of the networks."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from emcts.agents import replay as replays
from emcts.agents.agent import Agent, Seen
from emcts.agents.losses import Learned, batch_loss
from emcts.agents.replay import Sample
from emcts.agents.state import NEVER, TrainState
from emcts.agents.targets import Context, Story, Targets
from emcts.types import Key, Replaceable, record


@record
class Lesson(Replaceable):
    """What an iteration learns from: `updates` batches [U, B], of as many samples of the replay as `at` tells."""

    at: Sample
    states: Any
    actions: Int[Array, "U B"]
    targets: Targets
    importance: Float[Array, "U B"]


def learn(agent: Agent, state: TrainState, progress: Float[Array, ""]) -> tuple[TrainState, Learned]:
    """All batches of an iteration are drawn, and their targets made, before the first update.

    So one search serves them all. `progress` goes from 0 to 1 over the whole training.
    """
    key, sample_key, target_key = jax.random.split(state.key, 3)
    lesson = prepare(agent, state, progress, sample_key, target_key)
    return study(agent, state.replace(key=key), lesson, target_key)


def prepare(
    agent: Agent, state: TrainState, progress: Float[Array, ""], sample_key: Key, target_key: Key
) -> Lesson:
    """Samples the replay, and makes targets for what it finds there."""
    env = agent.world(state.world)
    memory, updates = agent.memory, agent.schedule.updates
    at = replays.sample(
        state.replay,
        sample_key,
        updates * memory.batch_size,
        exponent=memory.priority_exponent,
        ahead=agent.moves_ahead,
    )
    start, end = memory.correction
    size = state.replay.filled * len(agent.lanes)
    importance = replays.importance(at, size, start + (end - start) * progress)
    story = recall(agent, env, state, at)
    targets = make_targets(agent, env, state, story, target_key)
    importance = jnp.repeat(importance, memory.sequence)
    batches = jax.tree.map(
        lambda leaf: leaf.reshape(updates, -1, *leaf.shape[1:]),
        (story.state(0), story.actions[:, 0], targets, importance),
    )
    return Lesson(at, *batches)


def study(agent: Agent, state: TrainState, lesson: Lesson, key: Key) -> tuple[TrainState, Learned]:
    """Updates the networks batch by batch, and the priorities of what was sampled."""
    env = agent.world(state.world)
    fresh = _fresh(agent, env, state) if agent.memory.fresh else None

    def update(carry: Any, batch: Any) -> tuple[Any, Learned]:
        networks, optimiser, novelty = carry
        states, actions, targets, importance = batch
        gradient, learned = jax.grad(batch_loss, has_aux=True)(
            networks, agent.judge, env, states, actions, targets, importance, agent.weights
        )
        changes, optimiser = agent.optimiser.update(gradient, optimiser, networks)
        networks = optax.apply_updates(networks, changes)
        shown = (states, actions, jnp.ones(actions.shape, bool))
        if fresh is not None:
            shown = jax.tree.map(lambda *rows: jnp.concatenate(rows), shown, fresh)
        return (networks, optimiser, _look(agent, env, novelty, *shown, key)), learned

    carry = (state.networks, state.optimiser, state.novelty)
    batches = (lesson.states, lesson.actions, lesson.targets, lesson.importance)
    (networks, optimiser, novelty), learned = jax.lax.scan(update, carry, batches)
    errors = (learned.value_error, learned.std_error, jnp.sqrt(jnp.maximum(lesson.targets.local_variance, 0)))
    first = [error.reshape(-1, agent.memory.sequence)[:, 0] for error in errors]
    state = state.replace(
        networks=networks,
        optimiser=optimiser,
        novelty=novelty,
        replay=replays.prioritise(state.replay, lesson.at, agent.memory.priority(*first) + 1e-3),
        log=_note(agent, state.log, learned),
    )
    return state, jax.tree.map(jnp.mean, learned)


def refresh_target(agent: Agent, state: TrainState) -> TrainState:
    """Copies the networks into the target, every `schedule.target_every` iterations."""
    due = state.log.iterations % agent.schedule.target_every == 0
    target = jax.tree.map(lambda new, old: jnp.where(due, new, old), state.networks, state.target)
    return state.replace(target=target)


def recall(agent: Agent, env: Any, state: TrainState, at: Sample) -> Story:
    """The sampled steps with what came after them; each step of a sequence is a story of its own."""
    sequence, moves = agent.memory.sequence, agent.reanalyse.moves
    steps = replays.window(state.replay, at, sequence + moves)

    def each_start(leaf: Array) -> Array:
        windows = jnp.stack([leaf[:, start : start + moves + 1] for start in range(sequence)], axis=1)
        return windows.reshape(-1, *windows.shape[2:])

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
    search_key, ahead_key, choice_key = jax.random.split(key, 3)
    judge, reanalyse, planning = agent.judge, agent.reanalyse, agent.planning
    judge_state = judge.states(env, state.target)
    judge_step = judge.steps(env, state.target)(state.novelty)
    model = planning.model(env, judge_state, judge_step)
    plain = judge if reanalyse.needs_novelty else judge.known()
    search_model = planning.model(env, judge_state, plain.steps(env, state.target)(state.novelty))
    searched = judge.each(env, lambda states: reanalyse.search(search_key, search_model, states))
    first = story.state(0)
    context = Context(
        story=story,
        discount=planning.discount,
        here=searched(first),
        searched=searched,
        value=judge.each(env, lambda states: jax.vmap(judge_state)(states).value),
        ahead_variance=judge.each(env, lambda states: model.step_stds(states, ahead_key).max(axis=-1) ** 2),
        local_variance=_local_variance(env, judge_step, first, story.actions[:, 0], ahead_key),
    )
    return reanalyse.targets(choice_key, context)


def _local_variance(env: Any, judge_step: Any, states: Any, actions: Array, key: Key) -> Float[Array, "M"]:
    def one(state: Any, action: Array) -> Float[Array, ""]:
        after, outcome = env.step(state, action, key)
        return judge_step(state, action, after, outcome).reward_variance

    return jax.vmap(one)(states, actions)


def _look(
    agent: Agent, env: Any, novelty: Any, states: Any, actions: Array, mask: Bool[Array, "B"], key: Key
) -> Any:
    if agent.seen is not Seen.TRAINING:
        return novelty

    def one(state: Any, action: Array) -> Array:
        after, _ = env.step(state, action, key)
        return agent.judge.looked_at(env, state, action, after)

    return agent.judge.novelty.update(novelty, jax.vmap(one)(states, actions), mask)


def _fresh(agent: Agent, env: Any, state: TrainState) -> tuple[Any, Array, Bool[Array, "B"]]:
    """The last moves of all lanes in one row, and which of them there are."""
    steps, there = replays.latest(state.replay, agent.memory.fresh)
    unpack = jax.vmap(jax.vmap(agent.worlds.unpack, in_axes=(None, 0)), in_axes=(None, 0))
    moves = (unpack(env, steps.state), steps.action, there)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), moves)


def _note(agent: Agent, log: Any, learned: Learned) -> Any:
    bad = ~jnp.isfinite(learned.total)
    steps = (log.iterations + 1) * agent.steps_per_iteration
    first = (log.not_finite == NEVER) & jnp.any(bad)
    return log.replace(
        train_steps=log.train_steps + agent.schedule.updates,
        not_finite=jnp.where(first, steps, log.not_finite),
    )
