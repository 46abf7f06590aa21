"""All that training changes, for one seed. Seeds are stacked by `vmap`, and a checkpoint is one of these."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents import replay as replays
from emcts.agents.agent import Agent
from emcts.agents.judging import regret_balance
from emcts.agents.replay import Replay, Step
from emcts.types import Key, Replaceable, record

NEVER = -1


@record
class Episodes(Replaceable):
    """Where each lane is."""

    state: Any  # [L]
    paid: Float[Array, "L"]  # in this episode so far


@record
class Log(Replaceable):
    """What a run wants to know at its end. Steps are those of all lanes, NEVER if it has not happened."""

    iterations: Int[Array, ""]
    train_steps: Int[Array, ""]
    first_success: Int[Array, ""]
    solved: Int[Array, ""]
    not_finite: Int[Array, ""]
    low_regret: Int[Array, ""]  # the step at which the average regret of all episodes fell below 90%
    regret_balance: Int[Array, ""]
    visits: Int[Array, "states"]  # of each state of a world of few; else empty


@record
class TrainState(Replaceable):
    """A seed in the middle of its training."""

    key: Key
    world: PyTree
    networks: PyTree
    target: PyTree
    optimiser: PyTree
    novelty: PyTree
    episodes: Episodes
    replay: Replay
    log: Log


def init(agent: Agent, key: Key, world: PyTree) -> TrainState:
    """A seed that has not done anything yet."""
    network_key, novelty_key, episode_key, loop_key = jax.random.split(key, 4)
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
        world=world,
        networks=networks,
        target=networks,
        optimiser=agent.optimiser.init(networks),
        novelty=agent.mind.novelty.init(novelty_key),
        episodes=Episodes(state, jnp.zeros(lanes)),
        replay=replays.init(example, agent.replay_rows),
        log=Log(
            iterations=jnp.int32(0),
            train_steps=jnp.int32(0),
            first_success=jnp.int32(NEVER),
            solved=jnp.int32(NEVER),
            not_finite=jnp.int32(NEVER),
            low_regret=jnp.int32(NEVER),
            regret_balance=jnp.int32(0),
            visits=jnp.zeros(getattr(env, "num_states", 0), jnp.int32),
        ),
    )


def note_regret(
    log: Log, over: Bool[Array, "L"], good: Bool[Array, "L"] | None, steps: Int[Array, ""]
) -> Log:
    """The regret of the episodes that end with this move. Lanes move one after the other, after `steps` steps."""
    if good is None:
        return log
    balances = regret_balance(log.regret_balance, over, good)
    low = over & (balances > 0)
    when = steps + jnp.argmax(low).astype(jnp.int32) + 1
    first = (log.low_regret == NEVER) & jnp.any(low)
    return log.replace(regret_balance=balances[-1], low_regret=jnp.where(first, when, log.low_regret))
