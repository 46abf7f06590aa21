"""Draws the propagation of uncertainty in a small search tree: the figure of docs/reference/theory.md.

python examples/uncertainty_flow.py docs/reference/uncertainty-flow.png
"""

import sys

import jax
import jax.numpy as jnp
import matplotlib
from jaxtyping import Array, Int
from matplotlib.axes import Axes

import emcts
from emcts.types import Key, Params

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DISCOUNT = 0.9
State = tuple[Int[Array, "B"], Int[Array, "B"]]  # depth and corridor


def corridors(
    params: Params, key: Key, action: Int[Array, "B"], state: State
) -> tuple[emcts.RecurrentFnOutput, State]:
    """Two corridors. The left one (action 0) is known and has small rewards; the right one was never entered."""
    depth, side = state
    side = jnp.where(depth == 0, action, side)
    unknown = side == 1
    zeros = jnp.zeros(action.shape)
    step = emcts.RecurrentFnOutput(
        reward=jnp.where(unknown, 0.0, 0.3 - 0.2 * action),
        discount=jnp.full(action.shape, DISCOUNT),
        prior_logits=jnp.zeros((*action.shape, 2)),
        value=jnp.where(unknown, 0.0, 0.5),
        reward_variance=jnp.where(unknown, 1.0, 0.01),
        value_variance=jnp.where(unknown, 4.0, 0.04) + zeros,
    )
    return step, (depth + 1, side)


def search(beta: float) -> emcts.Tree[State]:
    root = emcts.RootFnOutput(
        prior_logits=jnp.zeros((1, 2)),
        value=jnp.array([0.4]),
        embedding=(jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32)),
        value_variance=jnp.array([0.5]),
    )
    return emcts.uct_policy(None, jax.random.key(0), root, corridors, 7, c=0.6, beta=beta).search_tree


def draw(axis: Axes, tree: emcts.Tree[State], title: str) -> None:
    children = tree.children_index[0]

    def place(node: int, x: float, width: float, depth: int) -> None:
        for action in range(2):
            child = int(children[node, action])
            if child == emcts.Tree.UNVISITED:
                continue
            to = x + (action - 0.5) * width
            visits, q, std = (
                float(field[0, child])
                for field in (tree.node_visits, tree.edge_qvalues, tree.edge_qvalue_stds)
            )
            axis.plot(
                [x, to],
                [-depth, -depth - 1],
                color=plt.cm.viridis(min(std / 2.5, 1.0)),
                lw=1 + 0.8 * visits,
                zorder=1,
            )
            label = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}
            axis.text(
                to,
                -depth - 1.1,
                f"{q:.2f}\n± {std:.2f}",
                ha="center",
                va="top",
                fontsize=8,
                bbox=label,
                zorder=3,
            )
            place(child, to, width / 2, depth + 1)
        axis.scatter([x], [-depth], s=60, color="white", edgecolor="black", zorder=2)

    place(0, 0.0, 4.0, 0)
    summary = tree.summary()
    axis.text(
        0, 0.12, f"{float(summary.value[0]):.2f} ± {float(summary.value_std[0]):.2f}", ha="center", fontsize=9
    )
    axis.set_title(title, fontsize=11)
    axis.axis("off")


def main(file: str) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    for axis, beta in zip(axes, (0.0, 1.0), strict=True):
        draw(axis, search(beta), f"beta = {beta:g}")
    figure.colorbar(
        plt.cm.ScalarMappable(plt.Normalize(0, 2.5), "viridis"),
        ax=axes,
        label="std of the edge's value",
        shrink=0.6,
    )
    figure.savefig(file, dpi=90)


if __name__ == "__main__":
    main(sys.argv[1])
