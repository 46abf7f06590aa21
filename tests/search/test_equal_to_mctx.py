"""Visit for visit mctx: with no variance at any beta, and with beta 0 at any variance."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import emcts
from tests.search.random_model import RandomModel

POLICIES = ("muzero_policy", "gumbel_muzero_policy")
COUNTED = ("node_visits", "parents", "action_from_parent", "children_index", "children_visits")
COMPUTED = (
    "node_values",
    "raw_values",
    "children_values",
    "children_rewards",
    "children_discounts",
    "children_prior_logits",
)
SUMMARISED = ("visit_counts", "visit_probs", "value", "qvalues")


@dataclasses.dataclass(frozen=True)
class Sizes:
    batch: int
    actions: int
    simulations: int
    max_depth: int | None = None
    masked: float | None = None

    def mask(self, seed: int) -> Any:
        if self.masked is None:
            return None
        random = np.random.default_rng(seed)
        mask = random.random((self.batch, self.actions)) < self.masked
        mask[:, seed % self.actions] &= ~mask.all(axis=1)  # one action at least is valid
        return jnp.asarray(mask, jnp.float32)


@dataclasses.dataclass(frozen=True)
class Found:
    """A policy's output, and statistics of its tree."""

    out: Any
    summary: Any
    arrays: dict[str, Any]


@functools.cache
def compiled(library: Any, policy: str, sizes: Sizes, *, variance: bool = False) -> Callable[..., Found]:
    """One program for all models of a size; in emcts with variances also for all betas."""
    return program(library, policy, sizes, variance=variance)


def program(
    library: Any, policy: str, sizes: Sizes, *, variance: bool = False, **options: Any
) -> Callable[..., Found]:
    @jax.jit
    def search(key: Any, mask: Any, tables: Any, betas: dict[str, Any]) -> Any:
        model = RandomModel(**tables)
        root = model.root(library, sizes.batch, variance=variance)
        recurrent_fn = model.recurrent_fn(library, variance=variance)
        arguments = (sizes.simulations, mask, sizes.max_depth)
        out = getattr(library, policy)(None, key, root, recurrent_fn, *arguments, **betas, **options)
        return out, out.search_tree.summary(), read(out.search_tree)

    def found(model: RandomModel, seed: int, **betas: float) -> Found:
        return Found(*search(jax.random.key(seed), sizes.mask(seed), vars(model), betas))

    return found


def without_variance(model: RandomModel) -> RandomModel:
    nothing = {name: np.zeros_like(getattr(model, name)) for name in ("reward_variance", "value_variance")}
    return dataclasses.replace(model, **nothing)


def read(tree: Any) -> dict[str, Any]:
    """By names that both libraries have; some are derived."""
    roots = jnp.zeros(tree.node_visits.shape[0], jnp.int32)
    return {name: getattr(tree, name) for name in COUNTED + COMPUTED} | {"qvalues": tree.qvalues(roots)}


def assert_same(theirs: Found, ours: Found) -> None:
    np.testing.assert_array_equal(theirs.out.action, ours.out.action)
    np.testing.assert_allclose(theirs.out.action_weights, ours.out.action_weights, rtol=1e-4, atol=1e-6)
    for name, array in theirs.arrays.items():
        if name in COUNTED:
            np.testing.assert_array_equal(array, ours.arrays[name], err_msg=name)
        else:
            np.testing.assert_allclose(array, ours.arrays[name], rtol=1e-5, atol=1e-5, err_msg=name)
    for name in SUMMARISED:
        a, b = getattr(theirs.summary, name), getattr(ours.summary, name)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(batch=6, actions=5, simulations=27),
        Sizes(batch=3, actions=7, simulations=16, max_depth=3, masked=0.6),
        Sizes(batch=5, actions=2, simulations=30, masked=0.3),
        Sizes(batch=1, actions=1, simulations=9, max_depth=1),
    ],
    ids=str,
)
def test_no_variance_or_no_beta_is_mctx(policy: str, sizes: Sizes) -> None:
    mctx_search = compiled(mctx, policy, sizes)
    emcts_search = compiled(emcts, policy, sizes, variance=True)
    for seed in range(8):
        model = RandomModel.make(seed, sizes.actions)
        theirs, ours = mctx_search(model, seed), emcts_search(without_variance(model), seed, beta=3.0)
        assert_same(theirs, ours)
        np.testing.assert_array_equal(ours.summary.qvalues_std, 0)
        np.testing.assert_array_equal(ours.summary.value_std, 0)
        ours = emcts_search(model, seed, beta=0.0)
        assert_same(theirs, ours)
        assert np.all(np.asarray(ours.summary.value_std) > 0)
        tried = np.asarray(ours.summary.visit_counts) > 0
        np.testing.assert_array_equal(np.asarray(ours.summary.qvalues_std) > 0, tried)


@pytest.mark.parametrize("policy", POLICIES)
def test_terminals_change_nothing_above_them(policy: str) -> None:
    """mctx goes on below a discount of 0, emcts does not: roots and all nodes above are the same."""
    sizes = Sizes(batch=6, actions=5, simulations=27)  # a program of the test above
    model = without_variance(RandomModel.make(5, 5, terminal=0.25))
    theirs = compiled(mctx, policy, sizes)(model, 5)
    ours = compiled(emcts, policy, sizes, variance=True)(model, 5, beta=3.0)
    np.testing.assert_array_equal(theirs.out.action, ours.out.action)
    np.testing.assert_allclose(theirs.summary.qvalues, ours.summary.qvalues, rtol=1e-5, atol=1e-5)
    a, b = theirs.out.search_tree, ours.out.search_tree
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


CONSTANTS: dict[str, dict[str, Any]] = {
    "muzero_policy": {"pb_c_init": 0.6, "pb_c_base": 50.0, "dirichlet_fraction": 0.4, "dirichlet_alpha": 1.0},
    "gumbel_muzero_policy": {"max_num_considered_actions": 3, "gumbel_scale": 0.5},
}
MIX = "qtransform_completed_by_mix_value"


@pytest.mark.parametrize(
    ("policy", "transform", "keywords"),
    [
        ("muzero_policy", "qtransform_by_min_max", {"min_value": -4.0, "max_value": 4.0}),
        ("muzero_policy", "qtransform_by_parent_and_siblings", {"epsilon": 0.5}),
        ("gumbel_muzero_policy", MIX, {"value_scale": 0.3, "maxvisit_init": 10.0, "epsilon": 0.1}),
        ("gumbel_muzero_policy", MIX, {"rescale_values": False}),
        ("gumbel_muzero_policy", MIX, {"use_mixed_value": False}),
    ],
)
def test_qtransform_and_constants_reach_the_rule(
    policy: str, transform: str, keywords: dict[str, Any]
) -> None:
    sizes, model = Sizes(batch=4, actions=5, simulations=24), RandomModel.make(8, 5)
    outs = []
    for library in (mctx, emcts):
        bound = functools.partial(getattr(library, transform), **keywords)
        # Without effect, since the model has no variances.
        beta: dict[str, Any] = {"beta": 3.0} if library is emcts else {}
        outs.append(program(library, policy, sizes, qtransform=bound, **CONSTANTS[policy], **beta)(model, 8))
    assert_same(*outs)


@pytest.mark.parametrize(("max_depth", "masked"), [(None, True), (3, False)])
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
        out = run(jax.random.key(3), root, *functions(library), simulations, mask, max_depth)
        return out, out.search_tree.summary(), read(out.search_tree)

    assert_same(*(Found(*jax.jit(functools.partial(search, library))()) for library in (mctx, emcts)))
