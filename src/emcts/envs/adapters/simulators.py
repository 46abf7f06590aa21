"""Simulators of Gymnasium on the host, one for each running episode.

A pool keeps no results: an episode is its seed and its actions, and what callers need of its state is in their arrays.
The simulator of an episode is found by seed and actions. If there is none, as after a restart, another one is reset
with the seed and takes the actions again. A checksum of all that it returned tells whether it reached the same state.
"""

import abc
import contextlib
import struct
import sys
import threading
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, SupportsFloat, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int, UInt, UInt32

from emcts.envs.adapters.spaces import Interface, ResultError, Space, described
from emcts.envs.base import SimulatorError

EpisodeKey = tuple[int, bytes]  # the seed, and the actions so far
KeyT = TypeVar("KeyT", bound=Hashable)


@runtime_checkable
class Closable(Protocol):
    """What holds resources until it is closed."""

    def close(self) -> None: ...


SimulatorT = TypeVar("SimulatorT", bound=Closable)


@runtime_checkable
class Simulator(Protocol):
    """The members of Gymnasium's environments that are used here."""

    @property
    def action_space(self) -> Space: ...

    @property
    def observation_space(self) -> Space: ...

    def reset(self, *, seed: int) -> tuple[Any, Any]: ...

    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, Any]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Moves:
    """Episodes, and an action in each of them that is not over.

    `checksum` is that of all observations and rewards so far. A `last` step ends the episode, by a limit. Where an
    episode is over, another one begins with the `reset_seed`, if there are any.
    """

    seed: Int[np.ndarray, "N"]
    time: Int[np.ndarray, "N"]
    past: UInt[np.ndarray, "N T"]  # actions
    checksum: Int[np.ndarray, "N"]
    over: Bool[np.ndarray, "N"]
    action: Int[np.ndarray, "N"]
    last: Bool[np.ndarray, "N"]
    reset_seed: Int[np.ndarray, "N"] | None = None

    def __len__(self) -> int:
        return len(self.action)

    def keys(self) -> list[EpisodeKey | None]:
        """What the simulators of episodes are found by; None for those that are over."""
        rows = zip(self.seed.tolist(), self.time.tolist(), self.over.tolist(), self.past, strict=True)
        return [None if over else (seed, past[:time].tobytes()) for seed, time, over, past in rows]

    def keys_after(self, keys: Sequence[EpisodeKey | None]) -> list[EpisodeKey | None]:
        """The keys of these episodes after the moves."""
        codes, size = self.action.astype(self.past.dtype).tobytes(), self.past.itemsize
        return [
            None if key is None else (key[0], key[1] + codes[size * row : size * (row + 1)])
            for row, key in enumerate(keys)
        ]

    def actions_before(self, row: int) -> list[int]:
        return self.past[row, : int(self.time[row])].tolist()


class Views:
    """What can be seen of the states of episodes: observations, legal actions, and the checksums so far."""

    def __init__(self, interface: Interface, rows: int):
        self._encoder = interface.encoder
        self.observation = self._encoder.empty(rows)
        self.legal: Bool[np.ndarray, "N A"] = np.ones((rows, interface.num_actions), bool)
        self.checksum: UInt32[np.ndarray, "N"] = np.zeros(rows, np.uint32)

    def write(self, row: int, observation: Any, mask: Any, checksum: int) -> int:
        """Writes a state, and returns the checksum with its observation. Without a `mask`, all actions are legal."""
        self._encoder.write(self.observation, row, observation)
        for array in self.observation:
            checksum = zlib.crc32(array[row], checksum)
        self.checksum[row] = checksum
        if mask is not None and np.any(mask):
            self.legal[row] = mask
        return checksum


class Steps:
    """The results of moves: the states `after` them, and `begun`, those of new episodes where one is over.

    A `lost` episode was not stepped, since no simulator could be brought to its state: it is cut off. Of episodes that
    were over before, nothing is written but new ones.
    """

    def __init__(self, interface: Interface, rows: int):
        self.after, self.begun = Views(interface, rows), Views(interface, rows)
        self.reward: Float32[np.ndarray, "N"] = np.zeros(rows, np.float32)
        self.terminated: Bool[np.ndarray, "N"] = np.zeros(rows, bool)
        self.truncated: Bool[np.ndarray, "N"] = np.zeros(rows, bool)
        self.lost: Bool[np.ndarray, "N"] = np.zeros(rows, bool)

    def write(
        self,
        row: int,
        checksum: int,
        observation: Any,
        reward: float,
        terminated: bool,
        truncated: bool,
        mask: Any,
    ) -> None:
        """Writes what a simulator returned. `checksum` is that before the step."""
        self.after.write(row, observation, mask, with_reward(checksum, reward))
        self.reward[row] = reward
        self.terminated[row] = terminated
        self.truncated[row] = truncated and not terminated

    def lose(self, row: int) -> None:
        self.lost[row] = self.truncated[row] = True

    def over(self, row: int) -> bool:
        return bool(self.terminated[row] or self.truncated[row])


def with_reward(checksum: int, reward: float) -> int:
    """The checksum of an episode with one more reward."""
    return zlib.crc32(struct.pack("<d", reward), checksum)


def mask_of(info: object) -> Any:
    """The legal actions that a simulator reports beside an observation; None if it does not."""
    return info.get("action_mask") if info and isinstance(info, Mapping) else None


def read_reset(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """The observation and the info that `reset` returned. An array of two numbers is no such pair."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise ResultError(
            f"reset returned {described(result)}, not (observation, info): Gymnasium's API since 0.26"
        )
    if not isinstance(result[1], Mapping):
        raise ResultError(
            f"reset returned {described(result[1])} as info, not a dictionary: Gymnasium's API since 0.26 is "
            "(observation, info)"
        )
    return result


def read_step(result: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The five values that `step` returned."""
    if not isinstance(result, tuple) or len(result) != 5:
        given = f"{len(result)} values" if isinstance(result, tuple) else described(result)
        old = " (the old API)" if isinstance(result, tuple) and len(result) == 4 else ""
        raise ResultError(
            f"step returned {given}{old}, Gymnasium's has 5: observation, reward, terminated, truncated, info"
        )
    return result


class Pool(abc.ABC, Generic[KeyT, SimulatorT]):
    """Simulators by what they run, those used longest ago first; and idle ones. One call at a time."""

    def __init__(self, make: Callable[[], SimulatorT], interface: Interface, instances: int):
        self.make, self.interface, self.instances = make, interface, instances
        self._running: OrderedDict[KeyT, list[SimulatorT]] = OrderedDict()
        self._idle: list[SimulatorT] = []
        self._lock = threading.Lock()
        self._largest_batch = 0
        self._failure: SimulatorError | None = None
        self._has_reported_loss = False
        weakref.finalize(self, _close_all, self._running, self._idle)

    @abc.abstractmethod
    def reset(self, seeds: Int[np.ndarray, "N"]) -> Views:
        """Begins an episode for each seed."""

    @abc.abstractmethod
    def step(self, moves: Moves) -> Steps:
        """Makes all moves, and begins new episodes where `moves` has seeds for them."""

    @abc.abstractmethod
    def try_out(self, simulator: SimulatorT) -> bool:
        """Takes one step outside of any compiled program, whose errors are long, and keeps the simulator as idle.

        Returns whether it reports legal actions.
        """

    @property
    def max_running(self) -> int:
        """Enough simulators for a batch, and for another one between two of its steps, as in evaluation."""
        return max(self.instances, 2 * self._largest_batch)

    def add_idle(self, simulator: SimulatorT) -> None:
        self._idle.append(simulator)

    def close(self) -> None:
        """Closes all simulators. Episodes go on in new ones."""
        with self._lock:
            _close_all(self._running, self._idle)

    def raise_failure(self) -> None:
        """Raises what a simulator raised since the last call: a compiled program turns exceptions into text."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @contextlib.contextmanager
    def _locked(self, batch: int) -> Iterator[None]:
        with self._lock:
            self._largest_batch = max(self._largest_batch, batch)
            yield

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._failed(what, error) from error

    def _failed(self, what: str, error: Exception) -> SimulatorError:
        kind = "" if isinstance(error, ResultError) else f"{type(error).__name__}: "
        message = " ".join(str(error).split())
        self._failure = SimulatorError(f"{self.interface.name} failed in {what}: {kind}{message}")
        return self._failure

    def _report_loss(self) -> None:
        if self._has_reported_loss:
            return
        self._has_reported_loss = True
        print(
            f"emcts: {self.interface.name} is not determined by its seed and actions: an episode whose simulator is "
            "gone, as after a restart, is cut off, and a new one begins",
            file=sys.stderr,
        )

    def _take(self, key: KeyT) -> SimulatorT | None:
        simulators = self._running.get(key)
        if simulators is None:
            return None
        simulator = simulators.pop()
        if not simulators:
            del self._running[key]
        return simulator

    def _put(self, key: KeyT, simulator: SimulatorT) -> None:
        self._running.setdefault(key, []).append(simulator)
        self._running.move_to_end(key)

    def _free_simulator(self) -> SimulatorT:
        """An idle simulator, a new one, or if there are too many the one used longest ago."""
        if self._idle:
            return self._idle.pop()
        if len(self._running) >= self.max_running:
            oldest = self._take(next(iter(self._running)))
            assert oldest is not None, "keys without simulators are deleted"
            return oldest
        with self._explained("its constructor"):
            return self.make()


class SimulatorPool(Pool[EpisodeKey, Simulator]):
    """A simulator for each running episode."""

    def try_out(self, simulator: Simulator) -> bool:
        self.add_idle(simulator)
        steps = Steps(self.interface, 1)
        with self._explained("the reset with seed 0"):
            observation, info = read_reset(simulator.reset(seed=0))
            steps.begun.write(0, observation, mask_of(info), 0)
        is_masked = mask_of(info) is not None
        with self._explained("step 0 of seed 0"):
            action = int(steps.begun.legal[0].argmax()) + self.interface.first_action
            seen, reward, terminated, truncated, info = read_step(simulator.step(action))
            steps.write(0, 0, seen, float(reward), terminated, truncated, mask_of(info))
        return is_masked

    def reset(self, seeds: Int[np.ndarray, "N"]) -> Views:
        views = Views(self.interface, len(seeds))
        with self._locked(len(seeds)):
            for row, seed in enumerate(seeds.tolist()):
                self._begin(self._free_simulator(), seed, views, row)
        return views

    def step(self, moves: Moves) -> Steps:
        steps = Steps(self.interface, len(moves))
        with self._locked(len(moves)):
            keys = moves.keys()
            simulators = [None if key is None else self._take(key) for key in keys]
            # Only now, since a replay may take the simulator of an episode that does not move.
            for row, key in enumerate(keys):
                if key is not None and simulators[row] is None:
                    simulators[row] = self._replayed(moves, row, steps)
            self._move(simulators, moves, steps)
            for row, (simulator, after) in enumerate(zip(simulators, moves.keys_after(keys), strict=True)):
                if simulator is not None and after is not None and not steps.over(row):
                    self._put(after, simulator)
                elif moves.reset_seed is not None:
                    begins = self._free_simulator() if simulator is None else simulator
                    self._begin(begins, int(moves.reset_seed[row]), steps.begun, row)
                elif simulator is not None:
                    self._idle.append(simulator)
        return steps

    def _move(self, simulators: Sequence[Simulator | None], moves: Moves, steps: Steps) -> None:
        lost, last, checksums = steps.lost.tolist(), moves.last.tolist(), moves.checksum.tolist()
        actions = (moves.action + self.interface.first_action).tolist()
        for row, simulator in enumerate(simulators):
            if simulator is None or lost[row]:
                continue
            try:
                seen, reward, terminated, truncated, info = read_step(simulator.step(actions[row]))
                limited = truncated or last[row]
                steps.write(row, checksums[row], seen, float(reward), terminated, limited, mask_of(info))
            except Exception as error:
                what = f"step {moves.time[row]} of seed {moves.seed[row]}"
                raise self._failed(what, error) from error

    def _replayed(self, moves: Moves, row: int, steps: Steps) -> Simulator:
        """A simulator that was brought to where an episode is; if it does not get there, the episode is lost."""
        simulator = self._free_simulator()
        if not self._replay(
            simulator, int(moves.seed[row]), moves.actions_before(row), int(moves.checksum[row])
        ):
            self._report_loss()
            steps.lose(row)
        return simulator

    def _begin(self, simulator: Simulator, seed: int, views: Views, row: int) -> None:
        with self._explained(f"the reset with seed {seed}"):
            observation, info = read_reset(simulator.reset(seed=seed))
            views.write(row, observation, mask_of(info), 0)
        self._put((seed, b""), simulator)

    def _replay(self, simulator: Simulator, seed: int, actions: list[int], checksum: int) -> bool:
        """Brings a simulator to where an episode is; False if it does not get there."""
        scratch = Views(self.interface, 1)
        with self._explained(f"a replay of seed {seed}"):
            observation, _ = read_reset(simulator.reset(seed=seed))
            reached = scratch.write(0, observation, None, 0)
            for action in actions:
                observation, reward, terminated, truncated, _ = read_step(
                    simulator.step(action + self.interface.first_action)
                )
                if terminated or truncated:
                    return False
                reached = scratch.write(0, observation, None, with_reward(reached, float(reward)))
        return reached == checksum


def _close_all(running: OrderedDict[KeyT, list[SimulatorT]], idle: list[SimulatorT]) -> None:
    simulators = [*idle, *(one for every in running.values() for one in every)]
    idle.clear()
    running.clear()
    for simulator in simulators:
        simulator.close()
