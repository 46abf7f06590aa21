"""Searches that go on in the tree of the last one, against a plain-Python search that keeps its tree."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.search.traversal.backend import PLAIN
from emcts.search.traversal.kernels import INTERPRETED_KERNELS
from tests.search import oracle
from tests.search.random_model import RandomModel
from tests.search.test_oracle import ACTIONS, compare
from tests.search.test_outcomes import gamble

BATCH, SIMULATIONS, MOVES = 5, 24, 4
KEY = jax.random.key(3)
MODEL = RandomModel.make(4, ACTIONS, terminal=0.1)
BETAS = np.array([-1.0, 0.0, 2.0, 0.3, 10.0], np.float32)
POLICIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "puct": (emcts.muzero_policy, {"dirichlet_fraction": 0.0, "temperature": 0.0}),
    "uct": (emcts.uct_policy, {"c": 0.7}),
    "gumbel": (emcts.gumbel_muzero_policy, {}),
}


def root_at(states: Any) -> emcts.RootFnOutput:
    tables = {name: jnp.asarray(getattr(MODEL, name)) for name in ("prior_logits", "value", "value_variance")}
    return emcts.RootFnOutput(
        prior_logits=tables["prior_logits"][states],
        value=tables["value"][states],
        embedding=jnp.asarray(states, jnp.int32),
        value_variance=tables["value_variance"][states],
    )


def searcher(policy: str, backend: Any = PLAIN, **options: Any) -> Any:
    run, constants = POLICIES[policy]
    model = MODEL.recurrent_fn(emcts, variance=True)

    def search(key: Any, states: Any, tree: Any = None) -> Any:
        return run(
            None,
            key,
            root_at(states),
            model,
            SIMULATIONS,
            beta=BETAS,
            tree=tree,
            backend=backend,
            **constants,
            **options,
        )

    return search


def chooser(policy: str, row: int, gumbel: Any, before: list[int]) -> oracle.Choose:
    beta = float(BETAS[row])
    if policy == "gumbel":
        return oracle.epistemic_gumbel(beta, np.asarray(gumbel[row], float), SIMULATIONS, before=before)
    return oracle.euct(beta, c=0.7) if policy == "uct" else oracle.epuct(beta)


def play(policy: str, search: Any, room: int) -> dict[str, int]:
    """Plays moves with both searches, compares their trees, and counts what happened."""
    states = np.arange(BATCH)
    roots: list[oracle.Node | None] = [None] * BATCH
    tree, seen = None, {"continued": 0, "ended": 0, "reset": 0, "cut": 0}
    rng = np.random.default_rng(0)
    for move in range(MOVES):
        out = jax.jit(search)(jax.random.fold_in(KEY, move), states, tree)
        gumbel = getattr(out.search_tree.extra_data, "root_gumbel", None)
        for row in range(BATCH):
            root = roots[row]
            if root is not None:
                seen["continued"] += 1
                seen["cut"] += len(oracle.below(root)) > room
                oracle.keep_oldest(root, room)
            before = [0 if root is None else root.visits(a) for a in range(ACTIONS)]
            choose = chooser(policy, row, gumbel, before)
            grown = oracle.search(MODEL, int(states[row]), choose, SIMULATIONS, root=root)
            compare(out.search_tree, row, grown)
            roots[row] = grown
        action = np.asarray(out.action)
        reset = rng.random(BATCH) < 0.2  # as by a time limit, which the model does not know
        tree = jax.jit(emcts.subtree)(out.search_tree, action, where=~reset)
        for row in range(BATCH):
            edge = roots[row].edges.get(int(action[row]))  # type: ignore[union-attr]
            ended = edge is not None and edge.discount == 0
            seen["ended"] += ended
            seen["reset"] += bool(reset[row])
            fresh = edge is None or ended or reset[row]
            roots[row] = None if fresh or edge is None else edge.child
            assert (np.asarray(tree.node_visits[row]).sum() == 0) == fresh
        states = np.where(reset, rng.integers(200, size=BATCH), MODEL.successor[states, action])
    return seen


@pytest.mark.parametrize("policy", POLICIES)
def test_several_moves_are_those_of_a_search_that_keeps_its_tree(policy: str) -> None:
    seen = play(policy, searcher(policy), room=SIMULATIONS + 1)
    assert seen["continued"] >= 8
    assert seen["reset"] >= 2


def test_terminal_actions_and_small_trees() -> None:
    """With room for few nodes the newest are cut off."""
    seen = [
        play(policy, searcher(policy, max_nodes=SIMULATIONS + 3), room=3) for policy in ("puct", "gumbel")
    ]
    assert sum(one["cut"] for one in seen) >= 8


def test_kernels_continue_the_same_trees() -> None:
    for policy in ("puct", "gumbel"):
        outs = []
        for backend in (PLAIN, INTERPRETED_KERNELS):
            search = jax.jit(searcher(policy, backend))
            states = np.arange(BATCH)
            first = search(KEY, states)
            tree = emcts.subtree(first.search_tree, first.action)
            outs.append(search(KEY, MODEL.successor[states, first.action], tree))
        for one, two in zip(*map(jax.tree.leaves, outs), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_scan_starts_with_an_empty_tree(policy: str) -> None:
    search = searcher(policy, max_nodes=60)
    successor = jnp.asarray(MODEL.successor)
    shapes = jax.eval_shape(search, KEY, jnp.arange(BATCH)).search_tree
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def move(carry: Any, key: Any) -> Any:
        states, tree = carry
        out = search(key, states, tree)
        after = successor[states, out.action]
        return (after, emcts.subtree(out.search_tree, out.action)), (out.action, out.search_tree.node_visits)

    keys = jax.random.split(KEY, MOVES)
    _, (actions, visits) = jax.jit(lambda: jax.lax.scan(move, (jnp.arange(BATCH), empty), keys))()
    states, tree = jnp.arange(BATCH), None
    for key, action, visit in zip(keys, actions, visits, strict=True):
        out = jax.jit(search)(key, states, tree)
        np.testing.assert_array_equal(out.action, action)
        np.testing.assert_array_equal(out.search_tree.node_visits, visit)
        tree = emcts.subtree(out.search_tree, out.action)
        states = successor[states, action]


def test_a_deeper_tree_for_the_same_simulations() -> None:
    search = jax.jit(searcher("puct"))
    states = np.arange(BATCH)
    first = search(KEY, states)
    tree, after = emcts.subtree(first.search_tree, first.action), MODEL.successor[states, first.action]
    more, afresh = search(KEY, after, tree).search_tree, search(KEY, after).search_tree
    kept = np.asarray(tree.node_visits[:, 0])
    assert kept.max() > 3
    fresh = np.where(kept > 0, kept, 1)
    np.testing.assert_array_equal(more.node_visits[:, 0], fresh + SIMULATIONS)
    np.testing.assert_array_equal(afresh.node_visits[:, 0], 1 + SIMULATIONS)


def test_noise_and_the_mask_of_the_new_root_are_used() -> None:
    run, model = emcts.muzero_policy, MODEL.recurrent_fn(emcts, variance=True)
    states = np.arange(BATCH)
    first = run(None, KEY, root_at(states), model, SIMULATIONS)
    tree, after = emcts.subtree(first.search_tree, first.action), MODEL.successor[states, first.action]
    invalid = np.zeros((BATCH, ACTIONS), bool)
    invalid[:, 1] = True
    out = run(None, KEY, root_at(after), model, SIMULATIONS, invalid, tree=tree, dirichlet_fraction=1.0)
    before = np.asarray(tree.children_visits[:, 0, 1])
    np.testing.assert_array_equal(out.search_tree.children_visits[:, 0, 1], before)
    prior = jax.nn.softmax(out.search_tree.children_prior_logits[:, 0])
    assert np.abs(prior - jax.nn.softmax(root_at(after).prior_logits)).max() > 0.05


def test_what_cannot_go_on_is_named() -> None:
    search = searcher("puct")
    out = search(KEY, np.arange(BATCH))
    tree = emcts.subtree(out.search_tree, out.action)
    with pytest.raises(ValueError, match="max_nodes is 24: give at least 25"):
        searcher("puct", max_nodes=SIMULATIONS)(KEY, np.arange(BATCH))
    with pytest.raises(ValueError, match="another batch size"):
        search(KEY, np.arange(BATCH), jax.tree.map(lambda leaf: leaf[:2], tree))
    with pytest.raises(ValueError, match="another kind of embedding"):
        search(KEY, np.arange(BATCH), tree.replace(embeddings=tree.embeddings.astype(jnp.float32)))
    with pytest.raises(TypeError, match="Tree|search_tree"):
        search(KEY, np.arange(BATCH), out)
    with pytest.raises(ValueError, match="action must be integers of shape"):
        emcts.subtree(out.search_tree, out.action[:2])
    with pytest.raises(ValueError, match="where must have shape"):
        emcts.subtree(out.search_tree, out.action, where=np.ones(3, bool))
    root, model = gamble(4)
    sampled = emcts.uct_policy(None, KEY, root, model, 8)
    with pytest.raises(ValueError, match="sampled outcomes"):
        emcts.subtree(sampled.search_tree, sampled.action)
