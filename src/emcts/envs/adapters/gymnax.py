"""Environments of gymnax 1.0 and later, with discrete actions and one array to observe.

    env = from_gymnax(*gymnax.make("CartPole-v1"))

gymnax 1.0.1 imports `six` without requiring it: install that too.
"""

import dataclasses
from typing import Generic, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import Outcome, State, tree_where
from emcts.types import Key, Replaceable, record

Tree = TypeVar("Tree")


@runtime_checkable
class ActionSpace(Protocol):
    """gymnax's space of `n` actions."""

    @property
    def n(self) -> int: ...


@runtime_checkable
class Gymnax(Protocol[State]):
    """The members of gymnax's environments that are used here."""

    @property
    def name(self) -> str: ...

    def action_space(self, params: PyTree) -> ActionSpace: ...

    def reset_env(self, key: Key, params: PyTree) -> tuple[Array, State]: ...

    def step_env(
        self, key: Key, state: State, action: Array, params: PyTree
    ) -> tuple[Array, State, ArrayLike, ArrayLike, PyTree]: ...

    def is_truncated(self, state: State, params: PyTree) -> ArrayLike: ...


@record
class GymnaxState(Replaceable, Generic[State]):
    """gymnax's own state, and what its `step` returned beside it."""

    inner: State
    observation: Array
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@dataclasses.dataclass(frozen=True, eq=False)
class GymnaxEnvironment(Generic[State]):
    """gymnax's transitions without its automatic reset. Its time limit is the one in `params`."""

    env: Gymnax[State]
    params: PyTree

    @property
    def num_actions(self) -> int:
        return int(self.env.action_space(self.params).n)

    def init(self, key: Key) -> GymnaxState[State]:
        with jax.numpy_rank_promotion("allow"):
            observation, inner = self.env.reset_env(key, self.params)
        inner = jax.tree.map(jnp.asarray, inner)
        return GymnaxState(inner, jnp.asarray(observation), jnp.bool_(False), jnp.bool_(False))

    def step(
        self, state: GymnaxState[State], action: Int[Array, ""], key: Key
    ) -> tuple[GymnaxState[State], Outcome]:
        with jax.numpy_rank_promotion("allow"):
            result = self.env.step_env(key, state.inner, action, self.params)
            observation, inner, reward, terminated, _ = result
            truncated = self.env.is_truncated(inner, self.params)
        terminated = jnp.asarray(terminated, bool)
        truncated = jnp.asarray(truncated, bool) & ~terminated
        stepped = _with_dtypes_of(state, GymnaxState(inner, observation, terminated, truncated))
        over = state.terminated | state.truncated
        state = tree_where(over, state, stepped)
        reward = jnp.where(over, jnp.float32(0), jnp.asarray(reward, jnp.float32))
        return state, Outcome(reward, state.terminated, state.truncated)

    def observe(self, state: GymnaxState[State]) -> Array:
        return state.observation

    def legal(self, state: GymnaxState[State]) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)


class TimedGymnaxEnvironment(GymnaxEnvironment[State]):
    """One of gymnax's environments that count their steps, up to a limit: all but some bandits."""

    @property
    def max_steps(self) -> int:
        return int(self.params.max_steps_in_episode)

    def steps_left(self, state: GymnaxState[PyTree]) -> Float[Array, ""]:
        return jnp.float32(self.max_steps) - state.inner.time


def from_gymnax(env: object, params: PyTree) -> GymnaxEnvironment[PyTree]:
    """Makes an environment from what `gymnax.make(name)` returns."""
    if not isinstance(env, Gymnax):
        raise ValueError(
            "this gymnax environment does not tell a time limit from a terminal state (is_truncated is missing): "
            "gymnax 1.0 or later is needed"
        )
    if not isinstance(env.action_space(params), ActionSpace):
        raise ValueError(f"{env.name} has continuous actions: only discrete ones can be searched")
    _, start = jax.eval_shape(env.reset_env, jax.random.key(0), params)
    timed = hasattr(params, "max_steps_in_episode") and hasattr(start, "time")
    return (TimedGymnaxEnvironment if timed else GymnaxEnvironment)(env, params)


def _with_dtypes_of(before: Tree, after: Tree) -> Tree:
    """`after` in the dtypes of `before`: some environments start with Python numbers and go on with arrays."""
    return jax.tree.map(lambda was, now: jnp.asarray(now, was.dtype), before, after)
