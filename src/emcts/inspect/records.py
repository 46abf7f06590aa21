"""A search as JSON: its tree, the actions of its root, and what each simulation changed."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from emcts.inspect.growth import Growth
from emcts.search.reading import TreeNode
from emcts.search.tree import Tree
from emcts.types import JSON

DIGITS, GROWTH_DIGITS = 6, 5  # significant ones: of a tree, and of the numbers while it grew
EDGE_FIELDS = {
    "prior": "prior",
    "q": "qvalue",
    "std": "qvalue_std",
    "value": "value",
    "value_std": "value_std",
    "reward": "reward",
    "reward_variance": "reward_variance",
    "discount": "discount",
}
Labels = Callable[[TreeNode], str]  # of the edge that leads to a node, of which the root has none


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much of a search is kept: nodes, those of most visits; and levels of the tree of which the growth is."""

    nodes: int | None = None
    growth_depth: int | None = None


EVERYTHING = Limits()


def search_record(
    tree: Tree[Any],
    batch_index: int,
    growth: Growth | None,
    labels: Labels,
    actions: Sequence[str],
    limits: Limits = EVERYTHING,
) -> dict[str, Any]:
    """Returns one search of a batch. `actions` are the names of those of the root."""
    root = tree.read(batch_index)
    arrays = _Arrays.of(tree, batch_index)
    grown = None if growth is None else _growth_of(growth, tree, arrays, batch_index)
    nodes = sorted((node for _, node in root.walk(_DEEPEST)), key=lambda node: (-node.visits, node.index))
    kept = sorted(nodes[: limits.nodes], key=lambda node: node.index)
    return {
        "beta": number(arrays.beta),
        "simulations": root.visits - 1 if grown is None else len(grown.visits) - 1,
        "total_nodes": len(nodes),
        "nodes": _columns(kept, arrays.parents, labels),
        "root": _root_actions(arrays, actions),
        "growth": None if grown is None else _growth_record(grown, kept, arrays.parents, limits.growth_depth),
    }


@dataclasses.dataclass(frozen=True)
class _Arrays:
    """What is read of one tree beside its nodes, in numpy."""

    beta: float
    node_visits: Int[np.ndarray, "N"]
    parents: Int[np.ndarray, "N"]
    root_children: Int[np.ndarray, "K A"]
    root_logits: Float[np.ndarray, "A"]
    root_invalid: Bool[np.ndarray, "A"]
    summary: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, tree: Tree[Any], batch_index: int) -> "_Arrays":
        def row(array: Any) -> np.ndarray:
            return np.asarray(array[batch_index] if tree.beta.ndim else array)

        summary = tree.summary()
        return cls(
            beta=float(row(tree.beta)),
            node_visits=row(tree.node_visits),
            parents=row(tree.parents),
            root_children=row(tree.children_index)[Tree.ROOT_INDEX].reshape(-1, tree.num_actions),
            root_logits=row(tree.children_prior_logits)[Tree.ROOT_INDEX].astype(np.float64),
            root_invalid=row(tree.root_invalid_actions),
            summary={field.name: row(getattr(summary, field.name)) for field in dataclasses.fields(summary)},
        )


_DEEPEST = 1_000_000


def numbers(
    values: Iterable[float] | Float[np.ndarray, "X"], digits: int = DIGITS
) -> list[float | int | None]:
    """Returns numbers for JSON, of so many significant digits; None stands for what is not finite."""
    return [number(float(value), digits) for value in values]


def number(value: float, digits: int = DIGITS) -> float | int | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _columns(nodes: Sequence[TreeNode], parents: np.ndarray, labels: Labels) -> dict[str, JSON]:
    names: dict[str, int] = {}
    label_ids = [names.setdefault("root" if one.action is None else labels(one), len(names)) for one in nodes]
    several = any(node.outcome is not None for node in nodes)
    return {
        "index": [node.index for node in nodes],
        "parent": [int(parents[node.index]) for node in nodes],
        "action": [-1 if node.action is None else node.action for node in nodes],
        **({"outcome": [-1 if one.outcome is None else one.outcome for one in nodes]} if several else {}),
        "labels": list(names),
        "label": label_ids,
        "visits": [node.visits for node in nodes],
        **{name: numbers(getattr(one, field) for one in nodes) for name, field in EDGE_FIELDS.items()},
    }


def _root_actions(arrays: _Arrays, actions: Sequence[str]) -> dict[str, JSON]:
    """The numbers of `summary()`, one for each action; null where an action was not tried."""
    summary, logits = arrays.summary, arrays.root_logits
    visits = summary["visit_counts"]
    with np.errstate(invalid="ignore"):
        prior = np.exp(logits - logits.max())
        prior /= prior.sum()
    legal = ~arrays.root_invalid & (prior > 0)
    tried = visits > 0
    return {
        "labels": [actions[a] if a < len(actions) else str(a) for a in range(len(visits))],
        "legal": legal.tolist(),
        "prior": numbers(np.where(legal, prior, 0.0)),
        "visits": visits.astype(int).tolist(),
        "q": numbers(np.where(tried, summary["qvalues"], np.nan)),
        "std": numbers(np.where(tried, summary["qvalues_std"], np.nan)),
        "value": number(float(summary["value"])),
        "value_std": number(float(summary["value_std"])),
    }


@dataclasses.dataclass(frozen=True)
class _Grown:
    """One tree of a growth, as numpy arrays, and which nodes each action of the root leads to."""

    visits: Int[np.ndarray, "T N"]
    values: Float[np.ndarray, "T N"]
    stds: Float[np.ndarray, "T N"]
    children: list[Int[np.ndarray, "..."]]


def _growth_of(growth: Growth, tree: Tree[Any], arrays: _Arrays, batch_index: int) -> _Grown:
    batched, final = tree.beta.ndim > 0, arrays.node_visits
    if growth.visits.ndim == 2 + batched and growth.visits.shape[-1:] == final.shape:
        rows = [np.asarray(leaf[batch_index] if batched else leaf) for leaf in jax.tree.leaves(growth)]
        if (rows[0][-1] == final).all():
            return _Grown(
                rows[0], rows[1], rows[2], [column[column >= 0] for column in arrays.root_children.T]
            )
    raise ValueError(
        f"growth of shape {list(growth.visits.shape)} is not that of this tree of {len(final)} nodes: give the one "
        "that was recorded in the same search"
    )


def _growth_record(
    grown: _Grown, kept: Sequence[TreeNode], parents: np.ndarray, most_depth: int | None
) -> dict[str, JSON]:
    """What each simulation changed: nodes on its path, with their numbers after it, and the action of the root."""
    shown = np.zeros(grown.visits.shape[1], bool)
    shown[[node.index for node in kept]] = True
    if most_depth is not None:
        shown &= _depths(parents, grown.visits[-1] > 0) <= most_depth
    times, nodes = np.nonzero((np.diff(grown.visits, axis=0) > 0) & shown)
    counts = np.bincount(times, minlength=len(grown.visits) - 1)
    # A new tree starts with its root alone; one that goes on in an older tree starts with the nodes of that.
    first = np.flatnonzero((grown.visits[0] > 0) & shown)
    return {
        "start": _states(grown, np.zeros_like(first), first),
        "ends": np.cumsum(counts).tolist(),
        **_states(grown, times + 1, nodes),
        "complete": most_depth is None,
        "root": _root_growth(grown),
    }


def _states(
    grown: _Grown, times: Int[np.ndarray, "E"], nodes: Int[np.ndarray, "E"]
) -> dict[str, Sequence[object]]:
    return {
        "nodes": nodes.tolist(),
        "visits": grown.visits[times, nodes].tolist(),
        "q": numbers(grown.values[times, nodes], GROWTH_DIGITS),
        "std": numbers(grown.stds[times, nodes], GROWTH_DIGITS),
    }


def _root_growth(grown: _Grown) -> dict[str, JSON]:
    """The action that each simulation took at the root, and its visits, q and std after it."""
    visits = np.stack([grown.visits[:, one].sum(axis=1) for one in grown.children], axis=1)
    taken = np.argmax(np.diff(visits, axis=0), axis=1)
    at = np.arange(1, len(visits))

    def mean(field: Float[np.ndarray, "T N"]) -> list[float | int | None]:
        parts = [_weighted(grown.visits[:, one], field[:, one]) for one in grown.children]
        return numbers(np.stack(parts, axis=1)[at, taken], GROWTH_DIGITS)

    return {
        "action": taken.tolist(),
        "visits": visits[at, taken].tolist(),
        "q": mean(grown.values),
        "std": mean(grown.stds),
    }


def _weighted(visits: Int[np.ndarray, "T K"], field: Float[np.ndarray, "T K"]) -> Float[np.ndarray, "T"]:
    total = np.maximum(visits.sum(axis=1), 1)
    return (visits * np.where(visits > 0, field, 0)).sum(axis=1) / total


def _depths(parents: np.ndarray, exists: np.ndarray) -> Int[np.ndarray, "N"]:
    depths = np.zeros(len(parents), int)
    for index in np.flatnonzero(exists):
        if parents[index] >= 0:
            depths[index] = depths[parents[index]] + 1
    return depths
