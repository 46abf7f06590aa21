"""The uncertainty Bellman equation of a small deterministic world, solved exactly, and how far a UBE head is off it."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

LEAST = 0.1  # variances below this share of an untried transition's count as this: they guide nobody
OPEN = 0.5  # from this share on, an untried transition can be reached


@dataclasses.dataclass(frozen=True)
class World:
    """The transitions of S seeds: the state after each, `num_states` once the episode is over, and the leaf's `c`."""

    after: Int[np.ndarray, "S N A"]
    factor: Float[np.ndarray, "S N A"]
    discount: float

    @property
    def num_states(self) -> int:
        return self.after.shape[1]

    def behind(
        self, ube: Float[np.ndarray, "S N"], local: Float[np.ndarray, "S N A"]
    ) -> Float[np.ndarray, "S N A"]:
        """Returns the variance of each transition, `eta + g^2 max(u(s'), c eta)`; `eta` where it ends the episode."""
        padded = np.concatenate([ube, np.zeros((len(ube), 1))], axis=1)
        following = np.take_along_axis(padded[:, :, None], self.after.reshape(len(ube), -1, 1), axis=1)
        leaf = np.maximum(following.reshape(self.after.shape), self.factor * local)
        return local + self.discount**2 * np.where(self.after < self.num_states, leaf, 0.0)

    def solve(self, local: Float[np.ndarray, "S N A"], longest: int) -> Float[np.ndarray, "S N"]:
        """Returns the largest variance of a path from each state, for episodes of at most `longest` steps."""
        ube = np.zeros(local.shape[:2])
        for _ in range(longest):
            new = self.behind(ube, local).max(axis=-1)
            if np.array_equal(new, ube):
                break
            ube = new
        return ube


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a head differs from exact solutions, over the states that were visited and open, of all seeds together.

    Errors are differences of log variances. `age` is that of the past solution that the head resembles most.
    """

    states: int
    age: int
    bias: float
    noise: float
    noise_now: float  # at age 0
    siblings: float  # correlation of the errors of states that can follow one another's parent
    errors: tuple[float, ...]  # root of the mean squared error, by age
    closed: float  # share of visited states without anything untried behind them, that the head says is there


def compare(
    head: Float[np.ndarray, "S N"],
    solutions: Sequence[Float[np.ndarray, "S N"]],
    visited: Bool[np.ndarray, "S N"],
    world: World,
    *,
    unseen: float,
) -> Comparison:
    """Compares a head with the present solution and those before it, newest first.

    Counted are states that were open at the oldest of them, so that all ages are compared over the same states.
    """
    logs = [_log(solution, unseen) for solution in solutions]
    found = _log(head, unseen)
    counted = visited & (solutions[-1] >= OPEN * unseen)
    if not counted.any():
        nothing = float("nan")
        return Comparison(0, 0, nothing, nothing, nothing, nothing, (), nothing)
    errors = [found - log for log in logs]
    sizes = tuple(float(np.sqrt(np.mean(error[counted] ** 2))) for error in errors)
    age = int(np.argmin(sizes))
    error = errors[age]
    closed = visited & (solutions[0] < OPEN * unseen)
    return Comparison(
        states=int(counted.sum()),
        age=age,
        bias=float(error[counted].mean()),
        noise=float(error[counted].std()),
        noise_now=float(errors[0][counted].std()),
        siblings=_correlation(*_siblings(error, counted, world)),
        errors=sizes,
        closed=float((head[closed] >= OPEN * unseen).mean()) if closed.any() else 0.0,
    )


def agreement(
    actions: Int[np.ndarray, "S N"],
    exact: Float[np.ndarray, "S N A"],
    visited: Bool[np.ndarray, "S N"],
    *,
    unseen: float,
) -> float:
    """Returns in which share of states an action is the one that exact uncertainty prefers by at least a tenth."""
    ordered = np.sort(exact, axis=-1)
    decided = visited & (ordered[..., -1] >= OPEN * unseen) & (ordered[..., -1] > 1.1 * ordered[..., -2])
    if not decided.any():
        return float("nan")
    return float((actions == exact.argmax(axis=-1))[decided].mean())


def _log(variance: Float[np.ndarray, "S N"], unseen: float) -> Float[np.ndarray, "S N"]:
    return np.log(np.maximum(variance, LEAST * unseen))


def _siblings(
    error: Float[np.ndarray, "S N"], counted: Bool[np.ndarray, "S N"], world: World
) -> tuple[Float[np.ndarray, "P"], Float[np.ndarray, "P"]]:
    """Returns the errors of the first two states that follow each state, where both are counted and differ."""
    padded = np.concatenate([error, np.zeros((len(error), 1))], axis=1)
    there = np.concatenate([counted, np.zeros((len(error), 1), bool)], axis=1)
    pairs = [np.take_along_axis(padded, world.after[:, :, action], axis=1) for action in (0, 1)]
    both = [np.take_along_axis(there, world.after[:, :, action], axis=1) for action in (0, 1)]
    mask = both[0] & both[1] & (world.after[:, :, 0] != world.after[:, :, 1])
    return pairs[0][mask], pairs[1][mask]


def _correlation(one: Float[np.ndarray, "P"], other: Float[np.ndarray, "P"]) -> float:
    if len(one) < 3 or one.std() == 0 or other.std() == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])
