"""Gymnasium environments, to act in while a model is learned.

    env = from_gymnasium(lambda: gymnasium.make("CartPole-v1"))

The simulators run in Python on the host. Each move of all episodes, of all seeds, leaves the compiled program once, and
takes each simulator's own time (docs/reference/environments.md has the numbers). The state of an episode carries its
observation, so that everything but acting stays in the program; and its seed and actions, from which a simulator can be
brought to the same state in another process.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt, UInt32

from emcts.envs.adapters.simulators import Moves, SimulatorPool, Views
from emcts.envs.adapters.spaces import interface
from emcts.envs.adapters.vector import VectorPool, check_no_automatic_resets, is_vector
from emcts.envs.base import Outcome, SimulatorError, tree_where
from emcts.types import Key, Replaceable, record

MAX_STEPS = 10_000  # of an episode, if neither the simulator nor the caller has a limit


@record
class StoredHostState(Replaceable):
    """What a replay stores of a state: enough to observe it, but not to step it."""

    observation: PyTree[Array]
    legal: Bool[Array, "A"] | None  # None: all actions are, always
    time: Int[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]

    @property
    def over(self) -> Bool[Array, "..."]:
        return self.terminated | self.truncated


@record
class HostState(StoredHostState):
    """A state of an episode, with the seed and actions from which a simulator can be brought to it.

    `checksum` is that of all observations and rewards of the episode, to tell whether a simulator really was.
    """

    seed: Int[Array, ""]
    actions: UInt[Array, "T"]
    checksum: UInt32[Array, ""]


@dataclasses.dataclass(frozen=True, eq=False)
class GymnasiumEnvironment:
    """An environment whose simulators run on the host. Episodes are cut off after `max_steps` steps.

    All randomness comes from the key of `init`; `step` does not use its key. If a simulator has some other source of
    it, such as the clock, two steps from one state differ: the second one then ends the episode, as `truncated`.
    """

    pool: SimulatorPool | VectorPool
    max_steps: int
    masked: bool = False  # whether simulators report legal actions
    deterministic: bool = False
    reward_threshold: float | None = None  # a mean return that counts as solved, if there is one

    @property
    def num_actions(self) -> int:
        return self.pool.interface.num_actions

    @property
    def on_host(self) -> bool:
        return True

    def init(self, key: Key) -> HostState:
        seed = _seed(key)
        view = jax.pure_callback(self._host_reset, self._view_types, seed, vmap_method="broadcast_all")
        return self._begin(seed, view)

    def step(self, state: HostState, action: Int[Array, ""], key: Key) -> tuple[HostState, Outcome]:
        results = (self._view_types, self._outcome_types)
        move = self._move(state, action)
        view, outcome = jax.pure_callback(self._host_step, results, *move, vmap_method="broadcast_all")
        return self._after(state, action, view, outcome)

    def advance(
        self, state: HostState, action: Int[Array, ""], step_key: Key, reset_key: Key
    ) -> tuple[HostState, Outcome, HostState]:
        seed = _seed(reset_key)
        results = (self._view_types, self._outcome_types, self._view_types)
        move = self._move(state, action, reset_seed=seed)
        view, outcome, begun = jax.pure_callback(
            self._host_advance, results, *move, vmap_method="broadcast_all"
        )
        after, outcome = self._after(state, action, view, outcome)
        return after, outcome, tree_where(outcome.over, self._begin(seed, begun), after)

    def observe(self, state: StoredHostState) -> PyTree[Array]:
        return state.observation

    def legal(self, state: StoredHostState) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool) if state.legal is None else state.legal

    def steps_left(self, state: StoredHostState) -> Float[Array, ""]:
        return (self.max_steps - state.time).astype(jnp.float32)

    def pack(self, state: StoredHostState) -> StoredHostState:
        names = [field.name for field in dataclasses.fields(StoredHostState)]
        return StoredHostState(**{name: getattr(state, name) for name in names})

    def unpack(self, packed: StoredHostState) -> PyTree:
        return packed

    def limited(self, steps: int) -> "GymnasiumEnvironment":
        if steps < 1:
            raise ValueError(f"a time limit of {steps} steps allows no step: give at least 1")
        return dataclasses.replace(self, max_steps=min(steps, self.max_steps))

    def raise_failure(self) -> None:
        self.pool.raise_failure()

    def close(self) -> None:
        """Closes all simulators. Episodes go on in new ones."""
        self.pool.close()

    @property
    def _view_types(self) -> PyTree[jax.ShapeDtypeStruct]:
        legal = jax.ShapeDtypeStruct((self.num_actions,), bool) if self.masked else None
        return self.pool.interface.encoder.types, legal, jax.ShapeDtypeStruct((), jnp.uint32)

    @property
    def _outcome_types(self) -> PyTree[jax.ShapeDtypeStruct]:
        flag = jax.ShapeDtypeStruct((), bool)
        return jax.ShapeDtypeStruct((), jnp.float32), flag, flag, flag

    def _begin(self, seed: Int[Array, ""], view: PyTree[Array]) -> HostState:
        observation, legal, checksum = view
        false = jnp.bool_(False)
        actions = jnp.zeros(self.max_steps, np.min_scalar_type(self.num_actions - 1))
        return HostState(observation, legal, jnp.int32(0), false, false, seed, actions, checksum)

    def _move(
        self, state: HostState, action: Int[Array, ""], **more: Int[Array, ""]
    ) -> tuple[UInt32[Array, "numbers"], UInt[Array, "T"]]:
        """The arrays of `Moves`. Numbers are one array: each that a callback takes costs time."""
        if not isinstance(state, HostState):
            raise TypeError(
                f"a {type(state).__name__} can be observed but not stepped: the replay does not store the episode "
                "that led to it"
            )
        last = state.time + 1 >= self.max_steps
        numbers = [state.seed, state.time, state.checksum, state.over, action, last, *more.values()]
        return jnp.stack([number.astype(jnp.uint32) for number in numbers]), state.actions

    def _after(
        self, state: HostState, action: Int[Array, ""], view: PyTree[Array], outcome: PyTree[Array]
    ) -> tuple[HostState, Outcome]:
        observation, legal, checksum = view
        reward, terminated, truncated, lost = outcome
        actions = state.actions.at[state.time].set(action.astype(state.actions.dtype), mode="drop")
        moved = HostState(
            observation, legal, state.time + 1, terminated, truncated, state.seed, actions, checksum
        )
        has_moved = ~(state.over | lost)
        after = tree_where(has_moved, moved, state.replace(truncated=state.truncated | lost))
        reward = jnp.where(has_moved, reward, jnp.zeros_like(reward))
        return after, Outcome(reward, after.terminated, after.truncated)

    def _host_reset(self, seeds: ArrayLike) -> PyTree[np.ndarray]:
        seeds = np.asarray(seeds)
        return self._view(self.pool.reset(seeds.reshape(-1)), seeds.shape)

    def _host_step(self, numbers: ArrayLike, past: ArrayLike) -> PyTree[np.ndarray]:
        return self._host_advance(numbers, past)[:2]

    def _host_advance(self, numbers: ArrayLike, past: ArrayLike) -> PyTree[np.ndarray]:
        numbers, past = np.asarray(numbers), np.asarray(past)
        batch = numbers.shape[:-1]
        rows = numbers.reshape(-1, numbers.shape[-1]).astype(np.int64)
        seed, time, checksum, over, action, last, *reset_seed = rows.T
        moves = Moves(
            seed=seed,
            time=time,
            past=past.reshape(-1, self.max_steps),
            checksum=checksum,
            over=over.astype(bool),
            action=action,
            last=last.astype(bool),
            reset_seed=reset_seed[0] if reset_seed else None,
        )
        steps = self.pool.step(moves)
        outcome = (steps.reward, steps.terminated, steps.truncated, steps.lost)
        shaped = tuple(array.reshape(batch) for array in outcome)
        return self._view(steps.after, batch), shaped, self._view(steps.begun, batch)

    def _view(self, views: Views, batch: tuple[int, ...]) -> PyTree[np.ndarray]:
        arrays = [array.reshape(*batch, *array.shape[1:]) for array in views.observation]
        legal = views.legal.reshape(*batch, self.num_actions) if self.masked else None
        return self.pool.interface.encoder.tree(arrays), legal, views.checksum.reshape(batch)


def from_gymnasium(
    make: Callable[[], Any],
    *,
    max_steps: int | None = None,
    deterministic: bool = False,
    instances: int = 1024,
) -> GymnasiumEnvironment:
    """Makes an environment of the simulators that `make()` builds. Their actions must be discrete.

    `make` may also build vector environments without automatic resets: for simulators that are slow in Python, since
    their copies then run at the same time. Episodes are cut off after `max_steps` steps, or where the simulator does
    so before; without either after 10,000. Say `deterministic` if nothing is random after the reset. At most
    `instances` simulators are kept, or twice the largest batch of episodes if that is more. One simulator is reset and
    stepped once: a `SimulatorError` says what is wrong with what it returns.
    """
    if not callable(make):
        raise ValueError(
            f"{make} is a simulator: give a function that makes one, as in from_gymnasium(lambda: gymnasium.make(...))"
        )
    for name, number in (("max_steps", max_steps), ("instances", instances)):
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}: give at least 1")
    example = make()
    pool: SimulatorPool | VectorPool
    if is_vector(example):
        check_no_automatic_resets(example)
        spaces = (example.single_action_space, example.single_observation_space)
        pool = VectorPool(make, interface(_name(example), *spaces), instances)
    else:
        spaces = (example.action_space, example.observation_space)
        pool = SimulatorPool(make, interface(_name(example), *spaces), instances)
    is_masked = _try_out(pool, example)
    spec = getattr(example, "spec", None)
    limits = (max_steps, getattr(spec, "max_episode_steps", None))
    threshold = getattr(spec, "reward_threshold", None)
    return GymnasiumEnvironment(
        pool,
        max_steps=min((limit for limit in limits if limit is not None), default=MAX_STEPS),
        masked=is_masked,
        deterministic=deterministic,
        reward_threshold=None if threshold is None else float(threshold),
    )


def _try_out(pool: Any, example: Any) -> bool:
    try:
        return bool(pool.try_out(example))
    except SimulatorError:
        pool.close()
        raise


def _seed(key: Key) -> Int[Array, ""]:
    return (jax.random.bits(key, dtype=jnp.uint32) >> 1).astype(jnp.int32)


def _name(simulator: object) -> str:
    spec = getattr(simulator, "spec", None)
    return getattr(spec, "id", None) or type(getattr(simulator, "unwrapped", simulator)).__name__
