"""The uncertainty Bellman equation: the variance of a value at a leaf, and the horizon it accumulates over."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.types import Number, Scalar


def horizon_factor(discount: float, horizon: Number | None = None) -> Float[Array, "*B"]:
    """Returns the discounted number of times that a variance counts in `horizon` steps (`eq:ube_max`).

    That is `(1 - g^2H) / (1 - g^2)`. None is an endless horizon, which needs a discount below 1.
    """
    if not 0 <= discount <= 1:
        raise ValueError(f"discount is {discount}: give a number from 0 to 1")
    if horizon is None:
        if discount == 1:
            raise ValueError("a discount of 1 bounds no endless sum: give the horizon, or a discount below 1")
        return jnp.float32(1 / (1 - discount**2))
    steps = jnp.asarray(horizon, jnp.float32)
    return steps if discount == 1 else (1 - discount ** (2 * steps)) / (1 - discount**2)


def single_step_factor(discount: float, horizon: Number | None = None) -> Float[Array, ""]:
    """Returns 1: the uncertainty behind a leaf is that of the transition into it, whatever the horizon."""
    return jnp.float32(1)


def leaf_variance(
    predicted: Float[Array, "*B"], novelty: Float[Array, "*B"], factor: Float[Array, "*B"], largest: Scalar
) -> Float[Array, "*B"]:
    """Returns `max(u, c * eta)`, at most `largest`: a head is unreliable on states that it was not trained on."""
    # An undiscounted endless horizon has an infinite factor: a novelty of 0 stays 0 there, too.
    unknown = jnp.where(novelty > 0, factor * novelty, 0.0)
    return jnp.clip(jnp.maximum(predicted, unknown), 0, largest)
