"""Checks of a search's arguments. Errors name the field, what was given and what was expected."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, Float, PyTree

from emcts.types import Number, RecurrentFnOutput, RecurrentState, RootFnOutput, record


@record
class CheckedRoot(RootFnOutput):
    """A root with fields of the right shapes, and with a variance."""

    value_variance: Array  # [B]


@record
class CheckedStep(RecurrentFnOutput):
    """A `recurrent_fn`'s output with fields of the right shapes and dtypes, and with variances."""

    prior_logits: Array  # [B, A]
    reward_variance: Array  # [B]
    value_variance: Array  # [B]


def read_root(root: object) -> CheckedRoot:
    """Returns the root with all fields as arrays and the variance filled in. Accepts mctx's record too."""
    prior_logits = _floats(_field(root, "root", "prior_logits"), "root.prior_logits")
    if prior_logits.ndim != 2 or 0 in prior_logits.shape:
        raise ValueError(
            f"root.prior_logits must have shape [batch, actions], none of them 0, got {_shape(prior_logits)}"
        )
    batch = prior_logits.shape[:1]
    value = _shaped(_field(root, "root", "value"), "root.value", batch)
    embedding = jax.tree.map(jnp.asarray, _field(root, "root", "embedding"))
    for path, leaf in jax.tree_util.tree_leaves_with_path(embedding):
        if leaf.shape[:1] != batch:
            name = f"root.embedding{jax.tree_util.keystr(path)}"
            raise ValueError(f"{name} must start with the batch size {batch[0]}, got shape {_shape(leaf)}")
    variance = _variance(getattr(root, "value_variance", None), "root.value_variance", batch, value.dtype)
    return CheckedRoot(prior_logits, value, embedding, variance)


def read_step(output: object, root: RootFnOutput) -> tuple[CheckedStep, RecurrentState]:
    """Returns a `recurrent_fn`'s output with all fields as arrays of the root's dtypes, variances filled in."""
    if not isinstance(output, tuple) or len(output) != 2:
        raise TypeError(
            f"recurrent_fn must return (RecurrentFnOutput, embedding), got {type(output).__name__}: "
            "did you forget the embedding?"
        )
    step, embedding = output
    name = "recurrent_fn's output"
    batch, dtype = root.value.shape, root.value.dtype
    values = {
        field: _shaped(_field(step, name, field), f"{name}.{field}", batch).astype(dtype)
        for field in ("reward", "discount", "value")
    }
    variances = {
        field: _variance(getattr(step, field, None), f"{name}.{field}", batch, dtype)
        for field in ("reward_variance", "value_variance")
    }
    logits = _shaped(
        _field(step, name, "prior_logits"), f"{name}.prior_logits", root.prior_logits.shape
    ).astype(root.prior_logits.dtype)
    return CheckedStep(prior_logits=logits, **values, **variances), _like(embedding, root.embedding)


def read_invalid_actions(
    invalid_actions: ArrayLike | None, prior_logits: Float[Array, "B A"]
) -> Bool[Array, "B A"]:
    """Returns the mask of invalid actions; None means that all are valid."""
    if invalid_actions is None:
        return jnp.zeros(prior_logits.shape, bool)
    mask = jnp.asarray(invalid_actions)
    if mask.shape != prior_logits.shape:
        raise ValueError(
            f"invalid_actions must have the shape of prior_logits, {_shape(prior_logits)}, got {_shape(mask)}"
        )
    return mask.astype(bool)


def read_beta(beta: Number, root: RootFnOutput) -> Float[Array, "B"]:
    """Returns `beta` of each batch element."""
    batch = root.value.shape
    numbers = jnp.asarray(beta, root.value.dtype)
    if numbers.shape not in ((), batch):
        raise ValueError(
            f"beta must be one number, or one for each of the {batch[0]} batch elements, got shape {_shape(numbers)}"
        )
    return jnp.broadcast_to(numbers, batch)


def read_count(count: Any, name: str) -> int:
    """Returns a positive whole number that shapes depend on."""
    try:
        number = operator.index(count)
    except (TypeError, jax.errors.TracerIntegerConversionError):
        raise TypeError(
            f"{name} must be a Python int, since shapes depend on it, got {type(count).__name__}: "
            "mark it static if it is an argument of a jitted function"
        ) from None
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return number


def _field(record: object, name: str, field: str) -> PyTree:
    value = getattr(record, field, None)
    if value is None:
        raise TypeError(f"{name} ({type(record).__name__}) has no field {field!r}")
    return value


def _floats(value: ArrayLike, name: str) -> Float[Array, "..."]:
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(f"{name} must be floating-point, got {array.dtype}")
    return array


def _shaped(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Float[Array, "..."]:
    array = _floats(value, name)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, got {_shape(array)}")
    return array


def _variance(
    value: ArrayLike | None, name: str, shape: tuple[int, ...], dtype: DTypeLike
) -> Float[Array, "..."]:
    """Returns a variance of at least zero: rounding may leave one just below. A missing variance is zero."""
    if value is None:
        return jnp.zeros(shape, dtype)
    return jnp.maximum(_shaped(value, name, shape).astype(dtype), 0)


def _like(embedding: RecurrentState, root_embedding: RecurrentState) -> RecurrentState:
    """Returns the embedding in the root embedding's dtypes; refuses floats where the root has integers."""
    wanted: object = jax.tree.structure(root_embedding)
    got: object = jax.tree.structure(embedding)
    if wanted != got:
        raise ValueError(f"recurrent_fn's embedding must have the root's structure {wanted}, got {got}")

    def convert(path: tuple[object, ...], like: Array, leaf: ArrayLike) -> Array:
        name = f"recurrent_fn's embedding{jax.tree_util.keystr(path)}"
        new = jnp.asarray(leaf)
        if new.shape != like.shape:
            raise ValueError(f"{name} must have the root's shape {_shape(like)}, got {_shape(new)}")
        if jnp.issubdtype(new.dtype, jnp.floating) and not jnp.issubdtype(like.dtype, jnp.inexact):
            raise TypeError(
                f"{name} is {new.dtype} where root.embedding is {like.dtype}: give both one dtype"
            )
        return new if new.dtype == like.dtype else new.astype(like.dtype)

    return jax.tree_util.tree_map_with_path(convert, root_embedding, embedding)


def _shape(array: Array) -> list[int]:
    return list(array.shape)
