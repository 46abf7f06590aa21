"""Judging episodes: whether an evaluation solved the task, and the average regret of the training episodes.

Both go by the environment's own judgement where it has one, for returns may be noisy.
"""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.types import Replaceable, record


@record
class EvaluationResult(Replaceable):
    """Of each episode. `solved` is the environment's judgement (`Worlds.success`): rewards may be noisy."""

    episode_return: Float[Array, "E"]
    length: Int[Array, "E"]
    solved: Bool[Array, "E"]


MOST_REGRET = 2**30  # of a balance of regret, which stays there and does not wrap
SolvedFraction = Callable[
    [EvaluationResult], Float[Array, ""]
]  # from 0 to 1; with 1 the task counts as solved


def episodes_solved(evaluation: EvaluationResult) -> Float[Array, ""]:
    """The share of the episodes that were solved."""
    # A sum divided by a count may round to less than 1.
    return jnp.where(evaluation.solved.all(), 1.0, evaluation.solved.mean())


@dataclasses.dataclass(frozen=True)
class ReturnReached:
    """1 if the mean return is at least `wanted`, else 0: for environments without a judgement of their own.

    Where rewards are noisy, a lucky evaluation reaches it too.
    """

    wanted: float

    def __call__(self, evaluation: EvaluationResult) -> Float[Array, ""]:
        return jnp.where(evaluation.episode_return.mean() >= self.wanted, 1.0, 0.0)


def regret_balance(
    balance: Int[Array, ""], over: Bool[Array, "L"], good: Bool[Array, "L"]
) -> Int[Array, "L"]:
    """9 for each good episode so far less 1 for each other one, once each lane in turn has made its move.

    bsuite's regret of an episode is 0 if it was good and 1 if not (`DeepSea.strayed`). So the average regret over all
    episodes is below 90% just when this is above 0.
    """
    change = jnp.where(over, jnp.where(good, 9, -1), 0)
    return jnp.clip(balance + jnp.cumsum(change, dtype=jnp.int32), -MOST_REGRET, MOST_REGRET)
