"""What a program is worth when it is written: functions of whether it solves the task and of its length."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Reward = Callable[[Bool[Array, ""], Int[Array, ""], int], Float[Array, ""]]


def solved(is_solved: Bool[Array, ""], num_words: Int[Array, ""], max_words: int) -> Float[Array, ""]:
    """1 for a program that solves the task, as in the paper."""
    return is_solved.astype(jnp.float32)


def shortest(is_solved: Bool[Array, ""], num_words: Int[Array, ""], max_words: int) -> Float[Array, ""]:
    """1 for a solution of one word, and 1 / `max_words` less for every word more."""
    return is_solved * (1 + max_words - num_words).astype(jnp.float32) / max_words
