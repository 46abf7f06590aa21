"""Gymnasium environments, for acting with a learned model.

    env = from_gymnasium(lambda: gymnasium.make("CartPole-v1"))

The simulator runs in Python on the host: `step` and `observe` each leave the compiled program once per
batch, and then take the simulator's own time for each element (docs/environments.md has the numbers). That is
right for acting in the world that a model is learned from. For searching it is too slow: search the model.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from emcts.envs.adapters.episodes import Episodes
from emcts.envs.base import Outcome
from emcts.types import Key, Replaceable, record

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32"}  # JAX has no 64 bits by default


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

    All randomness comes from the key of `init`, so that states can be replayed; `step` does not use its key.
    """

    num_actions: int
    first_action: int
    observed: jax.ShapeDtypeStruct
    episodes: Episodes

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
        self.episodes.close()

    def _host_step(self, seeds: Any, numbers: Any, actions: Any, overs: Any) -> tuple[np.ndarray, ...]:
        seeds, numbers, actions, overs = map(np.asarray, (seeds, numbers, actions, overs))
        after, rewards = numbers.astype(np.int32), np.zeros(seeds.shape, np.float32)
        terminated, truncated = np.zeros(seeds.shape, bool), np.zeros(seeds.shape, bool)
        for i in np.ndindex(seeds.shape):
            if not overs[i]:
                action = int(actions[i]) + self.first_action
                after[i], visit = self.episodes.step(int(seeds[i]), int(numbers[i]), action)
                rewards[i], terminated[i] = visit.reward, visit.terminated
                truncated[i] = visit.truncated and not visit.terminated
        return after, rewards, terminated, truncated

    def _host_observe(self, seeds: Any, numbers: Any) -> np.ndarray:
        seeds, numbers = np.asarray(seeds), np.asarray(numbers)
        observations = np.empty((*seeds.shape, *self.observed.shape), self.observed.dtype)
        for i in np.ndindex(seeds.shape):
            observations[i] = self.episodes.visit(int(seeds[i]), int(numbers[i])).observation
        return observations


def from_gymnasium(
    make: Callable[[], Any], *, instances: int = 256, memory: int = 1_000_000
) -> GymnasiumEnvironment:
    """An environment made of simulators that `make()` builds: discrete actions, one array to observe.

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
    episodes = Episodes(make, encode, instances, memory)
    return GymnasiumEnvironment(int(actions.n), int(getattr(actions, "start", 0)), spec, episodes)


def _is_discrete(space: Any) -> bool:
    return hasattr(space, "n") and space.shape == ()


def _encoder(space: Any) -> tuple[Callable[[Any], np.ndarray], jax.ShapeDtypeStruct]:
    """How an observation becomes an array, and which: one-hot for a Discrete space."""
    if _is_discrete(space):
        one_hot = functools.partial(_one_hot, int(space.n), int(getattr(space, "start", 0)))
        return one_hot, jax.ShapeDtypeStruct((int(space.n),), jnp.float32)
    if space.shape is None or space.dtype is None:
        raise ValueError(f"{space} is not one array: wrap the environment in FlattenObservation")
    dtype = np.dtype(space.dtype)
    dtype = np.dtype(NARROWER.get(dtype.name, dtype))
    return functools.partial(np.array, dtype=dtype), jax.ShapeDtypeStruct(space.shape, dtype)


def _one_hot(size: int, start: int, value: Any) -> np.ndarray:
    return (np.arange(size) == int(value) - start).astype(np.float32)
