"""Acting: some moves of all lanes, each planned by a search, remembered, and shown to the novelty estimator."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents import replay as replays
from emcts.agents.agent import Agent, Seen
from emcts.agents.replay import Step
from emcts.agents.spread import alone
from emcts.agents.state import Episodes, TrainState, count_visits, first_time, note_regret
from emcts.envs.base import tree_where
from emcts.models.minds import Moves
from emcts.types import Key, Replaceable, record


@record
class Played(Replaceable):
    """What happened, for each move and lane. Returns count where an episode ended."""

    ended: Bool[Array, "... L"]
    episode_return: Float[Array, "... L"]
    success: Bool[Array, "... L"]
    value_std: Float[Array, "... L"]  # at the root of the search
    keepsake: PyTree


def act(agent: Agent, state: TrainState) -> tuple[TrainState, Played]:
    """Plays `schedule.moves` moves with the networks as they are, of the lanes that are on this device."""
    env = agent.world(state.world)
    models = agent.mind.models(env, state.networks)
    model_before = models(state.novelty)
    spread, lanes = agent.spread, len(agent.lanes)
    brief = spread.part(agent.lanes.brief)

    def keys(key: Key) -> Key:
        return spread.part(jax.random.split(key, lanes))

    def move(carry: TrainState, inputs: tuple[Key, Int[Array, ""]]) -> tuple[TrainState, Played]:
        plan_key, step_key, reset_key = jax.random.split(inputs[0], 3)
        model = models(carry.novelty) if agent.seen is Seen.ACTING else model_before
        before = carry.episodes.state
        acting = alone(lambda key, states, brief: agent.acting(key, model, states, brief))
        plan = acting(keys(plan_key), before, brief)
        after, outcome = jax.vmap(env.step)(before, plan.action, keys(step_key))
        paid = carry.episodes.paid + outcome.reward
        fresh = jax.vmap(env.init)(keys(reset_key))
        episodes = Episodes(jax.vmap(tree_where)(outcome.over, fresh, after), jnp.where(outcome.over, 0.0, paid))
        success = jax.vmap(agent.worlds.success, in_axes=(None, 0, 0))(env, after, outcome)
        good = jax.vmap(agent.worlds.good_episode, in_axes=(None, 0))(env, after)
        over, good = spread.whole((outcome.over, good))
        log = _note(env, carry.log, spread.whole(before), spread.whole(success), inputs[1])
        step = Step(
            state=jax.vmap(agent.worlds.pack)(before),
            action=plan.action,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.cut_off,
            policy=plan.policy,
        )
        everyone = jnp.ones_like(outcome.over)
        moves = Moves(before, plan.action, outcome.reward, after, outcome.over, everyone)
        carry = carry.replace(
            episodes=episodes,
            replay=replays.add(carry.replay, step),
            novelty=_look(agent, env, carry, moves),
            log=note_regret(log, over, good, inputs[1]),
        )
        keepsake = jax.vmap(agent.worlds.keepsake)(after)
        return carry, Played(outcome.over, paid, success, plan.value_std, keepsake)

    key, moves_key = jax.random.split(state.key)
    moves = agent.schedule.moves
    inputs = (jax.random.split(moves_key, moves), jnp.arange(moves, dtype=jnp.int32) * lanes)
    return jax.lax.scan(move, state.replace(key=key), inputs)


def _look(agent: Agent, env: Any, state: TrainState, moves: Moves) -> PyTree:
    moves = agent.spread.whole(moves)
    novelty = agent.mind.record_rewards(env, state.novelty, moves)
    if agent.seen is not Seen.ACTING:
        return novelty
    return agent.mind.look(env, state.networks, novelty, moves)


def _note(env: Any, log: Any, before: Any, success: Bool[Array, "L"], steps: Int[Array, ""]) -> Any:
    """`steps` were made in this iteration before. Lanes move one after the other, as far as steps are counted."""
    when = log.env_steps.add(steps + jnp.argmax(success).astype(jnp.int32) + 1)
    log = log.replace(first_success=first_time(log.first_success, jnp.any(success), when))
    if log.visits.shape[0] == 0:
        return log
    return log.replace(visits=count_visits(log.visits, jax.vmap(env.index)(before)))
