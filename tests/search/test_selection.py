"""Selection functions as rules over one node's statistics, which both backends run."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import emcts
from emcts.search.qtransforms import ByMinMax, ByParentAndSiblings, CompletedByMixValue, Unchanged
from emcts.search.selection import GumbelInteriorRule, GumbelRootRule, PuctRule, UctRule, node_rule
from tests.search.random_model import RandomModel

MIN_MAX = functools.partial(emcts.qtransform_by_min_max, min_value=-1.0, max_value=2.0)


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (emcts.muzero_action_selection, PuctRule(qtransform=ByParentAndSiblings())),
        (functools.partial(emcts.uct_action_selection, c=0.5, depth=0), UctRule(0.5, Unchanged())),
        (
            functools.partial(functools.partial(emcts.muzero_action_selection, pb_c_init=2.0), pb_c_init=3.0),
            PuctRule(3.0, qtransform=ByParentAndSiblings()),
        ),
        (
            functools.partial(emcts.muzero_action_selection, qtransform=MIN_MAX),
            PuctRule(qtransform=ByMinMax(-1.0, 2.0)),
        ),
        (PuctRule(qtransform=MIN_MAX), PuctRule(qtransform=ByMinMax(-1.0, 2.0))),
        (functools.partial(UctRule(2.0), depth=0), UctRule(2.0)),
        (
            functools.partial(
                emcts.gumbel_muzero_root_action_selection, num_simulations=4, max_num_considered_actions=2
            ),
            GumbelRootRule(4, 2, CompletedByMixValue()),
        ),
        (emcts.gumbel_muzero_interior_action_selection, GumbelInteriorRule(CompletedByMixValue())),
    ],
)
def test_functions_under_mctx_names_are_rules(function: Any, rule: Any) -> None:
    assert node_rule(function) == rule


@functools.wraps(emcts.uct_action_selection)
def wrapped(*arguments: Any, **constants: Any) -> Any:
    return emcts.uct_action_selection(*arguments, **constants)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, *arguments: Any) -> Any:
        return emcts.uct_action_selection(*arguments)


@pytest.mark.parametrize(
    "function",
    [
        wrapped,
        Unhashable(),
        functools.partial(emcts.uct_action_selection, jax.random.key(0)),
        functools.partial(emcts.muzero_action_selection, qtransform=lambda tree, node: tree.qvalues(node)),
        PuctRule(qtransform=lambda tree, node: tree.qvalues(node)),
    ],
    ids=["wrapped", "unhashable", "positional", "own q-transform", "rule with own q-transform"],
)
def test_other_functions_are_no_rules(function: Any) -> None:
    assert node_rule(function) is None


def test_a_rule_selects_as_mctx() -> None:
    """A rule selects as the function of mctx does with the same constants."""
    model, rule = RandomModel.make(60, 3), PuctRule(1.5)
    trees = [
        jax.jit(
            lambda key, library=library: library.search(
                None,
                key,
                root=model.root(library, 2),
                recurrent_fn=model.recurrent_fn(library),
                root_action_selection_fn=rule if library is emcts else mctx_rule,
                interior_action_selection_fn=rule if library is emcts else mctx_rule,
                num_simulations=10,
            )
        )(jax.random.key(0))
        for library in (mctx, emcts)
    ]
    np.testing.assert_array_equal(trees[0].children_visits, trees[1].children_visits)


def mctx_rule(rng_key: Any, tree: Any, node_index: Any, depth: Any = 0) -> Any:
    return mctx.muzero_action_selection(rng_key, tree, node_index, depth, pb_c_init=1.5)


def test_constants_are_leaves_and_switches_are_structure() -> None:
    transform = CompletedByMixValue(rescale_values=False)
    assert jax.tree.leaves(transform) == [0.1, 50.0, 1e-8]
    doubled = jax.tree.map(lambda number: jnp.asarray(2 * number), transform)
    assert not doubled.rescale_values
    assert float(doubled.maxvisit_init) == 100.0
    structures: list[object] = [jax.tree.structure(x) for x in (transform, CompletedByMixValue())]
    assert structures[0] != structures[1]
