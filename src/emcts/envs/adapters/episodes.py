"""Gymnasium simulators on the host, made to look pure: every state of every recent episode can be stepped.

A state is a number in the tree of what was tried from one seed. Stepping it twice with one action gives one
answer, from memory. Stepping an earlier state again replays its actions in a fresh episode of the same seed.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Visit:
    """A state that was reached, and what the step to it paid."""

    parent: int
    action: int
    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool


@dataclass
class Episode:
    """Everything tried from one seed; state 0 is the start."""

    visits: list[Visit]
    children: dict[tuple[int, int], int] = field(default_factory=dict)

    def path(self, state: int) -> list[int]:
        """The actions that lead to a state."""
        actions = []
        while state:
            actions.append(self.visits[state].action)
            state = self.visits[state].parent
        return actions[::-1]


class Episodes:
    """`instances` simulators stand ready where episodes were left; the last `memory` states are known."""

    def __init__(
        self, make: Callable[[], Any], encode: Callable[[Any], np.ndarray], instances: int, memory: int
    ):
        self._make, self._encode = make, encode
        self._instances, self._memory = instances, memory
        self._episodes: OrderedDict[int, Episode] = OrderedDict()
        self._standing: OrderedDict[tuple[int, int], Any] = OrderedDict()  # by seed and state
        self._idle: list[Any] = []
        self._states = 0
        self._lock = threading.Lock()

    def visit(self, seed: int, state: int) -> Visit:
        with self._lock:
            return self._episode(seed, state).visits[state]

    def step(self, seed: int, state: int, action: int) -> tuple[int, Visit]:
        """The state that follows, and its visit. A state that is over must not be stepped."""
        with self._lock:
            episode = self._episode(seed, state)
            after = episode.children.get((state, action))
            if after is None:
                after = self._explore(seed, episode, state, action)
            return after, episode.visits[after]

    def close(self) -> None:
        with self._lock:
            for simulator in [*self._idle, *self._standing.values()]:
                simulator.close()
            self._idle.clear()
            self._standing.clear()

    def _episode(self, seed: int, state: int) -> Episode:
        if seed not in self._episodes:
            if state:
                raise RuntimeError(
                    f"a state of an episode that was forgotten is in use: raise memory (now {self._memory})"
                )
            simulator = self._free_simulator()
            start, _ = simulator.reset(seed=seed)
            self._standing[seed, 0] = simulator
            self._episodes[seed] = Episode([Visit(0, -1, self._encode(start), 0.0, False, False)])
            self._count_state()
        self._episodes.move_to_end(seed)
        return self._episodes[seed]

    def _explore(self, seed: int, episode: Episode, state: int, action: int) -> int:
        simulator = self._standing.pop((seed, state), None)
        if simulator is None:
            simulator = self._replay(seed, episode, state)
        observation, reward, terminated, truncated, _ = simulator.step(action)
        after = len(episode.visits)
        episode.visits.append(
            Visit(state, action, self._encode(observation), float(reward), bool(terminated), bool(truncated))
        )
        episode.children[state, action] = after
        if terminated or truncated:
            self._idle.append(simulator)
        else:
            self._standing[seed, after] = simulator
        self._count_state()
        return after

    def _replay(self, seed: int, episode: Episode, state: int) -> Any:
        simulator = self._free_simulator()
        observation, _ = simulator.reset(seed=seed)
        for action in episode.path(state):
            observation, *_ = simulator.step(action)
        if not np.array_equal(self._encode(observation), episode.visits[state].observation, equal_nan=True):
            raise RuntimeError(
                f"a replay from seed {seed} went another way: this environment is not determined by its "
                "seed, so its states can only be stepped once, in order"
            )
        return simulator

    def _free_simulator(self) -> Any:
        if self._idle:
            return self._idle.pop()
        if len(self._standing) < self._instances:
            return self._make()
        return self._standing.popitem(last=False)[1]

    def _count_state(self) -> None:
        """The episode used longest ago is forgotten first; the one in use never is."""
        self._states += 1
        while self._states > self._memory and len(self._episodes) > 1:
            seed, forgotten = self._episodes.popitem(last=False)
            self._states -= len(forgotten.visits)
            for place in [place for place in self._standing if place[0] == seed]:
                self._idle.append(self._standing.pop(place))
