"""The uncertainty Bellman equation: what the variance of a value is at a leaf, and how far it reaches."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.types import Number


def horizon_factor(discount: float, horizon: Number | None = None) -> Float[Array, "*B"]:
    """How many times a variance can be met in `horizon` steps, discounted: `(1 - g^2H) / (1 - g^2)` (`eq:ube_max`).

    None is an endless horizon, which needs a discount below 1.
    """
    if not 0 <= discount <= 1:
        raise ValueError(f"discount is {discount}: give a number from 0 to 1")
    if horizon is None:
        if discount == 1:
            raise ValueError("a discount of 1 bounds no endless sum: give the horizon, or a discount below 1")
        return jnp.float32(1 / (1 - discount**2))
    steps = jnp.asarray(horizon, jnp.float32)
    return steps if discount == 1 else (1 - discount ** (2 * steps)) / (1 - discount**2)


def leaf_variance(
    predicted: Float[Array, "*B"], novelty: Float[Array, "*B"], factor: Float[Array, "*B"], largest: float
) -> Float[Array, "*B"]:
    """`max(u, c * eta)`, at most `largest`: a head cannot know of states that it was never trained on."""
    # An endless horizon has an infinite factor where nothing is discounted: what is known is known there, too.
    unknown = jnp.where(novelty > 0, factor * novelty, 0.0)
    return jnp.clip(jnp.maximum(predicted, unknown), 0, largest)
