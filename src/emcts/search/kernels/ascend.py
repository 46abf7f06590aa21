"""The expansion and the walk up in one kernel, which updates the statistics in place."""

from typing import Any

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from emcts.search import backup
from emcts.search.kernels.lanes import Lanes, warps
from emcts.search.propagation import Propagation
from emcts.search.tree import Tree
from emcts.search.walk import Edge
from emcts.types import RecurrentFnOutput

WRITTEN = (
    "node_visits",
    "raw_values",
    "raw_value_stds",
    "node_values",
    "node_value_stds",
    "edge_rewards",
    "edge_reward_variances",
    "edge_discounts",
    "edge_qvalues",
    "edge_qvalue_stds",
    "parents",
    "action_from_parent",
    "children_index",
    "children_prior_logits",
)


def ascend(
    tree: Tree[Any], edge: Edge, step: RecurrentFnOutput, propagation: Propagation, *, interpret: bool = False
) -> Tree[Any]:
    """As `walk.ascend`."""
    batch_size, _, num_actions = tree.children_index.shape

    def kernel(edge: Edge, step: RecurrentFnOutput, _: Any, in_place: dict[str, Any]) -> None:
        lanes = Lanes(num_actions)
        parent, action, node = lanes.number(edge.parent), lanes.number(edge.action), lanes.number(edge.node)

        def read(names: tuple[str, ...], at: Any) -> backup.Fields:
            return {name: lanes.number(in_place[name], at) for name in names}

        def write(fields: backup.Fields, at: Any) -> None:
            for name, new in fields.items():
                lanes.write(in_place[name], at, new)

        said = step.replace(prior_logits=None)
        expanded, arriving = backup.expand(
            read(backup.EXPANDED_FROM, node), jax.tree.map(lanes.number, said), propagation
        )
        write({**expanded, "parents": parent, "action_from_parent": action}, node)
        lanes.write_row(in_place["children_prior_logits"], node, lanes.row(step.prior_logits))
        plt.store(in_place["children_index"].at[lanes.batch, parent, action], node)

        def climb(state: tuple[Any, backup.Return]) -> tuple[Any, backup.Return]:
            at, arriving = state
            climbed, arriving = backup.climb(read(backup.CLIMBED_FROM, at), arriving, propagation)
            above = lanes.number(in_place["parents"], at)
            write(climbed, at)
            return above, arriving

        jax.lax.while_loop(lambda state: state[0] != Tree.NO_PARENT, climb, (parent, arriving))

    in_place = {name: getattr(tree, name) for name in WRITTEN}
    first = len(jax.tree.leaves((edge, step)))
    walk = pl.pallas_call(
        kernel,
        out_shape={name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for name, leaf in in_place.items()},
        grid=(batch_size,),
        input_output_aliases={first + i: i for i in range(len(in_place))},
        compiler_params=plt.CompilerParams(num_warps=warps(num_actions), num_stages=1),
        interpret=interpret,
        name="emcts_ascend",
    )
    return tree.replace(**walk(edge, step, in_place))
