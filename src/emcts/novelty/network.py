"""The networks of learned estimators, and one step of their training.

A network is any callable pytree, such as an `equinox.Module`: `eqx.nn.MLP` keeps its activations as leaves, others make
them static. The state of an estimator has the arrays alone; the rest comes from the factory again whenever the network
is called.
"""

import functools
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from emcts.distinct import on_first_rows
from emcts.types import Key

RowsT = TypeVar("RowsT")  # a pytree of arrays [B, ...]


@runtime_checkable
class Network(Protocol):
    """A pytree that is called with one `x` and returns a vector."""

    def __call__(self, x: Shaped[Array, "..."], /) -> Float[Array, "D"]: ...


NetworkT = TypeVar("NetworkT", bound=Network)
NetworkFactory = Callable[[Key], NetworkT]


def draw_arrays(factory: NetworkFactory[NetworkT], key: Key) -> NetworkT:
    """The arrays of a network drawn from `key`, with None in place of all its other leaves."""
    arrays: NetworkT = eqx.filter(factory(key), _is_array)
    return jax.tree.map(jnp.asarray, arrays)


def with_functions(factory: NetworkFactory[NetworkT], arrays: NetworkT) -> NetworkT:
    """The network of `draw_arrays`, or of their trained values, complete and ready to be called."""
    network: NetworkT = eqx.combine(arrays, _functions(factory))
    return network


@functools.lru_cache(maxsize=64)
def _functions(factory: NetworkFactory[NetworkT]) -> PyTree:
    """All leaves of a network but its arrays. They are the same for every key."""
    network = eqx.filter_eval_shape(factory, jax.random.key(0))
    return eqx.filter(network, lambda leaf: not _is_array(leaf))


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def parameters(network: NetworkT) -> NetworkT:
    """What an optimiser changes: the arrays of floats."""
    floats: NetworkT = eqx.filter(network, eqx.is_inexact_array)
    return floats


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
    counts: Bool[Array, "B"] | Int[Array, "B"],
    number: Int[Array, ""] | None = None,
) -> tuple[NetworkT, PyTree]:
    """One step of the optimiser on the mean error of the rows, each as often as it counts.

    Without any row, nothing changes. Given the `number` of rows that count, these are the first ones: then not many
    more are computed.
    """
    old, total = parameters(network), jnp.maximum(jnp.sum(counts), 1)

    def gradient(batch: tuple[RowsT, Array]) -> NetworkT:
        rows, counts = batch

        def loss(floats: NetworkT) -> Float[Array, ""]:
            errors = jax.vmap(error, (None, 0))(eqx.combine(floats, network), rows)
            return jnp.sum(jnp.where(counts > 0, counts * errors, 0)) / total

        return jax.grad(loss)(old)

    batch = rows, counts
    found = gradient(batch) if number is None else on_first_rows(gradient, number, batch)
    updates, new_state = optimiser.update(found, optimiser_state, old)
    trained = optax.apply_updates(old, updates), new_state
    # An optimiser with momentum changes parameters even without a gradient.
    floats, new_state = jax.tree.map(
        lambda new, old: jnp.where(jnp.any(counts > 0), new, old), trained, (old, optimiser_state)
    )
    return eqx.combine(floats, network), new_state


def zero_masked(xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> Shaped[Array, "B ..."]:
    """Zeros in place of the rows where `mask` is False, whose NaNs would reach the gradient."""
    return jnp.where(mask.reshape(-1, *[1] * (xs.ndim - 1)), xs, jnp.zeros_like(xs))
