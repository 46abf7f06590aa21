"""What Bootstrapped DQN keeps: its members, the episode that one of them plays, and every step with its masks."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.bdqn_network import Layers
from emcts.agents.replay import Replay, Step
from emcts.agents.state import NEVER, Log
from emcts.envs import AnyEnvironment
from emcts.types import Key, Replaceable, record


@record
class Transition(Step):
    """A step, the state after it, and what each member makes of it. No search proposes a `policy`: it is empty."""

    after: PyTree
    mask: Bool[Array, "... K"]  # whether a member learns from it
    noise: Float[Array, "... K"]  # on its reward


@record
class Episode(Replaceable):
    """The one being played. `held` is the member that plays it, number `head`, as it was when the episode began."""

    state: Any
    paid: Float[Array, ""]
    head: Int[Array, ""]
    held: Layers


@record
class BdqnState(Replaceable):
    """A seed in the middle of its training."""

    key: Key
    world: PyTree
    networks: Layers  # [K]
    priors: Layers  # [K]
    target: Layers  # [K]
    optimiser: PyTree
    episode: Episode
    replay: Replay
    log: Log


@record
class BdqnLosses(Replaceable):
    """The mean over members."""

    value: Float[Array, "..."]


@record
class BdqnLearned(Replaceable):
    """What a batch showed."""

    total: Float[Array, "..."]
    losses: BdqnLosses


def empty_log(env: AnyEnvironment) -> Log:
    return Log(
        iterations=jnp.int32(0),
        train_steps=jnp.int32(0),
        first_success=jnp.int32(NEVER),
        solved=jnp.int32(NEVER),
        not_finite=jnp.int32(NEVER),
        low_regret=jnp.int32(NEVER),
        regret_balance=jnp.int32(0),
        visits=jnp.zeros(getattr(env, "num_states", 0), jnp.int32),
    )


def note_move(log: Log, env: Any, before: Any, success: Bool[Array, ""], step: Int[Array, ""]) -> Log:
    """`step` is the number of the move among all that were made, from 0 on."""
    first = (log.first_success == NEVER) & success
    log = log.replace(first_success=jnp.where(first, step + 1, log.first_success))
    if log.visits.shape[0] == 0:
        return log
    return log.replace(visits=log.visits.at[env.index(before)].add(1, mode="drop"))


def note_update(log: Log, loss: Float[Array, ""], step: Int[Array, ""]) -> Log:
    """`step` is how many moves were made."""
    first = (log.not_finite == NEVER) & ~jnp.isfinite(loss)
    return log.replace(train_steps=log.train_steps + 1, not_finite=jnp.where(first, step, log.not_finite))
