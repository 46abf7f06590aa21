"""The expansion and the walk up in one kernel, which updates the statistics in place."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from emcts.search.kernels.lanes import Lanes, warps
from emcts.search.propagation import Propagation
from emcts.search.tree import Tree
from emcts.search.walk import Edge, average
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
        tree = SimpleNamespace(**in_place)
        parent, action, node = lanes.number(edge.parent), lanes.number(edge.action), lanes.number(edge.node)
        reward, discount, value = (
            lanes.number(step.reward),
            lanes.number(step.discount),
            lanes.number(step.value),
        )
        reward_variance, value_variance = (
            lanes.number(step.reward_variance),
            lanes.number(step.value_variance),
        )

        visits = lanes.number(tree.node_visits, node)
        variance = propagation(reward_variance, discount, value_variance)
        qvalue_std = average(lanes.number(tree.edge_qvalue_stds, node), visits, jnp.sqrt(variance))
        nu = reward + discount * value
        std = jnp.sqrt(value_variance)
        lanes.write(tree.node_visits, node, visits + 1)
        lanes.write(tree.raw_values, node, value)
        lanes.write(tree.raw_value_stds, node, std)
        lanes.write(tree.node_values, node, value)
        lanes.write(tree.node_value_stds, node, std)
        lanes.write(tree.edge_rewards, node, reward)
        lanes.write(tree.edge_reward_variances, node, reward_variance)
        lanes.write(tree.edge_discounts, node, discount)
        lanes.write(tree.edge_qvalues, node, nu)
        lanes.write(tree.edge_qvalue_stds, node, qvalue_std)
        lanes.write(tree.parents, node, parent)
        lanes.write(tree.action_from_parent, node, action)
        lanes.write_row(tree.children_prior_logits, node, lanes.row(step.prior_logits))
        plt.store(tree.children_index.at[lanes.batch, parent, action], node)

        def climb(state: Any) -> Any:
            at, nu, variance = state
            visits = lanes.number(tree.node_visits, at)
            value = average(lanes.number(tree.node_values, at), visits, nu)
            value_std = average(lanes.number(tree.node_value_stds, at), visits, jnp.sqrt(variance))
            reward, discount = lanes.number(tree.edge_rewards, at), lanes.number(tree.edge_discounts, at)
            above = propagation(lanes.number(tree.edge_reward_variances, at), discount, variance)
            qvalue_std = average(lanes.number(tree.edge_qvalue_stds, at), visits, jnp.sqrt(above))
            parent = lanes.number(tree.parents, at)
            lanes.write(tree.node_visits, at, visits + 1)
            lanes.write(tree.node_values, at, value)
            lanes.write(tree.node_value_stds, at, value_std)
            lanes.write(tree.edge_qvalues, at, reward + discount * value)
            lanes.write(tree.edge_qvalue_stds, at, qvalue_std)
            return parent, reward + discount * nu, above

        jax.lax.while_loop(lambda state: state[0] != Tree.NO_PARENT, climb, (parent, nu, variance))

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
