"""The training loop of every agent: act, learn, again. One program for a whole chunk, for one seed."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from emcts.agents.mcts.acting import RolloutStats
from emcts.training.learner import Learner
from emcts.types import Replaceable, record


@record
class Metrics(Replaceable):
    """What an iteration did."""

    played: RolloutStats
    learned: Any


def iteration(
    learner: Learner, state: Any, learning: Bool[Array, ""], progress: Float[Array, ""]
) -> tuple[Any, Metrics]:
    """Acts, then learns unless it is still warming up: what was learned is NaN then."""
    state, played = learner.act(state)
    learn = jax.jit(learner.learn)  # traced once, for its shapes and for itself
    _, shapes = jax.eval_shape(learn, state, progress)
    nothing = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)
    state, learned = jax.lax.cond(
        learning, lambda state: learn(state, progress), lambda state: (state, nothing), state
    )
    state = state.replace(
        log=state.log.replace(env_steps=state.log.env_steps.add(learner.steps_per_iteration))
    )
    return learner.refresh_target(state), Metrics(played, learned)


def run_chunk(
    learner: Learner, state: Any, learning: Bool[Array, "K"], progress: Float[Array, "K"]
) -> tuple[Any, Metrics]:
    """As many iterations as there are flags; metrics have a leading axis of that many."""

    def step(state: Any, inputs: Any) -> tuple[Any, Metrics]:
        return iteration(learner, state, *inputs)

    return jax.lax.scan(step, state, (learning, progress))
