"""Deep Sea with nothing to learn: a planner that knows the sea and counts every move, and looks for the new alone.

It is told the transitions, never where the treasure is, and each episode that explores takes the path with the most
that it has not tried. What an agent needs beyond it on average is the price of learning what is new. It is no bound: a
seed that happens to go for the treasure first is sooner.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

SEEN_ONCE = 1e-6  # what a move tried once is worth, against 1 for one never tried


@dataclass(frozen=True)
class Protocol:
    """How steps are counted: of `episodes` side by side, `exploring` look for what is new.

    The others exploit what they know, which is nothing yet, so they only cost steps. Before all this, `warm_up`
    steps are played at random.
    """

    episodes: int = 2
    exploring: int = 1
    warm_up: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.exploring <= self.episodes:
            raise ValueError(
                f"{self.exploring} of {self.episodes} episodes explore: give 1 to {self.episodes}"
            )
        if self.warm_up < 0:
            raise ValueError(f"warm_up is {self.warm_up}: give 0 or more")


PAPER = Protocol(episodes=2, exploring=1, warm_up=300)
HALF = Protocol(episodes=2, exploring=1)
ALL = Protocol(episodes=1, exploring=1)


def steps_to_treasure(size: int, seed: int, protocol: Protocol) -> int:
    """The steps of all episodes until one of those that explore has moved right all the way. Seeds break ties."""
    if size < 2:
        raise ValueError(f"Deep Sea of size {size}: give at least 2")
    rng = np.random.default_rng(seed)
    visits = np.zeros((size, size, 2), np.int64)
    for _ in range(protocol.warm_up // size):
        if _dive(visits, rng.random((size, size, 2)), rng):
            return protocol.warm_up
    turns = 0
    while True:
        turns += 1
        paths = [_dive(visits, _worth(visits), rng) for _ in range(protocol.exploring)]
        if any(paths):
            return protocol.warm_up + turns * size * protocol.episodes


def steps_of_seeds(size: int, seeds: int, protocol: Protocol) -> Float[np.ndarray, "S"]:
    return np.array([steps_to_treasure(size, seed, protocol) for seed in range(seeds)], np.float64)


def _worth(visits: Int[np.ndarray, "N N 2"]) -> Float[np.ndarray, "N N 2"]:
    """What is still to be had behind each move, by the best path from there to the end of the episode."""
    size = len(visits)
    # Moves never tried come first; of paths without any, the one whose moves were tried least.
    new = np.where(visits == 0, 1.0, SEEN_ONCE / np.maximum(visits, 1))
    left, right = _neighbours(size)
    worth = np.zeros((size, size, 2))
    after = np.zeros(size)
    for row in reversed(range(size)):
        worth[row] = new[row] + np.stack([after[left], after[right]], axis=1)
        after = worth[row].max(axis=1)
    return worth


def _dive(
    visits: Int[np.ndarray, "N N 2"], worth: Float[np.ndarray, "N N 2"], rng: np.random.Generator
) -> bool:
    """One episode by the worth of moves, noted in `visits`; says whether every move went right."""
    size = len(visits)
    left, right = _neighbours(size)
    column, always_right = 0, True
    for row in range(size):
        of_left, of_right = worth[row, column]
        tie = abs(of_right - of_left) < SEEN_ONCE**2
        goes_right = bool(rng.integers(2)) if tie else bool(of_right > of_left)
        visits[row, column, int(goes_right)] += 1
        column = int(right[column] if goes_right else left[column])
        always_right &= goes_right
    return always_right


def _neighbours(size: int) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """The columns that left and right lead to."""
    columns = np.arange(size)
    return np.maximum(columns - 1, 0), np.minimum(columns + 1, size - 1)
