"""What a search with kernels keeps between two evaluations of the model, and what its way down reads."""

from typing import NamedTuple

from jaxtyping import Array, Int

from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.rules import BoundRule
from emcts.search.tree import Tree
from emcts.types import Replaceable, record


@record
class NextEdges:
    """The edge that the interior rule selects next at each node: its entry of `children_index`, and where it leads.

    `child` is the node to go on at, `Tree.UNVISITED`, or `ended` of a node to evaluate again.
    """

    entry: Int[Array, "B N"]
    child: Int[Array, "B N"]


@record
class Path:
    """The nodes of a simulation from the root to its leaf, and how many edges lie between."""

    nodes: Int[Array, "B N"]
    length: Int[Array, "B"]


@record
class Work(Replaceable):
    """What a search with kernels keeps between two evaluations of the model.

    `tree` has no embeddings. `embeddings` are those of all nodes, one row of numbers each, and `embedding` are the rows
    of the leaf's parent.
    """

    tree: Tree[object]
    next_edges: NextEdges
    path: Path
    leaf: LeafEdge
    embeddings: tuple[Array, ...]  # [B, N, E] each
    embedding: tuple[Array, ...]  # [B, E] each


class Descent(NamedTuple):
    """What the way down reads: the rules, how deep it may go, and the first node that the search adds."""

    root: BoundRule
    interior: BoundRule
    first: Int[Array, "B"]
