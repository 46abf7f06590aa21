"""Wrappers that count in the state they carry, so that they work under `jit`, `vmap` and `scan` alike."""

import dataclasses
from typing import Generic, overload

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.envs.base import (
    Environment,
    HostEnvironment,
    Outcome,
    State,
    advance,
    is_deterministic,
    is_on_host,
    tree_where,
)
from emcts.types import Key, Replaceable, record


@record
class AutoResetState(Replaceable, Generic[State]):
    """The wrapped state; `final`, the state that the last step led to, before any reset; and the episodes that ended.

    After a truncation, `final` is the state to bootstrap from.
    """

    inner: State
    final: State
    episodes: Int[Array, ""]


@record
class TimeLimitState(Replaceable, Generic[State]):
    """The wrapped state, the steps of this episode so far, and how it ended, if it did."""

    inner: State
    time: Int[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class AutoReset(Generic[State]):
    """Resets within `step`, as no other environment does: the outcome reports an end, the state is a new episode's."""

    env: Environment[State]

    @property
    def num_actions(self) -> int:
        return self.env.num_actions

    @property
    def on_host(self) -> bool:
        return is_on_host(self.env)

    def init(self, key: Key) -> AutoResetState[State]:
        inner = self.env.init(key)
        return AutoResetState(inner, inner, jnp.int32(0))

    def step(
        self, state: AutoResetState[State], action: Int[Array, ""], key: Key
    ) -> tuple[AutoResetState[State], Outcome]:
        step_key, reset_key = jax.random.split(key)
        final, outcome, inner = advance(self.env, state.inner, action, step_key, reset_key)
        return AutoResetState(inner, final, state.episodes + outcome.over), outcome

    def observe(self, state: AutoResetState[State]) -> Array:
        return self.env.observe(state.inner)

    def legal(self, state: AutoResetState[State]) -> Bool[Array, "A"]:
        return self.env.legal(state.inner)


@dataclasses.dataclass(frozen=True)
class TimeLimit(Generic[State]):
    """Truncates an episode after `steps` steps, unless its rules ended it there or before."""

    env: Environment[State]
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a time limit of {self.steps} steps allows no step: give at least 1")
        if is_on_host(self.env):
            raise ValueError("a simulator on the host has its own time limit: call `time_limit(env, steps)`")

    @property
    def num_actions(self) -> int:
        return self.env.num_actions

    @property
    def deterministic(self) -> bool:
        return is_deterministic(self.env)

    def steps_left(self, state: TimeLimitState[State]) -> Float[Array, ""]:
        return (self.steps - state.time).astype(jnp.float32)

    def init(self, key: Key) -> TimeLimitState[State]:
        return TimeLimitState(self.env.init(key), jnp.int32(0), jnp.bool_(False), jnp.bool_(False))

    def step(
        self, state: TimeLimitState[State], action: Int[Array, ""], key: Key
    ) -> tuple[TimeLimitState[State], Outcome]:
        inner, outcome = self.env.step(state.inner, action, key)
        time = state.time + 1
        truncated = (outcome.truncated | (time >= self.steps)) & ~outcome.terminated
        stepped = TimeLimitState(inner, time, outcome.terminated, truncated)
        # After a truncation the wrapped state could still be stepped: only the flags kept here make it absorb.
        over = state.terminated | state.truncated
        state = tree_where(over, state, stepped)
        reward = jnp.where(over, jnp.zeros_like(outcome.reward), outcome.reward)
        return state, Outcome(reward, state.terminated, state.truncated)

    def observe(self, state: TimeLimitState[State]) -> Array:
        return self.env.observe(state.inner)

    def legal(self, state: TimeLimitState[State]) -> Bool[Array, "A"]:
        return self.env.legal(state.inner)


def auto_reset(env: Environment[State]) -> AutoReset[State]:
    """The same environment, whose `step` begins a new episode as soon as one is over."""
    return AutoReset(env)


@overload
def time_limit(  # type: ignore[overload-overlap]
    env: HostEnvironment[State], steps: int
) -> HostEnvironment[State]: ...


@overload
def time_limit(env: Environment[State], steps: int) -> TimeLimit[State]: ...


def time_limit(env: Environment[State], steps: int) -> TimeLimit[State] | HostEnvironment[State]:
    """The same environment, whose episodes end after `steps` steps: `truncated`, not `terminated`."""
    return env.limited(steps) if isinstance(env, HostEnvironment) else TimeLimit(env, steps)
