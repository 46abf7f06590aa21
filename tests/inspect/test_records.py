"""A search as JSON: the numbers of the tree and of its summary."""

import json
from typing import Any

import numpy as np
import pytest

from emcts.inspect.records import EVERYTHING, Limits, number, numbers, search_record
from tests.inspect.test_growth import ACTIONS, recorded
from tests.search.test_outcomes import search as search_gamble

NAMES = ["north", "east", "south"]


def record_of(row: int, limits: Limits = EVERYTHING) -> tuple[Any, Any]:
    tree, growth = recorded("puct")
    return tree, search_record(tree, row, growth, lambda node: node.label(NAMES), NAMES, limits)


@pytest.mark.parametrize("row", [0, 1])
def test_root_actions_have_the_numbers_of_the_summary(row: int) -> None:
    tree, record = record_of(row)
    summary, root = tree.summary(), record["root"]
    assert root["labels"] == NAMES
    assert root["visits"] == summary.visit_counts[row].tolist()
    assert root["value"] == pytest.approx(float(summary.value[row]), rel=1e-5)
    for action in range(ACTIONS):
        if root["visits"][action]:
            assert root["q"][action] == pytest.approx(float(summary.qvalues[row, action]), rel=1e-5)
            assert root["std"][action] == pytest.approx(float(summary.qvalues_std[row, action]), rel=1e-5)


def test_nodes_have_the_numbers_of_the_arrays() -> None:
    tree, record = record_of(0)
    nodes, index = record["nodes"], record["nodes"]["index"]
    assert index == np.flatnonzero(tree.node_visits[0]).tolist()
    assert record["total_nodes"] == len(index)
    assert nodes["visits"] == tree.node_visits[0][np.array(index)].tolist()
    for name, field in (
        ("reward", tree.edge_rewards),
        ("reward_variance", tree.edge_reward_variances),
        ("discount", tree.edge_discounts),
        ("value_std", tree.node_value_stds),
    ):
        np.testing.assert_allclose(nodes[name][1:], field[0][np.array(index[1:])], rtol=1e-5)
    labels = [nodes["labels"][one] for one in nodes["label"]]
    assert labels == ["root", *(NAMES[action] for action in nodes["action"][1:])]


def test_limits_keep_the_most_visited_nodes_with_all_above_them() -> None:
    _, whole = record_of(0)
    _, record = record_of(0, Limits(nodes=7, growth_depth=1))
    nodes, index = record["nodes"], record["nodes"]["index"]
    assert len(index) == 7
    assert record["total_nodes"] == whole["total_nodes"]
    assert all(parent in index for parent in nodes["parent"][1:])
    fewest = min(nodes["visits"])
    left_out = [
        v for i, v in zip(whole["nodes"]["index"], whole["nodes"]["visits"], strict=True) if i not in index
    ]
    assert max(left_out) <= fewest
    depth_1 = {0, *(i for i, parent in zip(index, nodes["parent"], strict=True) if parent == 0)}
    assert set(record["growth"]["nodes"]) <= depth_1
    assert not record["growth"]["complete"]
    assert record["growth"]["root"] == whole["growth"]["root"]


def test_outcomes_of_an_action_are_nodes_of_their_own_and_one_action() -> None:
    tree = search_gamble(4, 0)
    record: Any = search_record(tree, 0, None, lambda node: node.label(), [])
    assert (
        len(
            [
                a
                for a, p in zip(record["nodes"]["action"], record["nodes"]["parent"], strict=True)
                if (a, p) == (1, 0)
            ]
        )
        == 2
    )
    assert record["root"]["visits"] == tree.summary().visit_counts[0].tolist()
    assert record["growth"] is None


def test_numbers_are_json() -> None:
    values = numbers([0.1234567, 3.0, float("nan"), float("-inf"), 1e30])
    assert values == [0.123457, 3, None, None, 1e30]
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert isinstance(number(2.0), int)
