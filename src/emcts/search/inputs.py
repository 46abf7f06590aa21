"""Checks of a search's arguments. Errors name the field, what was given and what was expected.

Numbers that are known are refused if a search cannot use them. Numbers inside `jit` are not known: there, a search
marks each row that it could not use (`emcts.search.soundness`), and `check_inputs` finds the reason.
"""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from emcts.types import (
    Key,
    Number,
    Params,
    RecurrentFn,
    RecurrentFnOutput,
    RecurrentState,
    RootFnOutput,
    Scalar,
    record,
)

ROUNDING = (
    1e-5  # of a variance, relative to the squared value: it may be a difference of two means of squares
)


@record
class CheckedRoot(RootFnOutput):
    """A root with fields of the right shapes, and with a variance."""

    value_variance: Array  # [B]


@record
class ModelStep(RecurrentFnOutput):
    """A `recurrent_fn`'s output with fields of the right shapes and dtypes; it may be without variances."""

    prior_logits: Array  # [B, A]


@record
class CheckedStep(ModelStep):
    """A model step with variances."""

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
    variance = _variance(getattr(root, "value_variance", None), "root.value_variance", value)
    refuse_unusable_logits(prior_logits, "root.prior_logits")
    refuse_where(value, lambda x: ~np.isfinite(x), "root.value", "give finite numbers")
    return CheckedRoot(prior_logits, value, embedding, variance)


def read_step(output: object, root: RootFnOutput) -> tuple[ModelStep, RecurrentState]:
    """Returns a `recurrent_fn`'s output with all fields as arrays of the root's shapes and dtypes.

    A variance that is missing stays so: `with_variances` fills it in.
    """
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
    given = {field: getattr(step, f"{field}_variance", None) for field in ("reward", "value")}
    variances = {
        f"{field}_variance": _variance(variance, f"{name}.{field}_variance", values[field])
        for field, variance in given.items()
        if variance is not None
    }
    logits = _shaped(
        _field(step, name, "prior_logits"), f"{name}.prior_logits", root.prior_logits.shape
    ).astype(root.prior_logits.dtype)
    return ModelStep(prior_logits=logits, **values, **variances), _like(embedding, root.embedding)


def with_variances(step: ModelStep) -> CheckedStep:
    """Returns the step with variances of zero where the model gave none."""
    zero = jnp.zeros_like(step.value)
    reward_variance = zero if step.reward_variance is None else step.reward_variance
    value_variance = zero if step.value_variance is None else step.value_variance
    return CheckedStep(
        step.reward, step.discount, step.prior_logits, step.value, reward_variance, value_variance
    )


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
    refuse_where(
        jnp.all(mask.astype(bool), axis=-1) if known(mask) is None else np.all(known(mask), axis=-1),
        lambda row: row,
        "invalid_actions",
        "leave at least one action of each row valid",
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
    refuse_where(beta, lambda x: ~np.isfinite(x), "beta", "give finite numbers")
    return jnp.broadcast_to(numbers, batch)


def read_range(
    value: Scalar, name: str, *, least: float = 0.0, above: bool = False, most: float = float("inf")
) -> Bool[Array, ""]:
    """Returns whether a number is finite and in a range. Raises if it is known not to be."""
    number = jnp.asarray(value)
    usable = jnp.all(jnp.isfinite(number) & (number > least if above else number >= least) & (number <= most))
    known_value = known(value)
    if known_value is not None:
        inside = known_value > least if above else known_value >= least
        if not np.all(np.isfinite(known_value) & inside & (known_value <= most)):
            wanted = f"{'above' if above else 'of at least'} {least:g}"
            wanted += f" and at most {most:g}" if np.isfinite(most) else ""
            raise ValueError(f"{name} must be a finite number {wanted}, got {value}")
    return usable


def check_inputs(
    root: object,
    recurrent_fn: RecurrentFn | None = None,
    params: Params = None,
    rng_key: Key | None = None,
    *,
    invalid_actions: ArrayLike | None = None,
    beta: Number = 0.0,
) -> None:
    """Raises an error that names what a search could not use, and where; for the roots of a search with NaN weights.

    With `recurrent_fn`, each action is tried once from the roots, and what it returns is checked as well. Call it
    outside of `jit`, where numbers are known.
    """
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((root, params, beta))):
        raise TypeError("check_inputs looks at numbers, which are not known inside jit: call it outside")
    checked = read_root(root)
    read_invalid_actions(invalid_actions, checked.prior_logits)
    read_beta(beta, checked)
    if recurrent_fn is None:
        return
    keys = jax.random.split(jax.random.key(0) if rng_key is None else rng_key, checked.prior_logits.shape[1])
    for action, key in enumerate(keys):
        actions = jnp.full(checked.value.shape, action, jnp.int32)
        step, _ = read_step(recurrent_fn(params, key, actions, checked.embedding), checked)
        name = f"of action {action}, recurrent_fn's output"
        for field in ("reward", "discount", "value", "reward_variance", "value_variance"):
            if (values := getattr(step, field)) is not None:
                refuse_where(values, lambda x: ~np.isfinite(x), f"{name}.{field}", "give finite numbers")
        refuse_unusable_logits(step.prior_logits, f"{name}.prior_logits")


def known(value: ArrayLike) -> np.ndarray | None:
    """Returns numbers that are known now; None for those inside `jit`, or on the devices of another process."""
    if isinstance(value, jax.core.Tracer) or not getattr(value, "is_fully_addressable", True):
        return None
    return np.asarray(value)


def refuse_where(
    values: ArrayLike, is_bad: Callable[[np.ndarray], np.ndarray], name: str, advice: str
) -> None:
    """Raises an error for the first row with a bad number, if numbers are known."""
    numbers = known(values)
    if numbers is None or not np.any(bad := is_bad(numbers)):
        return
    place = np.argwhere(bad)[0]
    where = f" in row {place[0]}" if len(place) else ""
    what = numbers[tuple(place)]
    given = "masks every action" if numbers.dtype == bool else f"is {what}"
    raise ValueError(f"{name} {given}{where}: {advice}")


def refuse_unusable_logits(logits: Float[Array, "B A"], name: str) -> None:
    """Raises an error if known logits are NaN or infinity, or if a row has nothing but -infinity."""
    refuse_where(logits, lambda x: np.isnan(x) | (x == np.inf), name, "give numbers, or -inf for no action")
    refuse_where(
        logits,
        lambda x: np.broadcast_to(np.all(x == -np.inf, axis=-1, keepdims=True), x.shape),
        name,
        "give at least one action of each row a number",
    )


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


def _variance(given: ArrayLike | None, name: str, value: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """Returns the variance of a value, zero if it is missing. Rounding may leave one just below zero.

    A variance that is further below is refused; one that is not known is NaN.
    """
    if given is None:
        return jnp.zeros_like(value)
    variance = _shaped(given, name, value.shape).astype(value.dtype)
    refuse_where(variance, lambda x: ~np.isfinite(x), name, "give finite numbers")
    least = -ROUNDING * (1 + value * value)
    negative = known(variance < least) if known(variance) is not None and known(value) is not None else None
    if negative is not None and np.any(negative):
        refuse_where(variance, lambda x: negative, name, "a variance is not negative")
    return jnp.where(variance < least, jnp.nan, jnp.maximum(variance, 0))


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
