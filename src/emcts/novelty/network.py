"""The networks of learned estimators, and one step of their training."""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from emcts.types import Key

RowsT = TypeVar("RowsT")  # a pytree of arrays [B, ...]


@runtime_checkable
class Network(Protocol):
    """A pytree of arrays that is called with one `x` and returns a vector."""

    def __call__(self, x: Shaped[Array, "..."], /) -> Float[Array, "D"]: ...


NetworkT = TypeVar("NetworkT", bound=Network)
NetworkFactory = Callable[[Key], NetworkT]


def make_network(factory: NetworkFactory[NetworkT], key: Key) -> NetworkT:
    """A network drawn from `key`, whose leaves are checked to be arrays, as `vmap` and checkpoints need."""
    network = factory(key)
    for path, leaf in jax.tree_util.tree_leaves_with_path(network):
        if not isinstance(leaf, jax.Array | np.ndarray):
            raise ValueError(
                f"a network's leaves must be arrays, got {leaf!r} at {jax.tree_util.keystr(path)}: "
                "make it a static field, or call the activation in __call__"
            )
    return network


def squared_error(prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, ""]:
    """The squared distance between two vectors."""
    if prediction.shape != target.shape:
        raise ValueError(
            f"a prediction of shape {prediction.shape} does not fit a target of shape {target.shape}: "
            "give both networks the same number of outputs"
        )
    return jnp.sum(jnp.square(prediction - target))


def gradient_step(
    optimiser: optax.GradientTransformation,
    error: Callable[[NetworkT, RowsT], Float[Array, ""]],
    network: NetworkT,
    optimiser_state: PyTree,
    rows: RowsT,
    mask: Bool[Array, "B"],
) -> tuple[NetworkT, PyTree]:
    """One step of the optimiser on the mean error of the rows in the mask; without any row, nothing changes."""

    def loss(network: NetworkT) -> Float[Array, ""]:
        errors = jax.vmap(error, (None, 0))(network, rows)
        return jnp.sum(jnp.where(mask, errors, 0)) / jnp.maximum(jnp.sum(mask), 1)

    updates, new_state = optimiser.update(jax.grad(loss)(network), optimiser_state, network)
    trained = optax.apply_updates(network, updates), new_state
    # An optimiser with momentum changes parameters even without a gradient.
    return jax.tree.map(lambda new, old: jnp.where(mask.any(), new, old), trained, (network, optimiser_state))


def zero_masked(xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> Shaped[Array, "B ..."]:
    """Zeros in place of the rows where `mask` is False, whose NaNs would reach the gradient."""
    return jnp.where(mask.reshape(-1, *[1] * (xs.ndim - 1)), xs, jnp.zeros_like(xs))
