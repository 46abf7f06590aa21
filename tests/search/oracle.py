"""Algorithm 1 in slow, plain Python: one tree, lists of returns, and means computed from the lists."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Node:
    made = 0

    def __init__(self, state: int, logits: Any, value: float, variance: float, exponent: float = 1.0):
        Node.made += 1
        self.exponent = exponent  # of the power mean of stds
        self.serial = Node.made  # nodes that were made later have larger ones
        self.state = state
        self.logits = [float(x) for x in logits]
        self.raw_value, self.raw_std = value, math.sqrt(variance)
        self.values, self.stds = [value], [math.sqrt(variance)]
        self.edges: dict[int, Edge] = {}

    @property
    def value(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def std(self) -> float:
        return power_mean(self.stds, self.exponent)

    def visits(self, action: int) -> int:
        return len(self.edges[action].returns) if action in self.edges else 0


class Edge:
    def __init__(self, child: Node, reward: float, discount: float, reward_variance: float):
        self.child, self.reward, self.discount, self.reward_variance = (
            child,
            reward,
            discount,
            reward_variance,
        )
        self.drawn = reward
        self.returns: list[float] = []
        self.stds: list[float] = []

    @property
    def qvalue(self) -> float:
        return sum(self.returns) / len(self.returns)

    @property
    def std(self) -> float:
        return power_mean(self.stds, self.child.exponent)

    def score(self, beta: float) -> float:
        return self.qvalue + beta * self.std


def power_mean(numbers: list[float], exponent: float) -> float:
    if math.isinf(exponent):
        return max(numbers)
    return float((sum(x**exponent for x in numbers) / len(numbers)) ** (1 / exponent))


Choose = Callable[[Node, int, int], int]  # node, depth, simulation -> action


def search(
    model: Any,
    state: int,
    choose: Choose,
    simulations: int,
    *,
    correlated: bool = False,
    max_depth: int | None = None,
    draws: Any = None,
    root: Node | None = None,
    exponent: float = 1.0,
) -> Node:
    """`draws` has for each simulation the noise added to the reward of the edge it ends on, if that is terminal.

    With `root` the search goes on below a node of an earlier one.
    """
    root = root or Node(
        state,
        model.prior_logits[state],
        float(model.value[state]),
        float(model.value_variance[state]),
        exponent,
    )
    for simulation in range(simulations):
        path: list[tuple[Node, Edge]] = []
        node, depth = root, 0
        while True:
            action = choose(node, depth, simulation)
            depth += 1
            new = action not in node.edges
            if new:
                node.edges[action] = _expand(model, node, action)
            edge = node.edges[action]
            path.append((node, edge))
            node = edge.child
            if new or edge.discount == 0 or depth == (max_depth or math.inf):
                break
        leaf = path[-1][1].child
        if not new:  # evaluated once more, with the same result
            leaf.values.append(leaf.raw_value)
            leaf.stds.append(leaf.raw_std)
        nu, std = leaf.raw_value, leaf.raw_std
        if draws is not None and edge.discount == 0:
            edge.drawn = edge.reward + float(draws[simulation])
        for parent, edge in reversed(path):
            nu = edge.drawn + edge.discount * nu
            if correlated:
                std = math.sqrt(edge.reward_variance) + abs(edge.discount) * std
            else:
                std = math.sqrt(edge.reward_variance + edge.discount**2 * std**2)
            edge.returns.append(nu)
            edge.stds.append(std)
            parent.values.append(nu)
            parent.stds.append(std)
    return root


def below(root: Node) -> list[Node]:
    """A node and all below it, the oldest first."""
    found, at = [root], 0
    while at < len(found):
        found.extend(edge.child for edge in found[at].edges.values())
        at += 1
    return sorted(found, key=lambda node: node.serial)


def keep_oldest(root: Node, most: int) -> None:
    """Cuts off the newest nodes: their edges are unvisited again."""
    kept = {node.serial for node in below(root)[:most]}
    for node in below(root):
        node.edges = {a: edge for a, edge in node.edges.items() if edge.child.serial in kept}


def _expand(model: Any, node: Node, action: int) -> Edge:
    at = (node.state, action)
    successor = int(model.successor[at])
    child = Node(
        successor,
        model.prior_logits[successor],
        float(model.value[successor]),
        float(model.value_variance[successor]),
        node.exponent,
    )
    return Edge(child, float(model.reward[at]), float(model.discount[at]), float(model.reward_variance[at]))


def _softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(x - max(logits)) for x in logits]
    return [w / sum(weights) for w in weights]


def _first_best(scores: list[float]) -> int:
    return max(range(len(scores)), key=lambda a: (scores[a], -a))


def euct(beta: float, c: float) -> Choose:
    def choose(node: Node, depth: int, simulation: int) -> int:
        for action in range(len(node.logits)):
            if action not in node.edges:
                return action
        total = sum(node.visits(a) for a in node.edges)
        bounds = [
            node.edges[a].score(beta) + c * math.sqrt(2 * math.log(total) / node.visits(a))
            for a in range(len(node.logits))
        ]
        return _first_best(bounds)

    return choose


def epuct(beta: float) -> Choose:
    def choose(node: Node, depth: int, simulation: int) -> int:
        own = node.value + beta * node.std
        scores = {a: edge.score(beta) for a, edge in node.edges.items()}
        low, high = min([own, *scores.values()]), max([own, *scores.values()])
        visits = len(node.values)
        constant = 1.25 + math.log((visits + 19652 + 1) / 19652)
        priors = _softmax(node.logits)

        def total(a: int) -> float:
            normalised = (scores.get(a, low) - low) / max(high - low, 1e-8)
            return normalised + math.sqrt(visits) * constant * priors[a] / (1 + node.visits(a))

        return _first_best([total(a) for a in range(len(priors))])

    return choose


def completed_scores(node: Node, beta: float) -> list[float]:
    """Gumbel MuZero's completed q-values, with scores for values, rescaled and scaled as by default."""
    priors = _softmax(node.logits)
    visits = sum(node.visits(a) for a in node.edges)
    mixed = node.raw_value + beta * node.raw_std
    if visits:
        mass = sum(priors[a] for a in node.edges)
        weighted = sum(priors[a] * edge.score(beta) / mass for a, edge in node.edges.items())
        mixed = (mixed + visits * weighted) / (visits + 1)
    completed = [node.edges[a].score(beta) if a in node.edges else mixed for a in range(len(priors))]
    low, high = min(completed), max(completed)
    most = max(node.visits(a) for a in range(len(priors)))
    return [(50 + most) * 0.1 * (q - low) / max(high - low, 1e-8) for q in completed]


def epistemic_gumbel(
    beta: float, gumbel: Any, simulations: int, considered: int = 16, before: Any = None
) -> Choose:
    """`before` has the visits of root actions in earlier searches."""
    phases = halving(min(considered, len(gumbel)), simulations)
    earlier = [0] * len(gumbel) if before is None else before

    def choose(node: Node, depth: int, simulation: int) -> int:
        completed = completed_scores(node, beta)
        if depth == 0:
            scores = [
                g + logit + q if node.visits(a) - earlier[a] == phases[simulation] else -math.inf
                for a, (g, logit, q) in enumerate(zip(gumbel, node.logits, completed, strict=True))
            ]
            return _first_best(scores)
        improved = _softmax([logit + q for logit, q in zip(node.logits, completed, strict=True)])
        total = sum(node.visits(a) for a in node.edges)
        return _first_best([p - node.visits(a) / (1 + total) for a, p in enumerate(improved)])

    return choose


def halving(actions: int, simulations: int) -> list[int]:
    """The number of earlier visits of the action that each simulation selects."""
    counts = np.zeros(actions, int)
    order: list[int] = []
    alive = actions
    rounds = max(1, math.ceil(math.log2(actions)))
    while len(order) < simulations:
        for _ in range(max(1, simulations // (rounds * alive))):
            for action in range(alive):
                order.append(int(counts[action]))
                counts[action] += 1
        alive = max(2, alive // 2) if actions > 1 else 1
    return order[:simulations]
