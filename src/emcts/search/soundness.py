"""What a search says where it cannot do what was asked: NaN weights of rows that it could not use, and no gradients.

Inside `jit` numbers are not known when a search is built, so that bad ones cannot be refused. They show in the result.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from emcts.search.tree import Tree
from emcts.types import PolicyOutput, T

TreeT = TypeVar("TreeT", bound=Tree[Any])


def mark_unusable_rows(
    out: PolicyOutput[Tree[T]], searched: Tree[Any], usable: Sequence[Bool[Array, ""]] = ()
) -> PolicyOutput[Tree[T]]:
    """Makes the weights of a row NaN if its search met a number that it could not use, or if not all are `usable`.

    Those are: NaN or infinite logits, values, rewards, discounts or betas; variances that are NaN, infinite or
    negative, unless beta is 0; and a root without any valid action.
    """
    root = Tree.ROOT_INDEX
    priors, beta = searched.children_prior_logits, searched.beta
    sound = jnp.isfinite(searched.node_values[:, root]) & jnp.isfinite(beta)
    # A bad number below the root reaches it with the next backup. Logits are not backed up.
    sound &= (beta == 0) | jnp.isfinite(searched.node_value_stds[:, root])
    sound &= ~jnp.any(jnp.isnan(priors) | (priors == jnp.inf), axis=(1, 2))
    sound &= ~jnp.all(searched.root_invalid_actions | (priors[:, root] == -jnp.inf), axis=-1)
    for one in usable:
        sound &= one
    return out.replace(action_weights=jnp.where(sound[:, None], out.action_weights, jnp.nan))


def stop_gradient(inputs: PyTree) -> PyTree:
    """Returns inputs through which no gradient flows: a search is then not differentiated at all."""
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if _is_float(leaf) else leaf, inputs)


def refuse_gradient(tree: TreeT, inputs: PyTree) -> TreeT:
    """Returns the tree as it is. The gradient of anything made of it with respect to the inputs raises an error."""
    leaves, structure = jax.tree.flatten(tree)
    floats = [leaf for leaf in leaves if _is_float(leaf)]
    kept = iter(_no_gradient(floats, [leaf for leaf in jax.tree.leaves(inputs) if _is_float(leaf)]))
    made: TreeT = jax.tree.unflatten(structure, [next(kept) if _is_float(leaf) else leaf for leaf in leaves])
    return made


def _is_float(leaf: object) -> bool:
    return isinstance(leaf, jax.Array) and bool(jnp.issubdtype(leaf.dtype, jnp.inexact))


@jax.custom_vjp
def _no_gradient(floats: list[Array], inputs: list[Array]) -> list[Array]:
    return floats


def _forward(floats: list[Array], inputs: list[Array]) -> tuple[list[Array], None]:
    return floats, None


def _backward(_: None, gradients: list[Array]) -> tuple[list[Array], list[Array]]:
    raise TypeError(
        "a search has no gradient: its actions are discrete. Apply jax.lax.stop_gradient to its output, and take the "
        "gradient of a loss in which action_weights and values are targets"
    )


_no_gradient.defvjp(_forward, _backward)
