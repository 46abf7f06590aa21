"""Environments of gymnax 1.0 and later, with discrete actions and one array to observe.

    env = from_gymnax(*gymnax.make("CartPole-v1"))

gymnax 1.0.1 imports `six` without asking for it: install that too.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from emcts.envs.base import Outcome, choose
from emcts.types import Key, Replaceable, record


@record
class GymnaxState(Replaceable):
    """gymnax's own state, and what its `step` returned beside it."""

    inner: Any
    observation: Array
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@dataclasses.dataclass(frozen=True, eq=False)
class GymnaxEnvironment:
    """gymnax's transitions without its automatic reset. Its time limit is the one in `params`."""

    env: Any
    params: Any

    def __post_init__(self) -> None:
        if not hasattr(self.env, "is_truncated"):
            raise ValueError(
                "this gymnax environment cannot tell the time limit from an end (is_truncated is missing): "
                "gymnax 1.0 or later is needed"
            )
        if not hasattr(self.env.action_space(self.params), "n"):
            raise ValueError(f"{self.env.name} has continuous actions: only discrete ones can be searched")

    @property
    def num_actions(self) -> int:
        return int(self.env.action_space(self.params).n)

    def init(self, key: Key) -> GymnaxState:
        with jax.numpy_rank_promotion("allow"):
            observation, inner = self.env.reset_env(key, self.params)
        inner = jax.tree.map(jnp.asarray, inner)
        return GymnaxState(inner, jnp.asarray(observation), jnp.bool_(False), jnp.bool_(False))

    def step(self, state: GymnaxState, action: Int[Array, ""], key: Key) -> tuple[GymnaxState, Outcome]:
        with jax.numpy_rank_promotion("allow"):
            result = self.env.step_env(key, state.inner, action, self.params)
            observation, inner, reward, terminated, _ = result
            truncated = self.env.is_truncated(inner, self.params)
        terminated = jnp.asarray(terminated, bool)
        truncated = jnp.asarray(truncated, bool) & ~terminated
        moved = _like(state, GymnaxState(inner, observation, terminated, truncated))
        over = state.terminated | state.truncated
        state = choose(over, state, moved)
        reward = jnp.where(over, jnp.float32(0), jnp.asarray(reward, jnp.float32))
        return state, Outcome(reward, state.terminated, state.truncated)

    def observe(self, state: GymnaxState) -> Array:
        return state.observation

    def legal(self, state: GymnaxState) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)


def from_gymnax(env: Any, params: Any) -> GymnaxEnvironment:
    """An environment made of what `gymnax.make(name)` returns."""
    return GymnaxEnvironment(env, params)


def _like(old: PyTree, new: PyTree) -> PyTree:
    """Some environments start from Python numbers and go on with arrays: the first dtypes are kept."""
    return jax.tree.map(lambda was, now: jnp.asarray(now, was.dtype), old, new)
