"""What Bootstrapped DQN keeps: its members, the episode that one of them plays, and every step with its masks."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, PyTree

from emcts.agents.bdqn.networks import Layers
from emcts.agents.mcts.state import TrainingLog, count_visits, first_time
from emcts.training.replay import Replay, StoredTransition
from emcts.types import Key, Replaceable, record


@record
class BootstrapTransition(StoredTransition):
    """A step, the state after it, and what each member makes of it. No search proposes a `policy`: it is empty."""

    after: PyTree
    mask: Bool[Array, "... K"]  # whether a member learns from it
    noise: Float[Array, "... K"]  # on its reward


@record
class BdqnEpisode(Replaceable):
    """The one being played. `held` is the member that plays it, number `head`, as it was when the episode began."""

    state: Any
    episode_return: Float[Array, ""]
    head: Int[Array, ""]
    held: Layers


@record
class BdqnState(Replaceable):
    """A seed in the middle of its training."""

    key: Key
    evaluation_key: Key
    world: PyTree
    networks: Layers  # [K]
    priors: Layers  # [K]
    target: Layers  # [K]
    optimiser: PyTree
    episode: BdqnEpisode
    replay: Replay
    log: TrainingLog


@record
class BdqnLosses(Replaceable):
    """The mean over members."""

    value: Float[Array, "..."]


@record
class BdqnUpdateStats(Replaceable):
    """What a batch showed."""

    total: Float[Array, "..."]
    losses: BdqnLosses


def note_move(
    log: TrainingLog, env: Any, before: Any, success: Bool[Array, ""], move: Int32[Array, ""]
) -> TrainingLog:
    """`move` is the number of the move in this iteration, from 0 on."""
    log = log.replace(first_success=first_time(log.first_success, success, log.env_steps.add(move + 1)))
    if log.visits.shape[0] == 0:
        return log
    return log.replace(visits=count_visits(log.visits, env.index(before)))


def note_update(log: TrainingLog, loss: Float[Array, ""], moves: int) -> TrainingLog:
    """`moves` were made in this iteration."""
    return log.replace(
        train_steps=log.train_steps.add(1),
        target_age=log.target_age + 1,
        not_finite=first_time(log.not_finite, ~jnp.isfinite(loss), log.env_steps.add(moves)),
    )
