"""Trees to read: one tree of a batch as nested records of Python numbers, as text, and as HTML."""

import dataclasses
import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    from emcts.search.tree import Tree

COLUMNS = ("visits", "prior", "q", "std", "score", "reward", "discount")
MOST_CHILDREN = 16
STYLE = (
    "border-collapse:collapse;font-family:ui-monospace,monospace;font-size:90%;"
    "font-variant-numeric:tabular-nums"
)
CELL_STYLE = "text-align:right;padding:0 .5em"


@dataclasses.dataclass(frozen=True)
class TreeNode:
    """A node, the edge that leads to it, and what is below. `score` is `q + beta * std`.

    The root has no edge: its `qvalue` and `qvalue_std` are its value and std, and its prior is 1.
    """

    index: int
    action: int | None
    outcome: int | None  # which of the sampled outcomes of the action; None if there is one
    visits: int
    prior: float
    value: float
    value_std: float
    qvalue: float
    qvalue_std: float
    score: float
    reward: float
    reward_variance: float
    discount: float
    children: tuple["TreeNode", ...]  # the best first: most visits, then the highest score
    num_unvisited: int  # legal actions below this node that were not visited

    def label(self, actions: Sequence[str] | None = None) -> str:
        """Returns the action by its name, or its number."""
        if self.action is None:
            return "root"
        name = str(self.action) if actions is None or self.action >= len(actions) else actions[self.action]
        return name if self.outcome is None else f"{name}/{self.outcome}"

    def walk(self, depth: int) -> Iterator[tuple[int, "TreeNode"]]:
        """Yields this node and those below it, with their depths, parents first."""
        stack = [(0, self)]
        while stack:
            level, node = stack.pop()
            yield level, node
            if level < depth:
                stack.extend((level + 1, child) for child in reversed(node.children))

    def principal_variation(self) -> tuple["TreeNode", ...]:
        """Returns the path of the first children, from the child of this node to a leaf."""
        path = [self]
        while path[-1].children:
            path.append(path[-1].children[0])
        return tuple(path[1:])


def read_tree(tree: "Tree[Any]", batch_index: int = 0) -> TreeNode:
    """Returns one tree of a batch as nested records."""
    fields = _numbers(tree, batch_index)
    probabilities = _softmax(fields["children_prior_logits"])
    beta, num_actions = float(fields["beta"]), tree.num_actions

    def children_of(index: int) -> list[tuple[int, int | None, int]]:
        """Actions, outcomes and indices of the nodes below one."""
        entries = fields["children_index"][index]
        found = np.flatnonzero(entries >= 0)
        several = tree.num_outcomes > 1
        return [
            (int(e % num_actions), int(e // num_actions) if several else None, int(entries[e])) for e in found
        ]

    below = {index: children_of(index) for index in map(int, np.flatnonzero(fields["node_visits"]))}
    made: dict[int, TreeNode] = {}

    def make(index: int, action: int | None, outcome: int | None) -> TreeNode:
        is_root = action is None
        value, value_std = float(fields["node_values"][index]), float(fields["node_value_stds"][index])
        q = value if is_root else float(fields["edge_qvalues"][index])
        q_std = value_std if is_root else float(fields["edge_qvalue_stds"][index])
        parent = int(fields["parents"][index])
        children = [made[child] for _, _, child in below[index]]
        legal = probabilities[index] > 0
        if is_root:
            legal &= ~fields["root_invalid_actions"]
        visited = {child.action for child in children}
        return TreeNode(
            index=index,
            action=action,
            outcome=outcome,
            visits=int(fields["node_visits"][index]),
            prior=1.0 if is_root else float(probabilities[parent, action]),
            value=value,
            value_std=value_std,
            qvalue=q,
            qvalue_std=q_std,
            score=q if beta == 0 else q + beta * q_std,
            reward=float(fields["edge_rewards"][index]),
            reward_variance=float(fields["edge_reward_variances"][index]),
            discount=float(fields["edge_discounts"][index]),
            children=tuple(sorted(children, key=_best_first)),
            num_unvisited=sum(int(one) not in visited for one in np.flatnonzero(legal)),
        )

    # A child has a higher index than its parent: from the last node to the first, children are made before parents.
    edges = {child: (action, outcome) for row in below.values() for action, outcome, child in row}
    for index in sorted(edges, reverse=True):
        made[index] = make(index, *edges[index])
    return make(0, None, None)


def to_text(root: TreeNode, depth: int, actions: Sequence[str] | None, beta: float) -> str:
    """Returns a line for each node down to a depth, and the principal variation."""
    lines = [_row("action", *COLUMNS)]
    lines += [
        _row("  " * (level - 1) + node.label(actions), *_cells(node))
        for level, node in root.walk(depth)
        if level > 0
    ]
    best = " ".join(node.label(actions) for node in root.principal_variation()) or "none"
    return "\n".join([_head(root, beta), *lines, f"principal variation: {best}"])


def to_html(root: TreeNode, depth: int, actions: Sequence[str] | None, beta: float) -> str:
    """Returns the same as nested tables that open and close, without a script."""
    return (
        f'<div style="{STYLE}">{html.escape(_head(root, beta))}{_html_children(root, depth, actions)}</div>'
    )


def _head(root: TreeNode, beta: float) -> str:
    unvisited = f", {root.num_unvisited} legal actions not visited" if root.num_unvisited else ""
    return f"value {root.value:.4g} ± {root.value_std:.3g}, {root.visits} visits, beta {beta:g}{unvisited}"


def _html_children(node: TreeNode, depth: int, actions: Sequence[str] | None) -> str:
    if not node.children or depth < 1:
        return ""
    heads = "".join(f'<th style="{CELL_STYLE}">{name}</th>' for name in ("action", *COLUMNS))
    rows = []
    for child in node.children[:MOST_CHILDREN]:
        cells = "".join(
            f'<td style="{CELL_STYLE}">{html.escape(cell)}</td>'
            for cell in (child.label(actions), *_cells(child))
        )
        rows.append(f"<tr>{cells}</tr>")
        if below := _html_children(child, depth - 1, actions):
            summary = f"<summary>below {html.escape(child.label(actions))}</summary>"
            rows.append(f'<tr><td colspan="{len(COLUMNS) + 1}"><details>{summary}{below}</details></td></tr>')
    if (more := len(node.children) - MOST_CHILDREN) > 0:
        rows.append(f'<tr><td colspan="{len(COLUMNS) + 1}">{more} more</td></tr>')
    return f'<table style="{STYLE}"><tr>{heads}</tr>{"".join(rows)}</table>'


def _cells(node: TreeNode) -> list[str]:
    q, std, score = f"{node.qvalue:.4g}", f"± {node.qvalue_std:.3g}", f"{node.score:.4g}"
    edge = [f"{node.reward:.4g}", f"{node.discount:.3g}"]
    return [str(node.visits), f"{node.prior:.3f}", q, std, score, *edge]


def _row(label: str, *cells: str) -> str:
    widths = (7, 7, 10, 11, 10, 10, 9)
    return f"{label:<16}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _best_first(node: TreeNode) -> tuple[int, float, int]:
    return -node.visits, -node.score, -1 if node.action is None else node.action


def _numbers(tree: "Tree[Any]", batch_index: int) -> dict[str, np.ndarray]:
    """The arrays of one tree, but for embeddings and extra data."""
    names = [
        field.name for field in dataclasses.fields(tree) if field.name not in ("embeddings", "extra_data")
    ]
    arrays = {name: getattr(tree, name) for name in names}
    if any(isinstance(leaf, jax.core.Tracer) for leaf in arrays.values()):
        raise ValueError(
            "a tree is read as numbers, and inside of jit there are none: return the tree, and read it outside"
        )
    batch = arrays["beta"].shape
    if not batch:
        return {name: np.asarray(array) for name, array in arrays.items()}
    if len(batch) > 1:
        raise ValueError(
            f"a tree with batch axes {batch}: take one of the first with jax.tree.map(lambda x: x[0], tree)"
        )
    if not -batch[0] <= batch_index < batch[0]:
        raise ValueError(f"batch_index is {batch_index}: give 0 to {batch[0] - 1}")
    return {name: np.asarray(array[batch_index]) for name, array in arrays.items()}


def _softmax(logits: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
        return shifted / shifted.sum(axis=-1, keepdims=True)
