"""The training loop of every agent: act, learn, again. One program for a whole chunk, for one seed."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from emcts.agents.acting import Played, act
from emcts.agents.agent import Agent
from emcts.agents.learning import learn, refresh_target
from emcts.agents.losses import Learned, Losses
from emcts.agents.state import TrainState
from emcts.types import Replaceable, record


@record
class Metrics(Replaceable):
    """What an iteration did."""

    played: Played
    learned: Learned


def iteration(
    agent: Agent, state: TrainState, learning: Bool[Array, ""], progress: Float[Array, ""]
) -> tuple[TrainState, Metrics]:
    """Acts, then learns unless it is still warming up."""
    state, played = act(agent, state)
    state, learned = jax.lax.cond(
        learning, lambda state: learn(agent, state, progress), lambda state: (state, _nothing()), state
    )
    state = state.replace(log=state.log.replace(iterations=state.log.iterations + 1))
    return refresh_target(agent, state), Metrics(played, learned)


def run_chunk(
    agent: Agent, state: TrainState, learning: Bool[Array, "K"], progress: Float[Array, "K"]
) -> tuple[TrainState, Metrics]:
    """As many iterations as there are flags; metrics have a leading axis of that many."""

    def step(state: TrainState, inputs: Any) -> tuple[TrainState, Metrics]:
        return iteration(agent, state, *inputs)

    return jax.lax.scan(step, state, (learning, progress))


def _nothing() -> Learned:
    nan = jnp.float32(jnp.nan)
    return Learned(nan, Losses(nan, nan, nan, nan, nan), nan, nan)
