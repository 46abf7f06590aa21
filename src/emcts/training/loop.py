"""The training loop of every agent: act, learn, again. A chunk of iterations is one program, for one seed."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from emcts.training.learner import Learner, RolloutStats, StateT, UpdateStats
from emcts.types import Replaceable, record


@record
class Metrics(Replaceable):
    """What an iteration did."""

    rollout: RolloutStats
    update: UpdateStats


def iteration(
    learner: Learner[StateT], state: StateT, learning: Bool[Array, ""], progress: Float[Array, ""]
) -> tuple[StateT, Metrics]:
    """Acts, then learns unless `learning` is False: the statistics of the update are then NaN."""
    state, rollout = learner.act(state)
    learn = jax.jit(learner.learn)  # traced once, for its shapes and for itself
    _, shapes = jax.eval_shape(learn, state, progress)
    nothing = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)
    state, update = jax.lax.cond(
        learning, lambda state: learn(state, progress), lambda state: (state, nothing), state
    )
    state = state.replace(
        log=state.log.replace(env_steps=state.log.env_steps.add(learner.steps_per_iteration))
    )
    return learner.refresh_target(state), Metrics(rollout, update)


def run_chunk(
    learner: Learner[StateT], state: StateT, learning: Bool[Array, "K"], progress: Float[Array, "K"]
) -> tuple[StateT, Metrics]:
    """Runs one iteration for each flag in `learning`; metrics have a leading axis of iterations."""

    def step(state: StateT, inputs: tuple[Array, Array]) -> tuple[StateT, Metrics]:
        return iteration(learner, state, *inputs)

    return jax.lax.scan(step, state, (learning, progress))
