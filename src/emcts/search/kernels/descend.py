"""The walk down in one kernel: the same rules over rows as in plain JAX."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Int

from emcts.search.kernels.lanes import Lanes, warps
from emcts.search.row import Row
from emcts.search.rules import RowRule, Side
from emcts.search.tree import Tree
from emcts.search.walk import Edge


def descend(
    tree: Tree[Any],
    root_rule: RowRule,
    interior_rule: RowRule,
    max_depth: int,
    new_node: Int[Array, "B"],
    *,
    interpret: bool = False,
) -> Edge:
    """As `walk.descend_by_rows`."""
    batch_size, _, num_actions = tree.children_index.shape

    def kernel(
        tree: Any, root_side: Side, side: Side, new_node: Any, parent: Any, action: Any, node: Any
    ) -> None:
        lanes = Lanes(num_actions)
        beta = lanes.number(tree.beta)

        def step(rule: RowRule, side: Side, at: Any, depth: Any) -> tuple[Any, Any, Any]:
            children = jnp.where(lanes.exist, lanes.row(tree.children_index, at), Tree.UNVISITED)
            chosen = rule.choose(_row(lanes, tree, children, at, beta), side, depth)
            child = lanes.pick(children, chosen)
            ended = (child == Tree.UNVISITED) | (
                lanes.pick(lanes.gather(tree.edge_discounts, children), chosen) == 0
            )
            return chosen, child, ~ended & (depth + 1 < max_depth)

        interior_side = _read_side(lanes, side)
        zero = jnp.int32(0)
        chosen, child, walking = step(root_rule, _read_side(lanes, root_side), zero, zero)

        def body(state: Any) -> Any:
            _, _, at, depth, _ = state
            chosen, child, walking = step(interior_rule, interior_side, at, depth)
            return at, chosen, child, depth + 1, walking

        start = (zero, chosen, child, jnp.int32(1), walking)
        last, chosen, child, _, _ = jax.lax.while_loop(lambda state: state[4], body, start)
        lanes.write_own(parent, last)
        lanes.write_own(action, chosen)
        lanes.write_own(node, jnp.where(child == Tree.UNVISITED, lanes.number(new_node), child))

    numbers = jax.ShapeDtypeStruct((batch_size,), jnp.int32)
    walk = pl.pallas_call(
        kernel,
        out_shape=(numbers, numbers, numbers),
        grid=(batch_size,),
        compiler_params=plt.CompilerParams(num_warps=warps(num_actions), num_stages=1),
        interpret=interpret,
        name="emcts_descend",
    )
    return Edge(*walk(tree, _loadable(root_rule.side), _loadable(interior_rule.side), new_node))


def _row(lanes: Lanes, tree: Any, children: Any, at: Any, beta: Any) -> Row:
    def score(value: Any, std: Any) -> Any:
        return value + beta * std

    return Row(
        visits=lanes.gather(tree.node_visits, children).astype(jnp.float32),
        prior_logits=lanes.row(tree.children_prior_logits, at),
        qvalues=score(
            lanes.gather(tree.edge_qvalues, children), lanes.gather(tree.edge_qvalue_stds, children)
        ),
        node_visits=lanes.number(tree.node_visits, at),
        node_value=score(lanes.number(tree.node_values, at), lanes.number(tree.node_value_stds, at)),
        raw_value=score(lanes.number(tree.raw_values, at), lanes.number(tree.raw_value_stds, at)),
        lanes=lanes.exist,
    )


def _loadable(side: Side) -> Side:
    """Triton loads no booleans."""
    return side._replace(invalid=side.invalid.astype(jnp.int32))


def _read_side(lanes: Lanes, side: Side) -> Side:
    def read(ref: Any) -> Any:
        return lanes.number(ref) if ref.ndim == 1 else lanes.row(ref)

    read_side = jax.tree.map(read, side)
    return read_side._replace(invalid=read_side.invalid != 0)
