"""The arrays of a training state: their names and types, and their values on the host and back."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding
from jax.tree_util import KeyPath
from jaxtyping import PyTree

ArrayLeaf = jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct


@dataclass(frozen=True)
class Leaf:
    """The name and type of one array of a state. `key_type` is the generator of an array of random keys."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    key_type: str | None = None


def is_key(leaf: ArrayLeaf) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def describe(tree: PyTree, name: str = "state") -> list[Leaf]:
    """Describes a state, or the shapes from `jax.eval_shape`, for which `key_type` is unknown."""
    return [_describe(name, path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def arrays_of(state: PyTree) -> list[jax.Array | np.ndarray]:
    """Returns the arrays on their devices, with the data of random keys."""
    return [jax.random.key_data(leaf) if is_key(leaf) else leaf for leaf in jax.tree.leaves(state)]


def from_host(
    like: PyTree, leaves: Sequence[Leaf], arrays: Sequence[np.ndarray], shardings: PyTree | None = None
) -> PyTree:
    """Returns a state of the structure of `like` on devices. It owns its memory, since `advance` donates it."""
    structure = jax.tree.structure(like)
    where = [None] * len(leaves) if shardings is None else jax.tree.leaves(shardings)
    return jax.tree.unflatten(structure, list(map(_to_device, leaves, arrays, where)))


def refuse_mismatch(found: Sequence[Leaf], like: PyTree, name: str = "state") -> None:
    """Raises an error for the first array whose name, shape or type is not that of `like`."""
    wanted = {leaf.path: leaf for leaf in describe(like, name)}
    stored = {leaf.path: leaf for leaf in found}
    for path in [*wanted, *stored]:
        if path not in stored:
            raise ValueError(f"the checkpoint lacks {path}, and a state of the trainer has it: {_ADVICE}")
        if path not in wanted:
            raise ValueError(f"the checkpoint has {path}, and a state of the trainer does not: {_ADVICE}")
        here, there = stored[path], wanted[path]
        if (here.shape, here.dtype) != (there.shape, there.dtype):
            raise ValueError(f"{path} is {_text(here)} in the checkpoint, {_text(there)} expected: {_ADVICE}")


_ADVICE = "other settings or another version of emcts made it"


def _describe(name: str, path: KeyPath, leaf: object) -> Leaf:
    name += jax.tree_util.keystr(path)
    if not isinstance(leaf, ArrayLeaf):
        raise ValueError(f"{name} is a {type(leaf).__name__}, and only arrays can be saved: use jnp.asarray")
    key_type = str(jax.random.key_impl(leaf)) if is_key(leaf) and isinstance(leaf, jax.Array) else None
    return Leaf(name, tuple(leaf.shape), str(leaf.dtype), key_type)


def _to_device(leaf: Leaf, array: np.ndarray, where: Sharding | None) -> jax.Array:
    if where is None:
        on_device = jnp.array(array, copy=True)
    else:  # each process makes the shards of its devices
        on_device = jax.make_array_from_callback(
            array.shape, where, lambda index: np.array(array[index], copy=True)
        )
    return jax.random.wrap_key_data(on_device, impl=leaf.key_type) if leaf.key_type else on_device


def _text(leaf: Leaf) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
