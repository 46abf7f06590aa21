"""Deep Sea with exact novelty: a planner that knows the transitions, counts state-action pairs, and only explores.

It does not know where the goal is, and each exploring episode takes the path with the most untried actions. The steps
that an agent needs beyond it, on average, are the cost of learning what is new. It is no lower bound: a seed that
happens to try the goal's path first is faster.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

TRIED_ONCE = 1e-6  # the bonus of an action tried once, against 1 for an untried one


@dataclass(frozen=True)
class Protocol:
    """How steps are counted: of `episodes` side by side, `exploring` explore.

    The others exploit, which only costs steps before the goal is found. The first `warm_up` steps take random actions.
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


def steps_to_goal(size: int, seed: int, protocol: Protocol) -> int:
    """Returns the steps of all episodes until an exploring one goes right in every row. The seed breaks ties."""
    if size < 2:
        raise ValueError(f"Deep Sea of size {size}: give at least 2")
    rng = np.random.default_rng(seed)
    visits = np.zeros((size, size, 2), np.int64)
    for _ in range(protocol.warm_up // size):
        if _run_episode(visits, rng.random((size, size, 2)), rng):
            return protocol.warm_up
    rounds = 0
    while True:
        rounds += 1
        found = [_run_episode(visits, _path_bonus(visits), rng) for _ in range(protocol.exploring)]
        if any(found):
            return protocol.warm_up + rounds * size * protocol.episodes


def steps_of_seeds(size: int, seeds: int, protocol: Protocol) -> Float[np.ndarray, "S"]:
    return np.array([steps_to_goal(size, seed, protocol) for seed in range(seeds)], np.float64)


def _path_bonus(visits: Int[np.ndarray, "N N 2"]) -> Float[np.ndarray, "N N 2"]:
    """Returns the largest sum of bonuses on a path that begins with each action."""
    size = len(visits)
    # Untried actions come first; of paths without any, the one whose actions were tried least.
    bonus = np.where(visits == 0, 1.0, TRIED_ONCE / np.maximum(visits, 1))
    left, right = _neighbours(size)
    total = np.zeros((size, size, 2))
    after = np.zeros(size)
    for row in reversed(range(size)):
        total[row] = bonus[row] + np.stack([after[left], after[right]], axis=1)
        after = total[row].max(axis=1)
    return total


def _run_episode(
    visits: Int[np.ndarray, "N N 2"], bonus: Float[np.ndarray, "N N 2"], rng: np.random.Generator
) -> bool:
    """Acts greedily by the bonus, counts in `visits`, and returns whether every action went right."""
    size = len(visits)
    left, right = _neighbours(size)
    column, always_right = 0, True
    for row in range(size):
        of_left, of_right = bonus[row, column]
        tie = abs(of_right - of_left) < TRIED_ONCE**2
        goes_right = bool(rng.integers(2)) if tie else bool(of_right > of_left)
        visits[row, column, int(goes_right)] += 1
        column = int(right[column] if goes_right else left[column])
        always_right &= goes_right
    return always_right


def _neighbours(size: int) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Returns the columns that left and right lead to."""
    columns = np.arange(size)
    return np.maximum(columns - 1, 0), np.minimum(columns + 1, size - 1)
