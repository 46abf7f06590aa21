"""Sequential Halving: which number of visits is looked for at each simulation of a Gumbel search."""

import math
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from emcts.search.row import Row


def score_considered(
    row: Row,
    completed_qvalues: Float[Array, "A"],
    gumbel: Float[Array, "A"],
    considered_visit: Int[Array, ""] | Float[Array, ""],
) -> Float[Array, "A"]:
    """`gumbel + logits + qvalues` of the actions that have the visits looked for, and -inf for the others."""
    logits = row.prior_logits - row.max(row.prior_logits)
    # Bounded below, so that the only action left is taken even if its logit is that of an invalid one.
    score = jnp.maximum(-1e9, gumbel + logits + completed_qvalues)
    return jnp.where(row.visits == considered_visit, score, -jnp.inf)


@lru_cache
def considered_visits(num_considered: int, num_simulations: int) -> tuple[int, ...]:
    """The visit counts that the simulations look for, one after the other, when `num_considered` actions start."""
    if num_considered <= 1:
        return tuple(range(num_simulations))
    rounds = math.ceil(math.log2(num_considered))
    sequence: list[int] = []
    visits = 0
    remaining = num_considered
    while len(sequence) < num_simulations:
        for _ in range(max(1, int(num_simulations / (rounds * remaining)))):
            sequence.extend([visits] * remaining)
            visits += 1
        remaining = max(2, remaining // 2)
    return tuple(sequence[:num_simulations])


def visits_table(max_num_considered: int, num_simulations: int) -> Int[np.ndarray, "M S"]:
    """Row `m` holds the visits looked for when `m` actions are considered."""
    rows = [considered_visits(m, num_simulations) for m in range(max_num_considered + 1)]
    return np.array(rows, dtype=np.int32)
