"""Wrappers that count in the state they carry, so that they work under `jit`, `vmap` and `scan` alike."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.envs.base import AnyEnvironment, Outcome, choose, is_deterministic
from emcts.types import Key, Replaceable, record


@record
class AutoResetState(Replaceable):
    """`final` is where the last step led, before any reset: at a truncation, the state to bootstrap from."""

    inner: Any
    final: Any
    episodes: Int[Array, ""]  # that have ended


@record
class TimeLimitState(Replaceable):
    """The state inside, the steps of this episode so far, and how it ended, if it did."""

    inner: Any
    time: Int[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class AutoReset:
    """The one exception to "step never resets": an end is reported when the next episode has begun."""

    env: AnyEnvironment

    @property
    def num_actions(self) -> int:
        return self.env.num_actions

    def init(self, key: Key) -> AutoResetState:
        inner = self.env.init(key)
        return AutoResetState(inner, inner, jnp.int32(0))

    def step(self, state: AutoResetState, action: Int[Array, ""], key: Key) -> tuple[AutoResetState, Outcome]:
        step_key, reset_key = jax.random.split(key)
        final, outcome = self.env.step(state.inner, action, step_key)
        inner = choose(outcome.over, self.env.init(reset_key), final)
        return AutoResetState(inner, final, state.episodes + outcome.over), outcome

    def observe(self, state: AutoResetState) -> Array:
        return self.env.observe(state.inner)

    def legal(self, state: AutoResetState) -> Bool[Array, "A"]:
        return self.env.legal(state.inner)


@dataclasses.dataclass(frozen=True)
class TimeLimit:
    """Truncates an episode after `steps` steps, unless its rules ended it there or before."""

    env: AnyEnvironment
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a time limit of {self.steps} steps leaves none to take: give at least 1")

    @property
    def num_actions(self) -> int:
        return self.env.num_actions

    @property
    def deterministic(self) -> bool:
        return is_deterministic(self.env)

    def steps_left(self, state: TimeLimitState) -> Float[Array, ""]:
        return (self.steps - state.time).astype(jnp.float32)

    def init(self, key: Key) -> TimeLimitState:
        return TimeLimitState(self.env.init(key), jnp.int32(0), jnp.bool_(False), jnp.bool_(False))

    def step(self, state: TimeLimitState, action: Int[Array, ""], key: Key) -> tuple[TimeLimitState, Outcome]:
        inner, outcome = self.env.step(state.inner, action, key)
        time = state.time + 1
        truncated = (outcome.truncated | (time >= self.steps)) & ~outcome.terminated
        moved = TimeLimitState(inner, time, outcome.terminated, truncated)
        # A world that was cut short is still alive inside: only the flags kept here hold it still.
        over = state.terminated | state.truncated
        state = choose(over, state, moved)
        reward = jnp.where(over, jnp.zeros_like(outcome.reward), outcome.reward)
        return state, Outcome(reward, state.terminated, state.truncated)

    def observe(self, state: TimeLimitState) -> Array:
        return self.env.observe(state.inner)

    def legal(self, state: TimeLimitState) -> Bool[Array, "A"]:
        return self.env.legal(state.inner)


def auto_reset(env: AnyEnvironment) -> AutoReset:
    """The same environment, whose `step` begins a new episode as soon as one is over."""
    return AutoReset(env)


def time_limit(env: AnyEnvironment, steps: int) -> TimeLimit:
    """The same environment, cut short after `steps` steps: `truncated`, not `terminated`."""
    return TimeLimit(env, steps)
