"""The protocol that every environment follows, and the members that an environment may add to it.

`Environment` is required: one state, no batch, pure functions; `step` never resets. The protocols after it are
optional. Code that is not about one environment finds out by `isinstance(env, GridEnvironment)`, or calls the functions
at the end of this module, which say what holds for an environment without the member.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.types import JSON, Key, Replaceable, record

State = TypeVar("State")
Tree = TypeVar("Tree")


@record
class Outcome(Replaceable):
    """The reward of a step, and whether the episode is over: by its rules (terminated) or a limit (truncated).

    A step that sets both flags is terminated.
    """

    reward: Float[Array, ""]  # the reward of the step
    terminated: Bool[Array, ""]  # whether the rules ended the episode
    truncated: Bool[Array, ""]  # whether a limit cut it off

    @property
    def over(self) -> Bool[Array, "..."]:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated

    @property
    def cut_off(self) -> Bool[Array, "..."]:
        """Whether a limit alone ended the episode: values are then bootstrapped from the state that was reached."""
        return self.truncated & ~self.terminated


@runtime_checkable
class Environment(Protocol[State]):
    """An environment for one agent. A state that is over absorbs: a step from it has reward 0 and changes nothing.

    Shapes and dtypes of states, observations and outcomes never change, so that `jit`, `vmap` and `scan` apply. Some
    action is legal in every state. An illegal one has no positive reward: it changes nothing that can be observed, or
    it ends the episode. `emcts.envs.check(env)` checks all of this.

    Some optional attributes have no protocol of their own: `deterministic`, whether `step` ignores its key (left out,
    it may use it); `steps_left(state)`, an upper bound on the steps that the episode has left; `max_steps`, the most
    steps of an episode; `reward_threshold`, a mean return that counts as solved; `num_observations`, if an observation
    is one integer below it, such as the number of a square; and `on_host`, whether the simulator runs on the host,
    outside of the compiled program (left out, it does not). JAX cannot step such an environment: it can be acted in but
    not searched, and states that were packed can be observed but not stepped.
    """

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        ...

    def init(self, key: Key) -> State:
        """An initial state."""
        ...

    def step(self, state: State, action: Int[Array, ""], key: Key) -> tuple[State, Outcome]:
        """The state after an action, and the outcome of the step. It never resets."""
        ...

    def observe(self, state: State) -> PyTree[Array]:
        """What an agent sees of a state: an array, or a dictionary of arrays, nested or not."""
        ...

    def legal(self, state: State) -> Bool[Array, "A"]:
        """Whether each action is legal in a state."""
        ...


AnyEnvironment = Environment[Any]  # an environment whose states may be anything


@runtime_checkable
class FiniteEnvironment(Environment[State], Protocol[State]):
    """An environment whose states have numbers, so that tables can hold visits, values and variances."""

    @property
    def num_states(self) -> int:
        """The number of states, without those of episodes that are over."""
        ...

    def index(self, state: State) -> Int[Array, ""]:
        """The number of a state, from 0 to `num_states - 1`; `num_states` once the episode is terminated."""
        ...

    def state_at(self, index: Int[Array, ""]) -> State:
        """The inverse of `index`."""
        ...


@runtime_checkable
class GridEnvironment(FiniteEnvironment[State], Protocol[State]):
    """A finite environment whose states are cells of a grid: values of all states make a map."""

    def grid(self, values: Float[Array, "S"]) -> Float[Array, "H W"]:
        """One value per state, by `index`, as a map; NaN where there is no state."""
        ...


@runtime_checkable
class RenderableEnvironment(Environment[State], Protocol[State]):
    """An environment that draws a state, on the host: as text, or as an RGB image [H, W, 3] of uint8."""

    def render(self, state: State) -> str | np.ndarray:
        """A picture of a state, on the host."""
        ...


@runtime_checkable
class NamedActionsEnvironment(Environment[State], Protocol[State]):
    """An environment whose actions have names, which may depend on the state."""

    def action_names(self, state: State) -> Sequence[str]:
        """The name of each action in a state, on the host."""
        ...


@runtime_checkable
class GoalEnvironment(Environment[State], Protocol[State]):
    """An environment with a goal other than a positive reward, such as one whose rewards have noise."""

    def solved(self, state: State) -> Bool[Array, ""]:
        """Whether the step to this state reached the goal."""
        ...


@runtime_checkable
class RegretEnvironment(Environment[State], Protocol[State]):
    """An environment in which an episode has regret 1 or 0, as bsuite scores Deep Sea."""

    def strayed(self, state: State) -> Bool[Array, ""]:
        """Whether an action so far left the optimal path: an episode that ends in this state then has regret 1."""
        ...


@runtime_checkable
class NoveltyEnvironment(Environment[State], Protocol[State]):
    """An environment that names what of a state can be novel, other than the whole observation and its parts."""

    @property
    def novelty_inputs(self) -> Mapping[str, Callable[[State], Array]]:
        """Functions of one state by name (`--novelty.input NAME`), each to an array. The first is the default."""
        ...


@runtime_checkable
class PackableEnvironment(Environment[State], Protocol[State]):
    """An environment whose states are rebuilt from less: a replay buffer stores the packed ones."""

    def pack(self, state: State) -> PyTree:
        """The part of a state from which `unpack` rebuilds it."""
        ...

    def unpack(self, packed: PyTree) -> State:
        """The inverse of `pack`."""
        ...


@runtime_checkable
class HostEnvironment(PackableEnvironment[State], Protocol[State]):
    """An environment whose simulator runs on the host. Each of its functions but `observe` and `legal` calls it."""

    @property
    def on_host(self) -> bool: ...

    def advance(
        self, state: State, action: Int[Array, ""], step_key: Key, reset_key: Key
    ) -> tuple[State, Outcome, State]:
        """Does what the function `advance` does, by one call of the host."""
        ...

    def limited(self, steps: int) -> "HostEnvironment[State]":
        """Returns the same environment, whose simulators are free after `steps` steps: `truncated`."""
        ...

    def close(self) -> None:
        """Closes all simulators. Episodes go on in new ones."""
        ...

    def raise_failure(self) -> None:
        """Raises what a simulator raised since the last call, if one did."""
        ...


class SimulatorError(RuntimeError):
    """A simulator on the host raised an exception, which is the cause of this one."""


@dataclasses.dataclass(frozen=True)
class ArtifactRecord:
    """An artifact as a run stores it: JSON data that identifies it, text for people, and the suffix of a text file."""

    data: Mapping[str, JSON]  # a line of artifacts.jsonl
    text: str  # the content of a file of its own
    suffix: str  # of that file, such as .asm


@runtime_checkable
class ArtifactEnvironment(Environment[State], Protocol[State]):
    """An environment in which each success leaves something for a run to store, such as a program."""

    def artifact(self, state: State) -> PyTree[Array]:
        """What to store of the state that a successful step led to; called under `jit` and `vmap`."""
        ...

    def artifact_record(self, artifact: PyTree[np.ndarray], title: str = "") -> ArtifactRecord:
        """The record of one artifact, on the host. `title` heads its text, such as the step of the success."""
        ...


def missing_members(env: object) -> list[str]:
    """The members of `Environment` that an object lacks."""
    return [name for name in ("num_actions", "init", "step", "observe", "legal") if not hasattr(env, name)]


def is_deterministic(env: AnyEnvironment) -> bool:
    """Whether `step` is known to ignore its key. An environment that does not say is not known to."""
    return bool(getattr(env, "deterministic", False))


def is_on_host(env: AnyEnvironment) -> bool:
    """Whether the simulator runs on the host, where JAX cannot step it."""
    return bool(getattr(env, "on_host", False))


def advance(
    env: Environment[State], state: State, action: Int[Array, ""], step_key: Key, reset_key: Key
) -> tuple[State, Outcome, State]:
    """Takes a step, and begins a new episode if it ends this one.

    Returns the state that the step led to, its outcome, and the state to act from next.
    """
    if isinstance(env, HostEnvironment):
        return env.advance(state, action, step_key, reset_key)
    after, outcome = env.step(state, action, step_key)
    return after, outcome, tree_where(outcome.over, env.init(reset_key), after)


@contextlib.contextmanager
def simulator_errors(env: AnyEnvironment) -> Iterator[None]:
    """Raises what a simulator on the host raised, in place of the error of the program that called it."""
    try:
        yield
    except Exception:  # it depends on where the program runs which one it is
        if isinstance(env, HostEnvironment):
            env.raise_failure()
        raise


def is_success(env: Environment[State], after: State, outcome: Outcome) -> Bool[Array, ""]:
    """Whether a step to the state `after` reached the goal: a positive reward, unless the environment has `solved`."""
    return env.solved(after) if isinstance(env, GoalEnvironment) else outcome.reward > 0


def pack_state(env: Environment[State], state: State) -> PyTree:
    """What a replay buffer stores of a state: all of it, unless the environment packs it."""
    return env.pack(state) if isinstance(env, PackableEnvironment) else state


def unpack_state(env: Environment[State], packed: PyTree) -> State:
    """The inverse of `pack_state`."""
    return env.unpack(packed) if isinstance(env, PackableEnvironment) else packed


def artifact_of(env: Environment[State], state: State) -> PyTree:
    """What a run stores of a success: nothing, as (), unless the environment has artifacts."""
    return env.artifact(state) if isinstance(env, ArtifactEnvironment) else ()


def tree_where(condition: Bool[Array, ""], if_true: Tree, if_false: Tree) -> Tree:
    """Selects one of two pytrees of the same structure, leaf by leaf: `jnp.where` for pytrees."""
    return jax.tree.map(lambda yes, no: jnp.where(condition, yes, no), if_true, if_false)
