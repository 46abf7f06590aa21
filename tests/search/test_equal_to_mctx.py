"""Visit for visit mctx: with no variance at any beta, and with beta 0 at any variance."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import emcts
from tests.search.random_model import RandomModel

POLICIES = ("muzero_policy", "gumbel_muzero_policy")
SIZES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "batch": st.integers(1, 6),
        "actions": st.integers(1, 7),
        "simulations": st.integers(1, 30),
        "max_depth": st.none() | st.integers(1, 6),
        "masked": st.none() | st.floats(0.1, 0.9),
    }
)

# Each example compiles two programs: shrinking one that fails would take longer than reading it.
SETTINGS = settings(max_examples=5, deadline=None, derandomize=True, phases=(Phase.generate,))


def run(
    library: Any, policy: str, model: RandomModel, mask: Any, sizes: dict[str, Any], **options: Any
) -> Any:
    variance = options.pop("variance", False)
    root = model.root(library, sizes["batch"], variance=variance)
    recurrent_fn = model.recurrent_fn(library, variance=variance)
    key = jax.random.key(sizes["seed"])

    def search(key: Any, mask: Any) -> Any:
        arguments = (sizes["simulations"], mask, sizes["max_depth"])
        return getattr(library, policy)(None, key, root, recurrent_fn, *arguments, **options)

    return jax.jit(search)(key, mask)


def make_mask(sizes: dict[str, Any]) -> Any:
    if sizes["masked"] is None:
        return None
    random = np.random.default_rng(sizes["seed"])
    return jnp.asarray(random.random((sizes["batch"], sizes["actions"])) < sizes["masked"], jnp.float32)


def assert_same(theirs: Any, ours: Any) -> None:
    np.testing.assert_array_equal(theirs.action, ours.action)
    np.testing.assert_allclose(theirs.action_weights, ours.action_weights, rtol=1e-4, atol=1e-6)
    a, b = theirs.search_tree, ours.search_tree
    for name in ("node_visits", "parents", "action_from_parent", "children_index", "children_visits"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in ("node_values", "raw_values", "children_values", "children_rewards", "children_discounts"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-5, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(a.children_prior_logits, b.children_prior_logits, rtol=1e-5, atol=1e-5)
    indices = jnp.zeros(a.node_visits.shape[0], jnp.int32)
    np.testing.assert_allclose(a.qvalues(indices), b.qvalues(indices), rtol=1e-5, atol=1e-5)
    for name in ("visit_counts", "visit_probs", "value", "qvalues"):
        np.testing.assert_allclose(
            getattr(a.summary(), name), getattr(b.summary(), name), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(sizes=SIZES)
def test_no_variance_and_any_beta_is_mctx(policy: str, sizes: dict[str, Any]) -> None:
    model, mask = RandomModel.make(sizes["seed"], sizes["actions"]), make_mask(sizes)
    theirs = run(mctx, policy, model, mask, sizes)
    ours = run(emcts, policy, model, mask, sizes, beta=3.0)
    assert_same(theirs, ours)
    np.testing.assert_array_equal(ours.search_tree.summary().qvalues_std, 0)
    np.testing.assert_array_equal(ours.search_tree.summary().value_std, 0)


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(sizes=SIZES)
def test_beta_zero_and_any_variance_is_mctx(policy: str, sizes: dict[str, Any]) -> None:
    model, mask = RandomModel.make(sizes["seed"], sizes["actions"]), make_mask(sizes)
    ours = run(emcts, policy, model, mask, sizes, variance=True)
    assert_same(run(mctx, policy, model, mask, sizes), ours)
    summary = ours.search_tree.summary()
    assert np.all(np.asarray(summary.value_std) > 0)
    assert np.all((np.asarray(summary.qvalues_std) > 0) == (np.asarray(summary.visit_counts) > 0))


@pytest.mark.parametrize("policy", POLICIES)
def test_terminals_change_nothing_above_them(policy: str) -> None:
    """mctx goes on below a discount of 0, emcts does not: roots and all nodes above are the same."""
    sizes = {"seed": 5, "batch": 6, "actions": 3, "simulations": 60, "max_depth": None}
    model = RandomModel.make(5, 3, terminal=0.25)
    theirs, ours = run(mctx, policy, model, None, sizes), run(emcts, policy, model, None, sizes)
    np.testing.assert_array_equal(theirs.action, ours.action)
    np.testing.assert_allclose(
        theirs.search_tree.summary().qvalues, ours.search_tree.summary().qvalues, rtol=1e-5, atol=1e-5
    )
    a, b = theirs.search_tree, ours.search_tree
    below = nodes_below_terminals(a)
    assert below.any(), "the model has no terminal state that mctx goes past: the test would show nothing"
    np.testing.assert_array_equal(np.asarray(a.node_visits)[~below], np.asarray(b.node_visits)[~below])
    assert not np.asarray(b.node_visits)[below].any()


def nodes_below_terminals(tree: Any) -> np.ndarray:
    parents, discounts = np.asarray(tree.parents), np.asarray(tree.children_discounts)
    actions = np.asarray(tree.action_from_parent)
    below = np.zeros(parents.shape, bool)
    terminal = np.zeros(parents.shape, bool)
    for b in range(parents.shape[0]):
        for n in range(1, parents.shape[1]):
            parent = parents[b, n]
            if parent >= 0:
                below[b, n] = below[b, parent] or terminal[b, parent]
                terminal[b, n] = discounts[b, parent, actions[b, n]] == 0
    return below


def test_qtransform_and_constants_reach_the_rule() -> None:
    sizes = {"seed": 8, "batch": 4, "actions": 5, "simulations": 24, "max_depth": None}
    model = RandomModel.make(8, 5)
    normalisations: tuple[tuple[str, dict[str, Any]], ...] = (
        ("qtransform_by_min_max", {"min_value": -4.0, "max_value": 4.0}),
        ("qtransform_by_parent_and_siblings", {"epsilon": 0.5}),
    )
    for name, keywords in normalisations:
        options = {"pb_c_init": 0.6, "pb_c_base": 50.0, "dirichlet_fraction": 0.4, "dirichlet_alpha": 1.0}
        outs = [
            run(
                library,
                "muzero_policy",
                model,
                None,
                sizes,
                qtransform=_bind(library, name, keywords),
                **options,
            )
            for library in (mctx, emcts)
        ]
        assert_same(*outs)
    completions: tuple[dict[str, Any], ...] = (
        {"value_scale": 0.3, "maxvisit_init": 10.0, "epsilon": 0.1},
        {"rescale_values": False},
        {"use_mixed_value": False},
    )
    for keywords in completions:
        name = "qtransform_completed_by_mix_value"
        options = {"max_num_considered_actions": 3, "gumbel_scale": 0.5}
        outs = [
            run(
                library,
                "gumbel_muzero_policy",
                model,
                None,
                sizes,
                qtransform=_bind(library, name, keywords),
                **options,
            )
            for library in (mctx, emcts)
        ]
        assert_same(*outs)


def _bind(library: Any, name: str, keywords: dict[str, Any]) -> Any:
    return functools.partial(getattr(library, name), **keywords)


@pytest.mark.parametrize("max_depth", [None, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_stochastic_muzero_is_mctx(max_depth: int | None, masked: bool) -> None:
    batch, actions, outcomes, simulations = 4, 3, 2, 30
    states, chances = RandomModel.make(20, actions), RandomModel.make(21, outcomes)

    def functions(library: Any) -> Any:
        logits, values = jnp.asarray(states.prior_logits), jnp.asarray(states.value)
        after = jnp.asarray(chances.prior_logits), jnp.asarray(chances.value)
        move, land = jnp.asarray(states.successor), jnp.asarray(chances.successor)
        rewards, discounts = jnp.asarray(chances.reward), jnp.asarray(chances.discount)

        def decide(params: Any, key: Any, action: Any, state: Any) -> Any:
            afterstate = move[state, jnp.clip(action, 0, actions - 1)]
            output = library.DecisionRecurrentFnOutput(
                chance_logits=after[0][afterstate], afterstate_value=after[1][afterstate]
            )
            return output, afterstate

        def chance(params: Any, key: Any, outcome: Any, afterstate: Any) -> Any:
            at = (afterstate, jnp.clip(outcome, 0, outcomes - 1))
            state = land[at]
            output = library.ChanceRecurrentFnOutput(
                action_logits=logits[state], value=values[state], reward=rewards[at], discount=discounts[at]
            )
            return output, state

        return decide, chance

    mask = jnp.asarray([[0, 1, 0]] * batch) if masked else None

    def search(library: Any) -> Any:
        root = states.root(library, batch)
        run = functools.partial(library.stochastic_muzero_policy, None)
        return jax.jit(lambda key: run(key, root, *functions(library), simulations, mask, max_depth))(
            jax.random.key(3)
        )

    assert_same(search(mctx), search(emcts))
