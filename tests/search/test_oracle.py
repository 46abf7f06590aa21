"""Every rule, beta and propagation against a plain-Python Algorithm 1, at every node of the tree."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

import emcts
from emcts.search.tree import Tree
from tests.search import oracle
from tests.search.random_model import RandomModel, search

BATCH, ACTIONS, SIMULATIONS = 5, 4, 40
PROPAGATIONS = {"independent": emcts.independent, "correlated": emcts.correlated}


def compare(tree: Tree, element: int, root: oracle.Node) -> int:
    """Asserts that one tree of a batch equals the oracle's, and counts the nodes."""
    visits, children = np.asarray(tree.node_visits[element]), np.asarray(tree.children_index[element])
    pairs = [(0, root)]
    for index, node in pairs:
        assert visits[index] == len(node.values)
        np.testing.assert_allclose(tree.node_values[element, index], node.value, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(tree.node_value_stds[element, index], node.std, rtol=2e-5, atol=2e-5)
        assert {a for a in range(ACTIONS) if children[index, a] != Tree.UNVISITED} == set(node.edges)
        for action, edge in node.edges.items():
            child = children[index, action]
            assert visits[child] == len(edge.returns)
            np.testing.assert_allclose(tree.edge_qvalues[element, child], edge.qvalue, rtol=2e-5, atol=2e-5)
            np.testing.assert_allclose(tree.edge_qvalue_stds[element, child], edge.std, rtol=2e-5, atol=2e-5)
            pairs.append((child, edge.child))
    return len(pairs)


@pytest.mark.parametrize(
    ("propagation", "max_depth"), [("independent", None), ("correlated", None), ("independent", 2)]
)
def test_euct(propagation: str, max_depth: int | None) -> None:
    model = RandomModel.make(1, ACTIONS, terminal=0.1)
    betas = np.array([-1.0, 0.0, 2.0, 0.5, 10.0], np.float32)
    out = search(
        model,
        emcts.uct_policy,
        BATCH,
        SIMULATIONS,
        None,
        max_depth,
        beta=betas,
        c=0.7,
        propagation=PROPAGATIONS[propagation],
    )
    for b, beta in enumerate(betas):
        choose = oracle.euct(float(beta), c=0.7)
        correlated = propagation == "correlated"
        root = oracle.search(model, b, choose, SIMULATIONS, correlated=correlated, max_depth=max_depth)
        assert compare(out.search_tree, b, root) > ACTIONS
        visits = [root.visits(a) for a in range(ACTIONS)]
        assert visits[int(out.action[b])] == max(visits)


@pytest.mark.parametrize(
    ("propagation", "max_depth"), [("independent", None), ("correlated", None), ("independent", 3)]
)
def test_epuct(propagation: str, max_depth: int | None) -> None:
    model = RandomModel.make(2, ACTIONS, terminal=0.1)
    betas = np.array([-1.0, 0.0, 2.0, 0.3, -4.0], np.float32)
    out = search(
        model,
        emcts.muzero_policy,
        BATCH,
        SIMULATIONS,
        None,
        max_depth,
        beta=betas,
        dirichlet_fraction=0.0,
        propagation=PROPAGATIONS[propagation],
    )
    for b, beta in enumerate(betas):
        correlated = propagation == "correlated"
        root = oracle.search(
            model, b, oracle.epuct(float(beta)), SIMULATIONS, correlated=correlated, max_depth=max_depth
        )
        assert compare(out.search_tree, b, root) > ACTIONS


@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_epistemic_gumbel(propagation: str) -> None:
    model = RandomModel.make(3, ACTIONS, terminal=0.1)
    betas = np.array([-1.0, 0.0, 2.0, 0.3, -4.0], np.float32)
    out = search(
        model,
        emcts.gumbel_muzero_policy,
        BATCH,
        SIMULATIONS,
        beta=betas,
        propagation=PROPAGATIONS[propagation],
    )
    gumbels = np.asarray(out.search_tree.extra_data.root_gumbel, float)
    for b, beta in enumerate(betas):
        choose = oracle.epistemic_gumbel(float(beta), gumbels[b], SIMULATIONS)
        root = oracle.search(model, b, choose, SIMULATIONS, correlated=propagation == "correlated")
        assert compare(out.search_tree, b, root) > ACTIONS
        completed = np.array(oracle.completed_scores(root, float(beta)))
        most = max(root.visits(a) for a in range(ACTIONS))
        finalists = [a for a in range(ACTIONS) if root.visits(a) == most]
        assert int(out.action[b]) == max(
            finalists, key=lambda a: gumbels[b][a] + root.logits[a] + completed[a]
        )
        weights = jax.nn.softmax(np.array(root.logits) + completed)
        np.testing.assert_allclose(out.action_weights[b], weights, rtol=1e-4, atol=1e-5)


def test_beta_moves_the_search() -> None:
    """The oracle comparisons would pass if beta did nothing to these trees: it must do something."""
    model = RandomModel.make(6, ACTIONS)
    static: dict[Any, dict[str, Any]] = {
        emcts.uct_policy: {"c": 0.7},
        emcts.muzero_policy: {"dirichlet_fraction": 0.0},
        emcts.gumbel_muzero_policy: {},
    }
    for policy, options in static.items():
        betas = np.array([0.0, 3.0, -3.0, 0.0, 0.0], np.float32)
        same_roots = dataclasses.replace(
            model, **{name: table_of_one_root(model, name) for name in ROOT_TABLES}
        )
        options |= {"propagation": emcts.independent}  # a program of the tests above
        out = search(same_roots, policy, BATCH, SIMULATIONS, beta=betas, **options)
        visits = np.asarray(out.search_tree.children_visits)
        if (
            policy is emcts.gumbel_muzero_policy
        ):  # the noise differs between rows: compare the targets instead
            visits = np.asarray(out.action_weights)
        assert not np.allclose(visits[0], visits[1])
        assert not np.allclose(visits[0], visits[2])


ROOT_TABLES = [field.name for field in dataclasses.fields(RandomModel)]


def table_of_one_root(model: RandomModel, name: str) -> np.ndarray:
    """The table with the first three states alike."""
    table = getattr(model, name).copy()
    table[1:3] = table[0]
    return table
