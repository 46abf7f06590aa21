"""A training state as named arrays on the host, and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


@dataclass(frozen=True)
class Leaf:
    """What one array of a state looks like. `key_type` names the generator where it holds random keys."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    key_type: str | None = None


def is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def describe(state: PyTree) -> list[Leaf]:
    """Of a state, or of the shapes that `jax.eval_shape` gives; `key_type` is known of a state alone."""
    return [_describe(path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)]


def numbers(state: PyTree) -> list[Any]:
    """The arrays where they are, keys as the numbers behind them."""
    return [jax.random.key_data(leaf) if is_key(leaf) else leaf for leaf in jax.tree.leaves(state)]


def from_host(
    like: PyTree, leaves: Sequence[Leaf], arrays: Sequence[np.ndarray], shardings: PyTree | None = None
) -> PyTree:
    """A state of the structure of `like`, where `shardings` say. It owns its memory, for `advance` gives that away."""
    structure = jax.tree.structure(like)
    where = [None] * len(leaves) if shardings is None else jax.tree.leaves(shardings)
    return jax.tree.unflatten(structure, list(map(_to_device, leaves, arrays, where)))


def refuse_mismatch(found: Sequence[Leaf], like: PyTree) -> None:
    """Complains of the first array that the trainer wants otherwise."""
    wanted = {leaf.path: leaf for leaf in describe(like)}
    stored = {leaf.path: leaf for leaf in found}
    for path in [*wanted, *stored]:
        if path not in stored or path not in wanted:
            side = "lacks" if path not in stored else "has"
            why = "a state of the trainer has it" if path not in stored else "a state of the trainer does not"
            raise ValueError(f"the checkpoint {side} {path}, and {why}: {_ADVICE}")
        here, there = stored[path], wanted[path]
        if (here.shape, here.dtype) != (there.shape, there.dtype):
            raise ValueError(f"{path} is {_text(here)} in the checkpoint, {_text(there)} expected: {_ADVICE}")


_ADVICE = "other settings or another version of emcts made it"


def _describe(path: tuple[Any, ...], leaf: Any) -> Leaf:
    name = jax.tree_util.keystr(path)
    if not hasattr(leaf, "dtype"):
        raise ValueError(
            f"state{name} is a {type(leaf).__name__}, and only arrays can be saved: use jnp.asarray"
        )
    key_type = str(jax.random.key_impl(leaf)) if is_key(leaf) and isinstance(leaf, jax.Array) else None
    return Leaf(f"state{name}", tuple(leaf.shape), str(leaf.dtype), key_type)


def _to_device(leaf: Leaf, array: np.ndarray, where: Any) -> jax.Array:
    if where is None:
        on_device = jnp.array(array, copy=True)
    else:  # each process makes the parts of its devices
        on_device = jax.make_array_from_callback(
            array.shape, where, lambda index: np.array(array[index], copy=True)
        )
    return jax.random.wrap_key_data(on_device, impl=leaf.key_type) if leaf.key_type else on_device


def _text(leaf: Leaf) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
