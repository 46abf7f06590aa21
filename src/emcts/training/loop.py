"""The training loop of every agent: act, learn, again. One program runs any number of iterations of a chunk."""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.training.learner import Learner, RolloutStats, StateT, UpdateStats
from emcts.types import Replaceable, record

StatesT = TypeVar("StatesT", bound=PyTree)


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


def run_iterations(
    iterate: Callable[[StatesT, Array, Array], tuple[StatesT, Metrics]],
    state: StatesT,
    metrics: Metrics,
    learning: Bool[Array, "K"],
    progress: Float[Array, "K"],
    first: Int[Array, ""] | int,
    end: Int[Array, ""] | int,
) -> tuple[StatesT, Metrics]:
    """Runs the iterations of a chunk from `first` until before `end`, and writes what they did into `metrics`.

    Metrics have a leading axis of iterations. The bounds may be traced: the results do not depend on the pieces in
    which a chunk is run.
    """

    def step(index: Int[Array, ""], before: tuple[StatesT, Metrics]) -> tuple[StatesT, Metrics]:
        state, metrics = before
        state, new = iterate(state, learning[index], progress[index])
        return state, jax.tree.map(
            lambda rows, row: jax.lax.dynamic_update_index_in_dim(rows, row, index, 0), metrics, new
        )

    return jax.lax.fori_loop(first, end, step, (state, metrics))


def empty_metrics(shapes: Metrics, iterations: int) -> Metrics:
    """Returns metrics for a chunk of iterations, from the shapes of one of them."""
    return jax.tree.map(lambda leaf: jnp.zeros((iterations, *leaf.shape), leaf.dtype), shapes)


def run_chunk(
    learner: Learner[StateT], state: StateT, learning: Bool[Array, "K"], progress: Float[Array, "K"]
) -> tuple[StateT, Metrics]:
    """Runs one iteration of one seed for each flag in `learning`."""
    iterate = jax.jit(functools.partial(iteration, learner))  # traced once, for its shapes and for itself
    _, shapes = jax.eval_shape(iterate, state, learning[0], progress[0])
    metrics = empty_metrics(shapes, len(learning))
    return run_iterations(iterate, state, metrics, learning, progress, 0, len(learning))
