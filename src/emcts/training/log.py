"""The training log of a seed: counters and first occurrences that a run reports at its end."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, PyTree

from emcts.counter import NEVER, Counter
from emcts.envs.base import AnyEnvironment, FiniteEnvironment, RegretEnvironment, tree_where
from emcts.types import Key, Replaceable, record

MAX_VISITS = 2**30  # of a state; later visits are not counted, so that the number does not overflow
MAX_LOSS = (
    1e10  # losses are in units of returns or logits: a larger one has exploded, as one that is not finite
)
MAX_REGRET = 2**30  # of the regret balance, which saturates there


@record
class TrainingLog(Replaceable):
    """Counters of one seed. Steps are those of all parallel episodes, NEVER if an event has not happened."""

    env_steps: Counter
    train_steps: Counter
    first_success: Counter
    solved: Counter
    not_finite: Counter  # a loss was not finite, or above MAX_LOSS
    low_regret: Counter  # the step at which the average regret of all episodes fell below 90%
    regret_balance: Int32[Array, ""]
    target_age: Int32[Array, ""]  # iterations, or updates, since the target networks were copied
    visits: Int32[Array, "states"]  # of each state of a tabular environment; else empty


def new_log(env: AnyEnvironment) -> TrainingLog:
    """Returns the log before the first step."""
    return TrainingLog(
        env_steps=Counter.of(0),
        train_steps=Counter.of(0),
        first_success=Counter.of(NEVER),
        solved=Counter.of(NEVER),
        not_finite=Counter.of(NEVER),
        low_regret=Counter.of(NEVER),
        regret_balance=jnp.int32(0),
        target_age=jnp.int32(0),
        visits=jnp.zeros(env.num_states if isinstance(env, FiniteEnvironment) else 0, jnp.int32),
    )


@record
class StepEvents(Replaceable):
    """One step of all parallel episodes: the states before it, and what is logged of it.

    `no_regret` tells of each episode whether it has none if it ends here; None if the environment defines no regret.
    """

    states: PyTree
    success: Bool[Array, "E"]
    over: Bool[Array, "E"]
    no_regret: Bool[Array, "E"] | None


def log_step(log: TrainingLog, env: AnyEnvironment, events: StepEvents, steps: Int[Array, ""]) -> TrainingLog:
    """Logs one step, after `steps` of this iteration. Episodes step one after the other as far as steps are counted."""
    step = log.env_steps.add(steps + jnp.argmax(events.success).astype(jnp.int32) + 1)
    log = log.replace(first_success=first_time(log.first_success, jnp.any(events.success), step))
    if isinstance(env, FiniteEnvironment):
        log = log.replace(visits=count_visits(log.visits, jax.vmap(env.index)(events.states)))
    if events.no_regret is None:
        return log
    balances = regret_balance(log.regret_balance, events.over, events.no_regret)
    low = events.over & (balances > 0)
    step = log.env_steps.add(steps + jnp.argmax(low).astype(jnp.int32) + 1)
    return log.replace(regret_balance=balances[-1], low_regret=first_time(log.low_regret, jnp.any(low), step))


def log_updates(
    log: TrainingLog, losses: Float[Array, "..."], num_updates: int, env_steps: int
) -> TrainingLog:
    """Logs the updates of an iteration, after `env_steps` of it."""
    not_finite = jnp.any(~(jnp.abs(losses) <= MAX_LOSS))  # NaN is not either
    return log.replace(
        train_steps=log.train_steps.add(num_updates),
        not_finite=first_time(log.not_finite, not_finite, log.env_steps.add(env_steps)),
    )


def first_time(event: Counter, happens: Bool[Array, ""], now: Counter) -> Counter:
    """Returns the step at which an event first happened: `now` if it happens and has not before."""
    return tree_where(happens & ~event.happened, now, event)


def count_visits(visits: Int32[Array, "states"], index: Int[Array, "*E"]) -> Int32[Array, "states"]:
    """Adds a visit to each state in `index`; indices that are no state's are ignored."""
    below = visits.at[index].get(mode="clip") < MAX_VISITS
    return visits.at[index].add(below.astype(jnp.int32), mode="drop")


def regret_balance(
    balance: Int[Array, ""], over: Bool[Array, "E"], zero_regret: Bool[Array, "E"]
) -> Int[Array, "E"]:
    """Adds 9 for each episode that ends without regret and subtracts 1 for each other one, episode by episode.

    bsuite's regret of an episode is 0 or 1 (`DeepSea.strayed`). So the average regret over all episodes is below 90%
    if and only if the balance is positive.
    """
    change = jnp.where(over, jnp.where(zero_regret, 9, -1), 0)
    return jnp.clip(balance + jnp.cumsum(change, dtype=jnp.int32), -MAX_REGRET, MAX_REGRET)


def zero_regret(env: AnyEnvironment, after: PyTree) -> Bool[Array, ""] | None:
    """Returns whether an episode that ends here has no regret; None if the environment does not define it."""
    return ~env.strayed(after) if isinstance(env, RegretEnvironment) else None


def states_visited(log: TrainingLog) -> Int[Array, ""] | None:
    """Returns the number of visited states of a tabular environment; None for any other."""
    return (log.visits > 0).sum() if log.visits.shape[0] else None


@runtime_checkable
class HasEvaluationKey(Protocol):
    """A training state, as far as evaluation is concerned."""

    @property
    def evaluation_key(self) -> Key: ...

    @property
    def log(self) -> TrainingLog: ...


@record
class EvaluationKeys(Replaceable):
    """Random keys for what is done with a training state besides training."""

    episodes: Key
    maps: Key


def evaluation_keys(state: HasEvaluationKey) -> EvaluationKeys:
    """Returns keys that differ from step to step, none of which training uses."""
    return EvaluationKeys(*jax.random.split(state.log.env_steps.fold_into(state.evaluation_key)))
