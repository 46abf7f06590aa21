"""Gymnasium environments, for acting with a learned model.

    env = from_gymnasium(lambda: gymnasium.make("CartPole-v1"))

The simulator runs in Python on the host: `step` and `observe` each leave the compiled program once per
batch, and then take the simulator's own time for each element (docs/environments.md has the numbers). That is
fast enough for acting while a model is learned. For searching it is too slow: search the model.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol, SupportsInt, TypeGuard, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int

from emcts.envs.adapters.simulators import Simulator, SimulatorPool, Space
from emcts.envs.base import Outcome
from emcts.types import Key, Replaceable, record

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32"}  # JAX has no 64 bits by default


@runtime_checkable
class Discrete(Space, Protocol):
    """A space of `n` numbers."""

    @property
    def n(self) -> SupportsInt: ...


@record
class GymnasiumState(Replaceable):
    """A handle: the seed of the episode, and the number of one of its states on the host."""

    seed: Int[Array, ""]
    number: Int[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@dataclasses.dataclass(frozen=True, eq=False)
class GymnasiumEnvironment:
    """Pure to its callers, as long as the simulator is determined by the seed of its `reset`.

    All randomness comes from the key of `init`, so that episodes can be replayed; `step` does not use its key.
    """

    num_actions: int
    first_action: int
    observed: jax.ShapeDtypeStruct
    simulators: SimulatorPool

    def init(self, key: Key) -> GymnasiumState:
        seed = (jax.random.bits(key, dtype=jnp.uint32) >> 1).astype(jnp.int32)
        return GymnasiumState(seed, jnp.int32(0), jnp.bool_(False), jnp.bool_(False))

    def step(self, state: GymnasiumState, action: Int[Array, ""], key: Key) -> tuple[GymnasiumState, Outcome]:
        flag, number = jax.ShapeDtypeStruct((), bool), jax.ShapeDtypeStruct((), jnp.int32)
        results = (number, jax.ShapeDtypeStruct((), jnp.float32), flag, flag)
        over = state.terminated | state.truncated
        after, reward, terminated, truncated = jax.pure_callback(
            self._host_step, results, state.seed, state.number, action, over, vmap_method="broadcast_all"
        )
        terminated, truncated = terminated | state.terminated, truncated | state.truncated
        return GymnasiumState(state.seed, after, terminated, truncated), Outcome(
            reward, terminated, truncated
        )

    def observe(self, state: GymnasiumState) -> Array:
        return jax.pure_callback(
            self._host_observe, self.observed, state.seed, state.number, vmap_method="broadcast_all"
        )

    def legal(self, state: GymnasiumState) -> Bool[Array, "A"]:
        return jnp.ones(self.num_actions, bool)

    def close(self) -> None:
        self.simulators.close()

    def _host_step(
        self, seeds: ArrayLike, numbers: ArrayLike, actions: ArrayLike, overs: ArrayLike
    ) -> tuple[np.ndarray, ...]:
        seeds, numbers, actions, overs = map(np.asarray, (seeds, numbers, actions, overs))
        after, rewards = numbers.astype(np.int32), np.zeros(seeds.shape, np.float32)
        terminated, truncated = np.zeros(seeds.shape, bool), np.zeros(seeds.shape, bool)
        for i in np.ndindex(seeds.shape):
            if not overs[i]:
                action = int(actions[i]) + self.first_action
                after[i], node = self.simulators.step(int(seeds[i]), int(numbers[i]), action)
                rewards[i], terminated[i] = node.reward, node.terminated
                truncated[i] = node.truncated and not node.terminated
        return after, rewards, terminated, truncated

    def _host_observe(self, *batch: ArrayLike) -> np.ndarray:
        seeds, numbers = map(np.asarray, batch)
        observations = np.empty((*seeds.shape, *self.observed.shape), self.observed.dtype)
        for i in np.ndindex(seeds.shape):
            observations[i] = self.simulators.node(int(seeds[i]), int(numbers[i])).observation
        return observations


def from_gymnasium(
    make: Callable[[], Simulator], *, instances: int = 256, memory: int = 1_000_000
) -> GymnasiumEnvironment:
    """Makes an environment from simulators that `make()` builds: discrete actions, one array to observe.

    Keep at least as many `instances` as run in parallel, or episodes are replayed from their start at every
    step. `memory` bounds the states that can be stepped or observed: the oldest episodes are forgotten whole.
    """
    if instances < 1 or memory < 1:
        raise ValueError(f"instances ({instances}) and memory ({memory}) must be at least 1")
    example = make()
    actions, observed = example.action_space, example.observation_space
    example.close()
    if not _is_discrete(actions):
        raise ValueError(f"{actions} is not a Discrete action space: only discrete actions can be searched")
    encode, spec = _encoder(observed)
    simulators = SimulatorPool(make, encode, instances, memory)
    return GymnasiumEnvironment(int(actions.n), int(getattr(actions, "start", 0)), spec, simulators)


def _is_discrete(space: Space) -> TypeGuard[Discrete]:
    return hasattr(space, "n") and space.shape == ()


def _encoder(space: Space) -> tuple[Callable[[object], np.ndarray], jax.ShapeDtypeStruct]:
    """A function that makes an array of an observation, one-hot for a Discrete space, and the array's type."""
    if _is_discrete(space):
        one_hot = functools.partial(_one_hot, int(space.n), int(getattr(space, "start", 0)))
        return one_hot, jax.ShapeDtypeStruct((int(space.n),), jnp.float32)
    if space.shape is None or space.dtype is None:
        raise ValueError(f"{space} is not one array: wrap the environment in FlattenObservation")
    dtype = np.dtype(space.dtype)
    dtype = np.dtype(NARROWER.get(dtype.name, dtype))
    return functools.partial(np.array, dtype=dtype), jax.ShapeDtypeStruct(space.shape, dtype)


def _one_hot(size: int, start: int, value: SupportsInt) -> np.ndarray:
    return (np.arange(size) == int(value) - start).astype(np.float32)
