"""What enters a search, checked and made uniform: errors name the field, what it is and what it should be."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from emcts.types import RecurrentFnOutput, RootFnOutput


def read_root(root: Any) -> RootFnOutput:
    """The root with all fields as arrays, variances filled in; mctx's record is as good as ours."""
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
    return RootFnOutput(prior_logits, value, embedding, variance)


def read_step(output: Any, root: RootFnOutput) -> tuple[RecurrentFnOutput, Any]:
    """What a `recurrent_fn` returned, with all fields as arrays of the root's dtypes, variances filled in."""
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
    return RecurrentFnOutput(prior_logits=logits, **values, **variances), _like(embedding, root.embedding)


def read_invalid_actions(invalid_actions: Any, root: RootFnOutput) -> Bool[Array, "B A"]:
    shape = root.prior_logits.shape
    if invalid_actions is None:
        return jnp.zeros(shape, bool)
    mask = jnp.asarray(invalid_actions)
    if mask.shape != shape:
        raise ValueError(
            f"invalid_actions must have the shape of prior_logits, {_shape(root.prior_logits)}, got {_shape(mask)}"
        )
    return mask.astype(bool)


def read_beta(beta: Any, root: RootFnOutput) -> Float[Array, "B"]:
    batch = root.value.shape
    numbers = jnp.asarray(beta, root.value.dtype)
    if numbers.shape not in ((), batch):
        raise ValueError(
            f"beta must be one number, or one for each of the {batch[0]} batch elements, got shape {_shape(numbers)}"
        )
    return jnp.broadcast_to(numbers, batch)


def read_count(count: Any, name: str) -> int:
    """A positive whole number that shapes depend on."""
    try:
        number = count.__index__()
    except (AttributeError, TypeError, jax.errors.TracerIntegerConversionError):
        raise TypeError(
            f"{name} must be a Python int, since shapes depend on it, got {type(count).__name__}: "
            "mark it static if it is an argument of a jitted function"
        ) from None
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return number


def _field(record: Any, name: str, field: str) -> Any:
    value = getattr(record, field, None)
    if value is None:
        raise TypeError(f"{name} ({type(record).__name__}) has no field {field!r}")
    return value


def _floats(value: Any, name: str) -> Float[Array, "..."]:
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(f"{name} must be floating-point, got {array.dtype}")
    return array


def _shaped(value: Any, name: str, shape: tuple[int, ...]) -> Float[Array, "..."]:
    array = _floats(value, name)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, got {_shape(array)}")
    return array


def _variance(value: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """A missing variance is zero, and one just below zero was rounded there."""
    if value is None:
        return jnp.zeros(shape, dtype)
    return jnp.maximum(_shaped(value, name, shape).astype(dtype), 0)


def _like(embedding: Any, root_embedding: Any) -> Any:
    """The embedding in the root embedding's dtypes, where that loses nothing of its kind."""
    wanted: Any = jax.tree.structure(root_embedding)
    got: Any = jax.tree.structure(embedding)
    if wanted != got:
        raise ValueError(f"recurrent_fn's embedding must have the root's structure {wanted}, got {got}")

    def convert(path: Any, like: Any, leaf: Any) -> Any:
        name = f"recurrent_fn's embedding{jax.tree_util.keystr(path)}"
        leaf = jnp.asarray(leaf)
        if leaf.shape != like.shape:
            raise ValueError(f"{name} must have the root's shape {_shape(like)}, got {_shape(leaf)}")
        if jnp.issubdtype(leaf.dtype, jnp.floating) and not jnp.issubdtype(like.dtype, jnp.inexact):
            raise TypeError(
                f"{name} is {leaf.dtype} where root.embedding is {like.dtype}: give both one dtype"
            )
        return leaf if leaf.dtype == like.dtype else leaf.astype(like.dtype)

    return jax.tree_util.tree_map_with_path(convert, root_embedding, embedding)


def _shape(array: Any) -> list[int]:
    return list(array.shape)
