"""How the variance of a return grows by one step back up the tree, and how large `beta` must be for a bound."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.types import Number

Propagation = Callable[[Float[Array, "*B"], Float[Array, "*B"], Float[Array, "*B"]], Float[Array, "*B"]]


def independent(
    reward_variance: Float[Array, "*B"], discount: Float[Array, "*B"], variance: Float[Array, "*B"]
) -> Float[Array, "*B"]:
    """Variance of `reward + discount * return` where the two estimates err independently."""
    return reward_variance + discount * discount * variance


def correlated(
    reward_variance: Float[Array, "*B"], discount: Float[Array, "*B"], variance: Float[Array, "*B"]
) -> Float[Array, "*B"]:
    """The largest variance that `reward + discount * return` can have, however the two estimates hang together."""
    std = jnp.sqrt(reward_variance) + jnp.abs(discount) * jnp.sqrt(variance)
    return std * std


def beta_for_confidence(delta: Number) -> Float[Array, "*B"]:
    """The `beta` for which `q + beta * std` bounds Q* with probability `1 - delta` (Theorem 1, `thm:UCB`)."""
    if isinstance(delta, float | int) and not 0 < delta <= 1:
        raise ValueError(f"delta is the probability that the bound fails: it must be in (0, 1], got {delta}")
    return 1 / jnp.sqrt(jnp.asarray(delta, dtype=float))
