"""How a tree grows: recorded by the search itself, and equal to searches of fewer simulations."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.inspect import Growth, Recorder
from emcts.inspect.records import search_record
from emcts.search.traversal.backend import PLAIN
from emcts.search.traversal.kernels import INTERPRETED_KERNELS
from tests.search.random_model import RandomModel

KEY = jax.random.key(0)
SIMULATIONS, BATCH, ACTIONS = 24, 2, 3
MODEL = RandomModel.make(0, ACTIONS, terminal=0.15)
POLICIES: dict[str, Any] = {
    "puct": emcts.muzero_policy,
    "gumbel": emcts.gumbel_muzero_policy,
}


def run(policy: str, simulations: int = SIMULATIONS, **options: Any) -> Any:
    root, model = MODEL.root(emcts, BATCH, variance=True), MODEL.recurrent_fn(emcts, variance=True)
    return POLICIES[policy](None, KEY, root, model, simulations, beta=0.5, **options)


search = functools.cache(run)


def run_recorded(policy: str, **options: Any) -> tuple[Any, Growth]:
    recorder = Recorder()
    return run(policy, loop_fn=recorder, **options).search_tree, recorder.growth


recorded = functools.cache(run_recorded)


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
def test_recording_changes_nothing_and_ends_with_the_tree(policy: str) -> None:
    tree, growth = recorded(policy)
    jax.tree.map(np.testing.assert_array_equal, tree, search(policy).search_tree)
    assert growth.visits.shape == (BATCH, SIMULATIONS + 1, SIMULATIONS + 1)
    np.testing.assert_array_equal(growth.visits[:, -1], tree.node_visits)
    np.testing.assert_array_equal(growth.values[:, -1, 1:], tree.edge_qvalues[:, 1:])
    np.testing.assert_array_equal(growth.stds[:, -1, 0], tree.node_value_stds[:, 0])


def test_kernels_are_recorded_alike() -> None:
    plain, kernels = (
        run_recorded("puct", simulations=6, backend=backend)[1] for backend in (PLAIN, INTERPRETED_KERNELS)
    )
    assert plain.visits[0, -1, 0] == 7
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), plain, kernels)


@pytest.mark.parametrize("simulations", [1, 9])
def test_growth_is_what_shorter_searches_end_with(simulations: int) -> None:
    """UCT and PUCT do not look ahead to the number of simulations, so a shorter search is the start of a longer one."""
    _, growth = recorded("puct")
    short = search("puct", simulations).search_tree
    nodes = slice(0, simulations + 1)
    np.testing.assert_array_equal(growth.visits[:, simulations, nodes], short.node_visits)
    np.testing.assert_allclose(growth.values[:, simulations, 1 : simulations + 1], short.edge_qvalues[:, 1:])
    np.testing.assert_allclose(growth.stds[:, simulations, 0], short.node_value_stds[:, 0])


def test_each_simulation_changes_the_nodes_of_its_path() -> None:
    tree, growth = recorded("gumbel")
    record: Any = search_record(tree, 1, growth, lambda node: node.label(), ["a", "b", "c"])
    grown, parents = (
        record["growth"],
        dict(zip(record["nodes"]["index"], record["nodes"]["parent"], strict=True)),
    )
    start, visits = 0, np.zeros(ACTIONS, int)
    for simulation, end in enumerate(grown["ends"]):
        path = set(grown["nodes"][start:end])
        assert path
        assert 0 in path
        assert all(node == 0 or parents[node] in path for node in path)
        action = grown["root"]["action"][simulation]
        visits[action] += 1
        assert grown["root"]["visits"][simulation] == visits[action]
        start = end
    assert visits.tolist() == record["root"]["visits"]
    last = dict(zip(grown["root"]["action"], grown["root"]["q"], strict=True))
    for action, q in last.items():
        assert q == pytest.approx(record["root"]["q"][action], rel=1e-4)


def test_a_tree_that_goes_on_starts_with_its_older_nodes() -> None:
    first = search("puct")
    kept = emcts.subtree(first.search_tree, first.action)
    tree, growth = run_recorded("puct", tree=kept, max_nodes=2 * SIMULATIONS + 1)
    record: Any = search_record(tree, 0, growth, lambda node: node.label(), [])
    assert record["simulations"] == SIMULATIONS
    assert record["growth"]["start"]["nodes"] == np.flatnonzero(kept.node_visits[0]).tolist()


def test_growth_of_another_search_is_refused() -> None:
    tree, growth = recorded("puct")
    other = search("gumbel").search_tree
    with pytest.raises(ValueError, match="not that of this tree"):
        search_record(other, 0, growth, lambda node: node.label(), [])
    with pytest.raises(ValueError, match="not that of this tree"):
        search_record(tree, 0, jax.tree.map(lambda leaf: leaf[0], growth), lambda node: node.label(), [])


def test_inside_of_jit_the_growth_is_returned() -> None:
    def in_jit(beta: Any) -> Any:
        recorder = Recorder()
        root, model = MODEL.root(emcts, BATCH, variance=True), MODEL.recurrent_fn(emcts, variance=True)
        out = emcts.muzero_policy(None, KEY, root, model, 8, beta=beta, loop_fn=recorder)
        return out.search_tree, recorder.growth

    tree, growth = jax.jit(in_jit)(jnp.float32(0.5))
    np.testing.assert_array_equal(growth.visits[:, -1], tree.node_visits)


def test_a_recorder_that_recorded_nothing_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="loop_fn=recorder"):
        _ = Recorder().growth
