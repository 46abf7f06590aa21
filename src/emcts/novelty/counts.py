"""Exact counts of the visits to each index of a finite environment."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, Integer

from emcts.novelty.base import check_scale
from emcts.types import Key, Replaceable, record

MOST_VISITS = 2**30  # to an index; later ones are not counted, so that the number does not wrap


@record
class CountsState(Replaceable):
    """The number of visits to each index."""

    visits: Int32[Array, "N"]


@dataclasses.dataclass(frozen=True)
class Counts:
    """eta = scale / (n + epsilon) for the indices 0 to `size - 1`.

    Any other index stands for the end of an episode: its variance is 0, and it is not counted.
    """

    size: int
    epsilon: float = 0.1
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is the number of indices to count: give at least 1, got {self.size}")
        check_epsilon(self.epsilon)
        check_scale(self.scale)

    def init(self, key: Key) -> CountsState:
        return CountsState(jnp.zeros(self.size, jnp.int32))

    def variance(self, state: CountsState, x: Int[Array, ""]) -> Float[Array, ""]:
        visits = state.visits.at[x].get(mode="clip")
        return jnp.where(self._inside(x), inverse_count(visits, self.epsilon, self.scale), 0.0)

    def update(self, state: CountsState, xs: Int[Array, "B"], mask: Bool[Array, "B"]) -> CountsState:
        seen = mask & self._inside(xs) & (state.visits.at[xs].get(mode="clip") < MOST_VISITS)
        return CountsState(state.visits.at[xs].add(seen.astype(jnp.int32), mode="drop"))

    def num_seen(self, state: CountsState) -> Int32[Array, ""]:
        """The number of different indices that were seen."""
        return jnp.sum(state.visits > 0, dtype=jnp.int32)

    def _inside(self, x: Int[Array, "*B"]) -> Bool[Array, "*B"]:
        return (x >= 0) & (x < self.size)


def inverse_count(visits: Integer[Array, ""], epsilon: float, scale: float) -> Float[Array, ""]:
    """The variance of a mean of `visits` observations, `scale / epsilon` of none."""
    return scale / (visits + epsilon)


def check_epsilon(epsilon: float) -> None:
    """Raises unless the variance of the unseen, `scale / epsilon`, is finite and positive."""
    if not 0 < epsilon < float("inf"):
        raise ValueError(f"epsilon bounds the variance of the unseen: give a positive number, got {epsilon}")
