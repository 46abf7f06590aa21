"""Vector environments of Gymnasium: simulators that step together, each in a process of its own for example.

All simulators of a vector environment step at the same time, whether their episodes move or not. So it holds a fixed
group of episodes: the rows of a batch, in their order. Where an episode is over, or a batch is smaller, a simulator
runs idle, in an episode that nobody sees. If one simulator of a group is not where its episode is, the whole group is
replayed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int

from emcts.envs.adapters.simulators import (
    EpisodeKey,
    Moves,
    Pool,
    Steps,
    Views,
    mask_of,
    read_reset,
    read_step,
    with_reward,
)
from emcts.envs.adapters.spaces import Space

GroupKey = tuple[EpisodeKey | None, ...]  # None where a simulator runs idle
IDLE_SEED = 0
T = TypeVar("T")


@runtime_checkable
class VectorSimulator(Protocol):
    """The members of Gymnasium's vector environments that are used here."""

    @property
    def num_envs(self) -> int: ...

    @property
    def single_action_space(self) -> Space: ...

    @property
    def single_observation_space(self) -> Space: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...

    def reset(
        self, *, seed: list[int], options: dict[str, Any] | None = None
    ) -> tuple[Any, Mapping[str, Any]]: ...

    def step(
        self, actions: Int[np.ndarray, "M"]
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Mapping[str, Any]]: ...

    def close(self) -> None: ...


def is_vector(simulator: object) -> TypeGuard[VectorSimulator]:
    return hasattr(simulator, "num_envs") and hasattr(simulator, "single_action_space")


def check_no_automatic_resets(simulator: VectorSimulator) -> None:
    """Raises unless a vector environment leaves resets, with a seed each, to its caller."""
    mode = getattr(simulator, "metadata", {}).get("autoreset_mode")
    if getattr(mode, "value", mode) != "Disabled":
        raise ValueError(
            f"the vector environment has autoreset_mode {mode}: give gymnasium.make_vec(..., "
            'vectorization_mode="async", vector_kwargs={"autoreset_mode": AutoresetMode.DISABLED})'
        )


class VectorPool(Pool[GroupKey, VectorSimulator]):
    """A vector environment for each group of episodes. `size` is the number of its simulators."""

    size: int = 1

    @property
    def max_running(self) -> int:
        return max(2, -(-super().max_running // self.size))

    def add_idle(self, simulator: VectorSimulator) -> None:
        self.size = simulator.num_envs
        super().add_idle(simulator)

    def try_out(self, simulator: VectorSimulator) -> bool:
        self.add_idle(simulator)
        steps = Steps(self.interface, self.size)
        with self._explained("the reset with seed 0"):
            observation, info = read_reset(simulator.reset(seed=[0] * self.size))
            for place in range(self.size):
                steps.begun.write(place, row_of(observation, place), _mask(info, place), 0)
        is_masked = mask_of(info) is not None
        with self._explained("step 0 of seed 0"):
            actions = steps.begun.legal.argmax(axis=1) + self.interface.first_action
            observation, rewards, terminated, truncated, info = read_step(simulator.step(actions))
            for place in range(self.size):
                steps.write(
                    place,
                    0,
                    row_of(observation, place),
                    float(rewards[place]),
                    bool(terminated[place]),
                    bool(truncated[place]),
                    _mask(info, place),
                )
        return is_masked

    def reset(self, seeds: Int[np.ndarray, "N"]) -> Views:
        views = Views(self.interface, len(seeds))
        with self._locked(len(seeds)):
            for start, every in self._groups(seeds.tolist()):
                simulator = self._free_simulator()
                begun = {place: seed for place, seed in enumerate(every) if seed is not None}
                self._reset(simulator, begun, np.ones(self.size, bool), views, start)
                self._put(tuple(None if seed is None else (seed, b"") for seed in every), simulator)
        return views

    def step(self, moves: Moves) -> Steps:
        steps = Steps(self.interface, len(moves))
        with self._locked(len(moves)):
            keys = moves.keys()
            groups = [(start, tuple(group)) for start, group in self._groups(keys)]
            found = [self._take(group) for _, group in groups]
            after = [group for _, group in self._groups(moves.keys_after(keys))]
            for (start, group), simulator, group_after in zip(groups, found, after, strict=True):
                if moves.reset_seed is not None or any(key is not None for key in group):
                    self._move(simulator, group, group_after, moves, start, steps)
        return steps

    def _move(
        self,
        simulator: VectorSimulator | None,
        keys: GroupKey,
        keys_after: list[EpisodeKey | None],
        moves: Moves,
        start: int,
        steps: Steps,
    ) -> None:
        """Makes the moves of a group, whose first row is `start`, and begins its new episodes."""
        if simulator is None:
            simulator = self._free_simulator()
            for place in self._replay(simulator, keys, moves, start):
                self._report_loss()
                steps.lose(start + place)
        moving = [place for place, key in enumerate(keys) if key and not steps.lost[start + place]]
        needs_reset = self._step(simulator, moving, moves, start, steps)
        begun = {}
        for place, row in enumerate(range(start, min(start + self.size, len(moves)))):
            if keys[place] is None or steps.over(row):
                keys_after[place] = None
                if moves.reset_seed is not None:
                    begun[place] = int(moves.reset_seed[row])
                    keys_after[place] = (begun[place], b"")
        needs_reset[list(begun)] = True
        if needs_reset.any():
            self._reset(simulator, begun, needs_reset, steps.begun, start)
        if any(key is not None for key in keys_after):
            self._put(tuple(keys_after), simulator)
        else:
            self._idle.append(simulator)

    def _step(
        self, simulator: VectorSimulator, moving: list[int], moves: Moves, start: int, steps: Steps
    ) -> Bool[np.ndarray, "M"]:
        """Steps all simulators, and returns which of them need a reset."""
        actions = np.full(self.size, self.interface.first_action)
        for place in moving:
            actions[place] += int(moves.action[start + place])
        with self._explained("a step"):
            observation, rewards, terminated, truncated, info = read_step(simulator.step(actions))
            for place in moving:
                row = start + place
                steps.write(
                    row,
                    int(moves.checksum[row]),
                    row_of(observation, place),
                    float(rewards[place]),
                    bool(terminated[place]),
                    bool(truncated[place] or moves.last[row]),
                    _mask(info, place),
                )
            return np.array(terminated, bool) | np.array(truncated, bool)

    def _reset(
        self,
        simulator: VectorSimulator,
        seeds: dict[int, int],
        mask: Bool[np.ndarray, "M"],
        views: Views,
        start: int,
    ) -> None:
        """Resets the simulators in `mask`: those in `seeds` begin an episode, the others run idle."""
        every = [seeds.get(place, IDLE_SEED) for place in range(self.size)]
        options = None if mask.all() else {"reset_mask": mask.copy()}
        with self._explained(f"the reset with seeds {sorted(seeds.values())}"):
            observation, info = read_reset(simulator.reset(seed=every, options=options))
            for place in seeds:
                views.write(start + place, row_of(observation, place), _mask(info, place), 0)

    def _replay(self, simulator: VectorSimulator, keys: GroupKey, moves: Moves, start: int) -> list[int]:
        """Brings simulators to where their episodes are, and returns the places of those that do not get there.

        All steps are taken together, so that episodes begin at different times and arrive at the same.
        """
        seeds = {place: key[0] for place, key in enumerate(keys) if key is not None}
        actions = {place: moves.actions_before(start + place) for place in seeds}
        length = max(map(len, actions.values()), default=0)
        begins = {place: length - len(actions[place]) for place in seeds}
        scratch = Views(self.interface, self.size)
        mask, lost = np.ones(self.size, bool), set[int]()
        for time in range(length + 1):
            beginning = {place: seeds[place] for place in seeds if begins[place] == time}
            mask[list(beginning)] = True
            if mask.any():
                self._reset(simulator, beginning, mask, scratch, 0)
            if time == length:
                break
            taken = np.full(self.size, self.interface.first_action)
            on_the_way = [place for place in seeds if begins[place] <= time and place not in lost]
            for place in on_the_way:
                taken[place] += actions[place][time - begins[place]]
            with self._explained("a replay"):
                observation, rewards, terminated, truncated, _ = read_step(simulator.step(taken))
                mask = np.array(terminated, bool) | np.array(truncated, bool)
                lost |= {place for place in on_the_way if mask[place]}
                for place in on_the_way:
                    checksum = with_reward(int(scratch.checksum[place]), float(rewards[place]))
                    scratch.write(place, row_of(observation, place), None, checksum)
        return [
            place
            for place in seeds
            if place in lost or scratch.checksum[place] != moves.checksum[start + place]
        ]

    def _groups(self, rows: Sequence[T]) -> Iterator[tuple[int, list[T | None]]]:
        """The rows of each vector environment with the number of the first, and None where there is no row."""
        for start in range(0, len(rows), self.size):
            yield start, list(_padded(rows[start : start + self.size], self.size))


def row_of(observation: Any, row: int) -> Any:
    """One observation of a batch, which is an array or a dictionary or tuple of batches."""
    if isinstance(observation, Mapping):
        return {key: row_of(part, row) for key, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(row_of(part, row) for part in observation)
    return observation[row]


def _mask(info: object, row: int) -> Any:
    masks = mask_of(info)
    return None if masks is None else masks[row]


def _padded(rows: Sequence[T], size: int) -> tuple[T | None, ...]:
    return (*rows, *[None] * (size - len(rows)))
