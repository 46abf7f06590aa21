"""Gymnasium simulators on the host behind pure functions: every state of every recent episode can be stepped.

A state is a number in the tree of what was simulated from one seed. Stepping it twice with one action gives one result,
the second time from memory. Stepping an earlier state again replays its actions in a new episode of the same seed.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, SupportsFloat, runtime_checkable

import numpy as np


@runtime_checkable
class Space(Protocol):
    """A space of Gymnasium; a `Discrete` one also has `n` and `start`."""

    @property
    def shape(self) -> tuple[int, ...] | None: ...

    @property
    def dtype(self) -> np.dtype | type | None: ...


@runtime_checkable
class Simulator(Protocol):
    """The members of Gymnasium's environments that are used here."""

    @property
    def action_space(self) -> Space: ...

    @property
    def observation_space(self) -> Space: ...

    def reset(self, *, seed: int) -> tuple[object, object]: ...

    def step(self, action: int) -> tuple[object, SupportsFloat, bool, bool, object]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Node:
    """A state that was reached, and the outcome of the step to it."""

    parent: int
    action: int
    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool


@dataclass
class SeedTree:
    """All states that were reached from one seed, by number; state 0 is the start."""

    nodes: list[Node]
    children: dict[tuple[int, int], int] = field(default_factory=dict)

    def path(self, state: int) -> list[int]:
        """The actions that lead to a state."""
        actions = []
        while state:
            actions.append(self.nodes[state].action)
            state = self.nodes[state].parent
        return actions[::-1]


class SimulatorPool:
    """Up to `instances` simulators, each left at the state it reached last, and the last `memory` states."""

    def __init__(
        self,
        make: Callable[[], Simulator],
        encode: Callable[[object], np.ndarray],
        instances: int,
        memory: int,
    ):
        self._make, self._encode = make, encode
        self._instances, self._memory = instances, memory
        self._trees: OrderedDict[int, SeedTree] = OrderedDict()
        self._active: OrderedDict[tuple[int, int], Simulator] = OrderedDict()  # by seed and state
        self._idle: list[Simulator] = []
        self._num_states = 0
        self._lock = threading.Lock()

    def node(self, seed: int, state: int) -> Node:
        with self._lock:
            return self._tree(seed, state).nodes[state]

    def step(self, seed: int, state: int, action: int) -> tuple[int, Node]:
        """The state that follows, and its node. A state that is over must not be stepped."""
        with self._lock:
            tree = self._tree(seed, state)
            after = tree.children.get((state, action))
            if after is None:
                after = self._simulate(seed, tree, state, action)
            return after, tree.nodes[after]

    def close(self) -> None:
        with self._lock:
            for simulator in [*self._idle, *self._active.values()]:
                simulator.close()
            self._idle.clear()
            self._active.clear()

    def _tree(self, seed: int, state: int) -> SeedTree:
        if seed not in self._trees:
            if state:
                raise RuntimeError(
                    f"a state of an episode that was forgotten is in use: raise memory (now {self._memory})"
                )
            simulator = self._free_simulator()
            start, _ = simulator.reset(seed=seed)
            self._active[seed, 0] = simulator
            self._trees[seed] = SeedTree([Node(0, -1, self._encode(start), 0.0, False, False)])
            self._count_state()
        self._trees.move_to_end(seed)
        return self._trees[seed]

    def _simulate(self, seed: int, tree: SeedTree, state: int, action: int) -> int:
        simulator = self._active.pop((seed, state), None)
        if simulator is None:
            simulator = self._replay(seed, tree, state)
        observation, reward, terminated, truncated, _ = simulator.step(action)
        after = len(tree.nodes)
        tree.nodes.append(
            Node(state, action, self._encode(observation), float(reward), bool(terminated), bool(truncated))
        )
        tree.children[state, action] = after
        if terminated or truncated:
            self._idle.append(simulator)
        else:
            self._active[seed, after] = simulator
        self._count_state()
        return after

    def _replay(self, seed: int, tree: SeedTree, state: int) -> Simulator:
        simulator = self._free_simulator()
        observation, _ = simulator.reset(seed=seed)
        for action in tree.path(state):
            observation, *_ = simulator.step(action)
        if not np.array_equal(self._encode(observation), tree.nodes[state].observation, equal_nan=True):
            raise RuntimeError(
                f"a replay from seed {seed} reached another state: this environment is not determined by its "
                "seed, so its states can only be stepped once, in order"
            )
        return simulator

    def _free_simulator(self) -> Simulator:
        if self._idle:
            return self._idle.pop()
        if len(self._active) < self._instances:
            return self._make()
        return self._active.popitem(last=False)[1]

    def _count_state(self) -> None:
        """Forgets the episodes used longest ago while there are too many states; the one in use is kept."""
        self._num_states += 1
        while self._num_states > self._memory and len(self._trees) > 1:
            seed, forgotten = self._trees.popitem(last=False)
            self._num_states -= len(forgotten.nodes)
            for place in [place for place in self._active if place[0] == seed]:
                self._idle.append(self._active.pop(place))
