"""Wrappers that count in the state they carry, so that they work under `jit`, `vmap` and `scan` alike."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import (
    ArtifactEnvironment,
    ArtifactRecord,
    Environment,
    FiniteEnvironment,
    GoalEnvironment,
    GridEnvironment,
    HostEnvironment,
    NamedActionsEnvironment,
    NoveltyEnvironment,
    Outcome,
    PackableEnvironment,
    RegretEnvironment,
    RenderableEnvironment,
    State,
    advance,
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

    def observe(self, state: AutoResetState[State]) -> PyTree[Array]:
        return self.env.observe(state.inner)

    def legal(self, state: AutoResetState[State]) -> Bool[Array, "A"]:
        return self.env.legal(state.inner)


@dataclasses.dataclass(frozen=True)
class TimeLimit(Generic[State]):
    """Truncates an episode after `steps` steps, unless its rules ended it there or before.

    The optional members of the wrapped environment come with `time_limit`, which adds those that there are.
    """

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
    def deterministic(self) -> bool | None:
        """What the wrapped environment says; None if it does not."""
        return getattr(self.env, "deterministic", None)

    @property
    def max_steps(self) -> int:
        inner: int | None = getattr(self.env, "max_steps", None)
        return self.steps if inner is None else min(self.steps, inner)

    @property
    def num_observations(self) -> int | None:
        return getattr(self.env, "num_observations", None)

    @property
    def reward_threshold(self) -> float | None:
        return getattr(self.env, "reward_threshold", None)

    def steps_left(self, state: TimeLimitState[State]) -> Float[Array, ""]:
        left = (self.steps - state.time).astype(jnp.float32)
        inner: Callable[[State], Array] | None = getattr(self.env, "steps_left", None)
        return left if inner is None else jnp.minimum(left, jnp.float32(inner(state.inner)))

    def init(self, key: Key) -> TimeLimitState[State]:
        return at_start(self.env.init(key))

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

    def observe(self, state: TimeLimitState[State]) -> PyTree[Array]:
        return self.env.observe(state.inner)

    def legal(self, state: TimeLimitState[State]) -> Bool[Array, "A"]:
        return self.env.legal(state.inner)


class _Finite(TimeLimit[State]):
    """The numbers of the wrapped states: the time is no part of them.

    Values do not depend on it either, as they are bootstrapped from the state in which an episode is cut off. That one
    has the number of its wrapped state, and `state_at` has all the time left.
    """

    env: FiniteEnvironment[State]

    @property
    def num_states(self) -> int:
        return self.env.num_states

    def index(self, state: TimeLimitState[State]) -> Int[Array, ""]:
        return self.env.index(state.inner)

    def state_at(self, index: Int[Array, ""]) -> TimeLimitState[State]:
        return at_start(self.env.state_at(index))


class _Grid(TimeLimit[State]):
    env: GridEnvironment[State]

    def grid(self, values: Float[Array, "S"]) -> Float[Array, "H W"]:
        return self.env.grid(values)


class _Renderable(TimeLimit[State]):
    env: RenderableEnvironment[State]

    def render(self, state: TimeLimitState[State]) -> str | np.ndarray:
        return self.env.render(state.inner)


class _NamedActions(TimeLimit[State]):
    env: NamedActionsEnvironment[State]

    def action_names(self, state: TimeLimitState[State]) -> Sequence[str]:
        return self.env.action_names(state.inner)


class _Goal(TimeLimit[State]):
    env: GoalEnvironment[State]

    def solved(self, state: TimeLimitState[State]) -> Bool[Array, ""]:
        return self.env.solved(state.inner)


class _Regret(TimeLimit[State]):
    env: RegretEnvironment[State]

    def strayed(self, state: TimeLimitState[State]) -> Bool[Array, ""]:
        return self.env.strayed(state.inner)


class _Novelty(TimeLimit[State]):
    env: NoveltyEnvironment[State]

    @property
    def novelty_inputs(self) -> Mapping[str, Callable[[TimeLimitState[State]], Array]]:
        return {name: _of_inner(input_of) for name, input_of in self.env.novelty_inputs.items()}


class _Packable(TimeLimit[State]):
    env: PackableEnvironment[State]

    def pack(self, state: TimeLimitState[State]) -> TimeLimitState[PyTree]:
        return TimeLimitState(self.env.pack(state.inner), state.time, state.terminated, state.truncated)

    def unpack(self, packed: TimeLimitState[PyTree]) -> TimeLimitState[State]:
        inner = self.env.unpack(packed.inner)
        return TimeLimitState(inner, packed.time, packed.terminated, packed.truncated)


class _Artifacts(TimeLimit[State]):
    env: ArtifactEnvironment[State]

    def artifact(self, state: TimeLimitState[State]) -> PyTree[Array]:
        return self.env.artifact(state.inner)

    def artifact_record(self, artifact: PyTree[np.ndarray], title: str = "") -> ArtifactRecord:
        return self.env.artifact_record(artifact, title)


OPTIONAL: Mapping[type, type[TimeLimit[Any]]] = {
    FiniteEnvironment: _Finite,
    GridEnvironment: _Grid,
    RenderableEnvironment: _Renderable,
    NamedActionsEnvironment: _NamedActions,
    GoalEnvironment: _Goal,
    RegretEnvironment: _Regret,
    NoveltyEnvironment: _Novelty,
    PackableEnvironment: _Packable,
    ArtifactEnvironment: _Artifacts,
}


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
    """The same environment, whose episodes end after `steps` steps: `truncated`, not `terminated`.

    It has the optional members of the wrapped one.
    """
    if isinstance(env, HostEnvironment):
        return env.limited(steps)
    members = tuple(limited for protocol, limited in OPTIONAL.items() if isinstance(env, protocol))
    return _with_members(members)(env, steps)


@functools.cache
def _with_members(members: tuple[type[TimeLimit[Any]], ...]) -> type[TimeLimit[Any]]:
    """A class for each set of members: whether it has one is then seen without an object of it."""
    return type("TimeLimit", members, {}) if members else TimeLimit


def at_start(inner: State) -> TimeLimitState[State]:
    """A state of the wrapped environment with all the time left."""
    return TimeLimitState(inner, jnp.int32(0), jnp.bool_(False), jnp.bool_(False))


def _of_inner(input_of: Callable[[State], Array]) -> Callable[[TimeLimitState[State]], Array]:
    return lambda state: input_of(state.inner)
