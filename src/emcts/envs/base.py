"""The protocol that every environment follows: one state, no batch, pure functions, and `step` never resets."""

from typing import Any, Generic, Protocol, TypeVar

from jaxtyping import Array, Bool, Float, Int

from emcts.types import Key, Replaceable, record

State = TypeVar("State")


@record
class Outcome(Replaceable):
    """What a step paid and whether the episode is over: by the rules (terminated) or by a limit (truncated)."""

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Environment(Protocol, Generic[State]):
    """A world for one agent. A terminal state absorbs: stepping it pays 0 and changes nothing.

    Shapes and dtypes of states, observations and outcomes never change, so that `jit`, `vmap` and `scan` apply.
    """

    @property
    def num_actions(self) -> int: ...

    def init(self, key: Key) -> State: ...

    def step(self, state: State, action: Int[Array, ""], key: Key) -> tuple[State, Outcome]: ...

    def observe(self, state: State) -> Array: ...

    def legal(self, state: State) -> Bool[Array, "A"]: ...


AnyEnvironment = Environment[Any]
