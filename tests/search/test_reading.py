"""Trees as records, text and HTML."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.search.reading import TreeNode
from tests.search.random_model import RandomModel
from tests.search.test_outcomes import search as search_gamble

KEY = jax.random.key(0)
SIMULATIONS, BATCH, ACTIONS = 40, 3, 4
MODEL = RandomModel.make(0, ACTIONS, terminal=0.1)
POLICIES: dict[str, Any] = {
    "puct": emcts.muzero_policy,
    "gumbel": emcts.gumbel_muzero_policy,
    "uct": emcts.uct_policy,
}


def tree_of(policy: str = "puct", **options: Any) -> Any:
    root, model = MODEL.root(emcts, BATCH, variance=True), MODEL.recurrent_fn(emcts, variance=True)
    invalid = jnp.zeros((BATCH, ACTIONS)).at[1, 2].set(1)
    run = POLICIES[policy]
    return run(None, KEY, root, model, SIMULATIONS, invalid_actions=invalid, beta=0.5, **options).search_tree


def nodes(root: TreeNode) -> dict[int, TreeNode]:
    return {node.index: node for _, node in root.walk(1000)}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("row", [0, 1])
def test_records_have_the_numbers_of_the_arrays(policy: str, row: int) -> None:
    tree = tree_of(policy)
    root = tree.read(row)
    found, visits = nodes(root), np.asarray(tree.node_visits)[row]
    assert sorted(found) == np.flatnonzero(visits).tolist()
    qvalues, stds, summary = tree.qvalues(0)[row], tree.qvalues_std(0)[row], tree.summary()
    for child in root.children:
        assert child.visits == summary.visit_counts[row, child.action]
        assert child.qvalue == pytest.approx(float(qvalues[child.action]))
        assert child.score == pytest.approx(float(qvalues[child.action] + 0.5 * stds[child.action]), rel=1e-5)
        assert child.prior == pytest.approx(
            float(jax.nn.softmax(tree.children_prior_logits[row, 0])[child.action])
        )
    for node in found.values():
        counts = [child.visits for child in node.children]
        assert counts == sorted(counts, reverse=True)
    legal = ACTIONS - (row == 1)
    assert root.num_unvisited == legal - len(root.children)
    assert root.value == pytest.approx(float(summary.value[row]))
    assert root.value_std == pytest.approx(float(summary.value_std[row]))


def test_text_has_a_line_for_each_edge_down_to_a_depth() -> None:
    tree = tree_of()
    root, names = tree.read(1), ["north", "east", "south", "west"]
    lines = tree.to_text(1, depth=2, actions=names).splitlines()
    shallow = [node for level, node in root.walk(2) if level > 0]
    assert len(lines) == len(shallow) + 3
    assert f"{root.visits} visits, beta 0.5" in lines[0]
    for line, node in zip(lines[2:-1], shallow, strict=True):
        label, visits = line.split()[:2]
        assert (label, int(visits)) == (names[node.action or 0], node.visits)
    path = [names[node.action or 0] for node in root.principal_variation()]
    assert lines[-1] == f"principal variation: {' '.join(path)}"
    best = int(np.argmax(tree.summary().visit_counts[1]))
    assert path[0] == names[best]


def test_sampled_outcomes_are_lines_of_their_own() -> None:
    tree = search_gamble(4, 0)
    labels = {child.label() for child in tree.read().children if child.action == 1}
    assert len(labels) == 2
    assert all(label.startswith("1/") for label in labels)


def test_a_search_of_none_and_one_tree_alone() -> None:
    tree = tree_of()
    alone = jax.tree.map(lambda leaf: leaf[2], tree)
    assert alone.to_text() == tree.to_text(2)
    fresh = tree.replace(
        children_index=jnp.full_like(tree.children_index, -1),
        node_visits=tree.node_visits.at[:, 1:].set(0),
    )
    assert fresh.to_text().endswith("principal variation: none")


def test_a_notebook_gets_tables_that_open() -> None:
    tree = tree_of()
    text = tree._repr_html_()
    assert text.count("<details>") == text.count("</details>") > 0
    assert text.count("<table") == text.count("</table>")
    shown = [node for level, node in tree.read(0).walk(3) if level > 0]
    assert len(re.findall(r"± ", text)) == len(shown) + 1
    assert "<script" not in text


def test_what_cannot_be_read_is_named() -> None:
    tree = tree_of()
    with pytest.raises(ValueError, match="batch_index is 3: give 0 to 2"):
        tree.to_text(3)
    with pytest.raises(ValueError, match="inside of jit"):
        jax.jit(lambda tree: len(tree.to_text()))(tree)
    with pytest.raises(ValueError, match="batch axes"):
        jax.tree.map(lambda leaf: leaf[None], tree).to_text()
