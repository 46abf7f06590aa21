"""Programs written for mctx: its records, custom transforms and selection functions, and the same names."""

import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import emcts
from tests.search.random_model import RandomModel

BATCH, ACTIONS, SIMULATIONS = 3, 4, 16


def test_every_public_name_is_there() -> None:
    assert set(mctx.__all__) <= set(emcts.__all__)
    for name in emcts.__all__:
        assert hasattr(emcts, name)


@pytest.mark.parametrize("name", [name for name in mctx.__all__ if inspect.isfunction(getattr(mctx, name))])
def test_signatures_extend_mctx(name: str) -> None:
    theirs = inspect.signature(getattr(mctx, name)).parameters
    ours = inspect.signature(getattr(emcts, name)).parameters
    for parameter, theirs_is in theirs.items():
        assert ours[parameter].kind == theirs_is.kind, parameter
        if isinstance(theirs_is.default, int | float | bool | type(None)):
            assert ours[parameter].default == theirs_is.default, parameter
    positional = [p for p in theirs if theirs[p].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert list(ours)[: len(positional)] == positional
    for parameter in set(ours) - set(theirs):
        assert ours[parameter].default is not inspect.Parameter.empty, "a program for mctx would not pass it"


def run(library: Any, policy: str, records: Any, **options: Any) -> Any:
    model = RandomModel.make(50, ACTIONS)
    root, recurrent_fn = model.root(records, BATCH), model.recurrent_fn(records)
    search = functools.partial(getattr(library, policy), None)
    return jax.jit(lambda key: search(key, root, recurrent_fn, SIMULATIONS, **options))(jax.random.key(3))


def test_mctx_records_work() -> None:
    theirs, ours = run(mctx, "gumbel_muzero_policy", mctx), run(emcts, "gumbel_muzero_policy", mctx)
    np.testing.assert_array_equal(theirs.search_tree.children_visits, ours.search_tree.children_visits)


def squashed(tree: Any, node_index: Any) -> Any:
    """A transform of the user's own, written against mctx's tree."""
    qvalues, visits = tree.qvalues(node_index), tree.children_visits[node_index]
    value = tree.node_values[node_index] + 0.1 * tree.raw_values[node_index]
    return jnp.tanh(jnp.where(visits > 0, qvalues, value)) + 0.01 * tree.children_rewards[node_index]


@pytest.mark.parametrize("policy", ["muzero_policy", "gumbel_muzero_policy"])
def test_custom_qtransform(policy: str) -> None:
    theirs, ours = (run(library, policy, library, qtransform=squashed) for library in (mctx, emcts))
    np.testing.assert_array_equal(theirs.search_tree.children_visits, ours.search_tree.children_visits)
    np.testing.assert_array_equal(theirs.action, ours.action)


def noisy_choice(rng_key: Any, tree: Any, node_index: Any, depth: Any) -> Any:
    """A selection function that uses its key, the depth, discounts and parents: it gets what mctx would give."""
    visits = tree.children_visits[node_index]
    score = tree.qvalues(node_index) + tree.children_discounts[node_index] - visits
    score = score + 0.1 * depth + 0.01 * tree.parents[node_index]
    return jnp.argmax(score + jax.random.gumbel(rng_key, visits.shape)).astype(jnp.int32)


def test_custom_selection_functions_get_mctx_keys() -> None:
    model = RandomModel.make(51, ACTIONS)
    trees = [
        jax.jit(
            lambda key, library=library: library.search(
                None,
                key,
                root=model.root(library, BATCH),
                recurrent_fn=model.recurrent_fn(library),
                root_action_selection_fn=functools.partial(noisy_choice, depth=0),
                interior_action_selection_fn=noisy_choice,
                num_simulations=SIMULATIONS,
                max_depth=3,
            )
        )(jax.random.key(5))
        for library in (mctx, emcts)
    ]
    np.testing.assert_array_equal(trees[0].children_visits, trees[1].children_visits)
    np.testing.assert_allclose(trees[0].node_values, trees[1].node_values, rtol=1e-5, atol=1e-6)


def test_custom_functions_read_scores() -> None:
    """A transform that mctx's users wrote must not lose the bonus: it and ours choose alike at any beta."""

    def copy_of_ours(tree: Any, node_index: Any) -> Any:
        return emcts.qtransform_by_parent_and_siblings(tree, node_index)

    model = RandomModel.make(52, ACTIONS)
    root, recurrent_fn = model.root(emcts, BATCH, variance=True), model.recurrent_fn(emcts, variance=True)
    beta = jnp.array([2.0, 0.0, -1.0])
    visits = [
        jax.jit(
            lambda key, options=options: (
                emcts.muzero_policy(
                    None, key, root, recurrent_fn, SIMULATIONS, beta=beta, dirichlet_fraction=0.0, **options
                ).search_tree.children_visits
            )
        )(jax.random.key(1))
        for options in ({}, {"qtransform": copy_of_ours})
    ]
    np.testing.assert_array_equal(*visits)


def test_loop_fn_is_used() -> None:
    calls = []

    def loop_fn(lower: int, upper: int, body: Any, state: Any) -> Any:
        calls.append((lower, upper))
        return jax.lax.fori_loop(lower, upper, body, state)

    jax.eval_shape(lambda: run(emcts, "gumbel_muzero_policy", emcts, loop_fn=loop_fn))
    assert calls == [(0, SIMULATIONS)]


def test_a_model_that_draws_gets_mctx_keys() -> None:
    def recurrent_fn_of(library: Any) -> Any:
        def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
            noise = jax.random.normal(key, (3, BATCH))
            logits = jax.random.normal(jax.random.fold_in(key, 1), (BATCH, ACTIONS))
            fields = {
                "reward": noise[0],
                "discount": 0.9 + 0 * noise[1],
                "prior_logits": logits,
                "value": noise[2],
            }
            return library.RecurrentFnOutput(**fields), state

        return recurrent_fn

    model = RandomModel.make(53, ACTIONS)
    outs = [
        jax.jit(
            lambda key, library=library: library.gumbel_muzero_policy(
                None, key, model.root(library, BATCH), recurrent_fn_of(library), SIMULATIONS
            )
        )(jax.random.key(9))
        for library in (mctx, emcts)
    ]
    np.testing.assert_array_equal(outs[0].search_tree.children_visits, outs[1].search_tree.children_visits)
    np.testing.assert_array_equal(outs[0].action, outs[1].action)


def test_transforms_of_a_node_that_was_only_evaluated_again() -> None:
    """At the depth limit a node is visited often and has no children: its values are its own estimate's."""
    model = RandomModel.make(54, 2)
    trees = []
    for library in (mctx, emcts):
        run = functools.partial(library.gumbel_muzero_policy, None)
        root, recurrent_fn = model.root(library, 2), model.recurrent_fn(library)
        search = jax.jit(
            lambda key, run=run, root=root, fn=recurrent_fn: run(key, root, fn, 12, None, 1).search_tree
        )
        trees.append((library, search(jax.random.key(2))))
    leaf = int(trees[1][1].children_index[0, 0, 0])
    assert int(trees[1][1].node_visits[0, leaf]) > 1
    values = [
        library.qtransform_completed_by_mix_value(
            jax.tree.map(lambda x: x[0], tree), leaf, rescale_values=False
        )
        for library, tree in trees
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)
    assert np.any(np.asarray(values[0]) != 0)
