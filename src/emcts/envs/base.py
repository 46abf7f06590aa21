"""The protocol that every environment follows: one state, no batch, pure functions; `step` never resets."""

from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.types import Key, Replaceable, record

State = TypeVar("State")


@record
class Outcome(Replaceable):
    """What a step paid, and whether the episode is over: by its rules (terminated) or a limit (truncated).

    A step that sets both flags is terminated.
    """

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]

    @property
    def over(self) -> Any:
        return self.terminated | self.truncated

    @property
    def cut_off(self) -> Any:
        """Whether a limit alone ended the episode: there is a value in the state that was reached."""
        return self.truncated & ~self.terminated


@runtime_checkable
class Environment(Protocol, Generic[State]):
    """A world for one agent. A state that is over absorbs: a step from it pays 0 and changes nothing.

    Shapes and dtypes of states, observations and outcomes never change, so that `jit`, `vmap` and `scan`
    apply. Some action is legal in every state. An illegal one never pays: it changes nothing that can be
    observed, or it ends the episode. `emcts.envs.check(env)` tries all of this.

    An environment may say more of itself: `deterministic`, that `step` does not depend on its key (left out, it may);
    and `steps_left(state)`, how many steps an episode has left at the most.
    """

    @property
    def num_actions(self) -> int: ...

    def init(self, key: Key) -> State: ...

    def step(self, state: State, action: Int[Array, ""], key: Key) -> tuple[State, Outcome]: ...

    def observe(self, state: State) -> Array: ...

    def legal(self, state: State) -> Bool[Array, "A"]: ...


AnyEnvironment = Environment[Any]


def is_deterministic(env: AnyEnvironment) -> bool:
    """Whether rewards and transitions are known to be free of chance. What an environment does not say is not known."""
    return bool(getattr(env, "deterministic", False))


def choose(condition: Bool[Array, ""], if_true: PyTree, if_false: PyTree) -> PyTree:
    """One of two states of the same environment, leaf by leaf."""
    return jax.tree.map(lambda yes, no: jnp.where(condition, yes, no), if_true, if_false)
