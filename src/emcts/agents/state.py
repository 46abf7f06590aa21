"""All that training changes, for one seed. Seeds are stacked by `vmap`, and a checkpoint is one of these."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, PyTree

from emcts.agents import replay as replays
from emcts.agents.agent import Agent
from emcts.agents.judging import regret_balance
from emcts.agents.replay import Replay, Step
from emcts.counter import NEVER, Counter
from emcts.envs.base import tree_where
from emcts.types import Key, Replaceable, record

MOST_VISITS = 2**30  # of a state; later ones are not counted, so that the number does not wrap


@record
class Episodes(Replaceable):
    """Where each lane is."""

    state: Any  # [L]
    paid: Float[Array, "L"]  # in this episode so far


@record
class Log(Replaceable):
    """What a run wants to know at its end. Steps are those of all lanes, NEVER if it has not happened."""

    env_steps: Counter
    train_steps: Counter
    first_success: Counter
    solved: Counter
    not_finite: Counter
    low_regret: Counter  # the step at which the average regret of all episodes fell below 90%
    regret_balance: Int32[Array, ""]
    target_age: Int32[Array, ""]  # how long the target networks have been the same, in iterations or updates
    visits: Int32[Array, "states"]  # of each state of a world of few; else empty


def new_log(env: Any) -> Log:
    """The log before the first step."""
    return Log(
        env_steps=Counter.of(0),
        train_steps=Counter.of(0),
        first_success=Counter.of(NEVER),
        solved=Counter.of(NEVER),
        not_finite=Counter.of(NEVER),
        low_regret=Counter.of(NEVER),
        regret_balance=jnp.int32(0),
        target_age=jnp.int32(0),
        visits=jnp.zeros(getattr(env, "num_states", 0), jnp.int32),
    )


def first_time(event: Counter, happens: Bool[Array, ""], now: Counter) -> Counter:
    """The step at which an event first happened: `now` if it does and has not before."""
    return tree_where(happens & ~event.happened, now, event)


def count_visits(visits: Int32[Array, "states"], index: Int[Array, "*L"]) -> Int32[Array, "states"]:
    """The visits of each state once those at `index` are added; other indices than those of states are not."""
    below = visits.at[index].get(mode="clip") < MOST_VISITS
    return visits.at[index].add(below.astype(jnp.int32), mode="drop")


@record
class TrainState(Replaceable):
    """A seed in the middle of its training."""

    key: Key
    evaluation_key: Key
    world: PyTree
    networks: PyTree
    target: PyTree
    optimiser: PyTree
    novelty: PyTree
    episodes: Episodes
    replay: Replay
    log: Log


@record
class EvaluationKeys(Replaceable):
    """Random keys for what is done with a state besides training it."""

    episodes: Key
    maps: Key


def evaluation_keys(state: Any) -> EvaluationKeys:
    """Keys that differ from step to step, and of which training uses none: evaluation does not change it."""
    return EvaluationKeys(*jax.random.split(state.log.env_steps.fold_into(state.evaluation_key)))


def init(agent: Agent, key: Key, world: PyTree) -> TrainState:
    """A seed that has not done anything yet."""
    network_key, novelty_key, episode_key, loop_key, evaluation_key = jax.random.split(key, 5)
    env = agent.world(world)
    lanes = len(agent.lanes)
    networks = agent.make_networks(network_key)
    state = jax.vmap(env.init)(jax.random.split(episode_key, lanes))
    example = Step(
        state=jax.vmap(agent.worlds.pack)(state),
        action=jnp.zeros(lanes, jnp.int32),
        reward=jnp.zeros(lanes),
        terminated=jnp.zeros(lanes, bool),
        truncated=jnp.zeros(lanes, bool),
        policy=jnp.zeros((lanes, env.num_actions)),
    )
    return TrainState(
        key=loop_key,
        evaluation_key=evaluation_key,
        world=world,
        networks=networks,
        target=networks,
        optimiser=agent.optimiser.init(networks),
        novelty=agent.mind.novelty.init(novelty_key),
        episodes=Episodes(state, jnp.zeros(lanes)),
        replay=replays.init(example, agent.replay_rows),
        log=new_log(env),
    )


def note_regret(
    log: Log, over: Bool[Array, "L"], good: Bool[Array, "L"] | None, steps: Int[Array, ""]
) -> Log:
    """The regret of the episodes that end with this move. Lanes move one after the other.

    `steps` of all lanes were made in this iteration before.
    """
    if good is None:
        return log
    balances = regret_balance(log.regret_balance, over, good)
    low = over & (balances > 0)
    when = log.env_steps.add(steps + jnp.argmax(low).astype(jnp.int32) + 1)
    return log.replace(regret_balance=balances[-1], low_regret=first_time(log.low_regret, jnp.any(low), when))
