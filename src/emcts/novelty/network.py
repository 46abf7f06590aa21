"""What the learned estimators ask of a network, and one step of its training."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from emcts.types import Key

Network = Any  # a pytree of arrays that is called with one x and returns a vector
NetworkFactory = Callable[[Key], Network]


def build(factory: NetworkFactory, key: Key) -> Network:
    """A network drawn from `key`, checked to be one that `vmap` and checkpoints can hold."""
    network = factory(key)
    for path, leaf in jax.tree_util.tree_leaves_with_path(network):
        if not isinstance(leaf, jax.Array | np.ndarray):
            raise ValueError(
                f"a network's leaves must be arrays, got {leaf!r} at {jax.tree_util.keystr(path)}: "
                "make it a static field, or call the activation in __call__"
            )
    return network


def squared_error(prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, ""]:
    """The squared distance of two vectors."""
    if prediction.shape != target.shape:
        raise ValueError(
            f"a prediction of shape {prediction.shape} cannot learn a target of shape {target.shape}: "
            "give both networks as many outputs"
        )
    return jnp.sum(jnp.square(prediction - target))


def descend(
    optimiser: optax.GradientTransformation,
    error: Callable[[Network, Any], Float[Array, ""]],
    network: Network,
    optimiser_state: PyTree,
    rows: PyTree[Shaped[Array, "B ..."]],
    mask: Bool[Array, "B"],
) -> tuple[Network, PyTree]:
    """One step down the mean error of the rows in the mask; where there are none, nothing changes."""

    def loss(network: Network) -> Float[Array, ""]:
        errors = jax.vmap(error, (None, 0))(network, rows)
        return jnp.sum(jnp.where(mask, errors, 0)) / jnp.maximum(jnp.sum(mask), 1)

    updates, new_state = optimiser.update(jax.grad(loss)(network), optimiser_state, network)
    moved = optax.apply_updates(network, updates), new_state
    # An optimiser with momentum moves even without a gradient: what was not trained has to be kept.
    return jax.tree.map(lambda new, old: jnp.where(mask.any(), new, old), moved, (network, optimiser_state))


def blank(xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> Shaped[Array, "B ..."]:
    """Zeros in place of the rows that are not in the mask, whose NaNs would reach the gradient."""
    return jnp.where(mask.reshape(-1, *[1] * (xs.ndim - 1)), xs, jnp.zeros_like(xs))
