"""When a run has solved Deep Sea: bsuite's score, and the axis "until 90% regret" of the paper's figure."""

import numpy as np
from jaxtyping import Bool, Float, Int

Regrets = Float[np.ndarray, "E"] | Bool[np.ndarray, "E"] | Int[np.ndarray, "E"]

SOLVED_BELOW = 0.9


def regret(returns: Float[np.ndarray, "E"], optimal_return: float) -> Float[np.ndarray, "E"]:
    """The share of the optimal return that each episode missed: 0 is the best, 1 a return of nothing."""
    if optimal_return <= 0:
        raise ValueError(f"optimal_return is {optimal_return}: regret as a share of it needs a positive one")
    return 1 - returns / optimal_return


def average_regret(regrets: Regrets) -> Float[np.ndarray, "E"]:
    """The mean over the episodes so far, after each of them.

    bsuite counts an episode as 1 if it strayed from the path and as 0 if not: pass those flags. With `regret`
    of real returns the two differ by the move costs alone.
    """
    episodes = np.arange(1, len(regrets) + 1)
    return np.cumsum(regrets, dtype=np.float64) / episodes


def episodes_to_solve(regrets: Regrets, below: float = SOLVED_BELOW) -> int | None:
    """How many episodes until the average regret first fell below 90%; None if it never did.

    Times `env.size`, this is the number of environment steps.
    """
    (solved,) = np.nonzero(average_regret(regrets) < below)
    return int(solved[0]) + 1 if len(solved) else None
