"""The protocol that every environment follows: one state, no batch, pure functions; `step` never resets."""

from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.types import Key, Replaceable, record

State = TypeVar("State")


@record
class Outcome(Replaceable):
    """What a step paid, and whether the episode is over: by its rules (terminated) or a limit (truncated)."""

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]

    @property
    def over(self) -> Any:
        return self.terminated | self.truncated


@runtime_checkable
class Environment(Protocol, Generic[State]):
    """A world for one agent. A state that is over absorbs: a step from it pays 0 and changes nothing.

    Shapes and dtypes of states, observations and outcomes never change, so that `jit`, `vmap` and `scan`
    apply. Some action is legal in every state. An illegal one never pays: it changes nothing that can be
    observed, or it ends the episode. `emcts.envs.check(env)` tries all of this.
    """

    @property
    def num_actions(self) -> int: ...

    def init(self, key: Key) -> State: ...

    def step(self, state: State, action: Int[Array, ""], key: Key) -> tuple[State, Outcome]: ...

    def observe(self, state: State) -> Array: ...

    def legal(self, state: State) -> Bool[Array, "A"]: ...


AnyEnvironment = Environment[Any]


def choose(condition: Bool[Array, ""], if_true: PyTree, if_false: PyTree) -> PyTree:
    """One of two states of the same environment, leaf by leaf."""
    return jax.tree.map(lambda yes, no: jnp.where(condition, yes, no), if_true, if_false)
