"""Numbers that a search cannot use: refused where they are known, shown in the weights of their row where not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.search.traversal.kernels import INTERPRETED_KERNELS

BATCH, ACTIONS, BAD = 3, 4, 1  # BAD is the row with a bad number
KEY = jax.random.key(0)
NAN, INF = float("nan"), float("inf")
POLICIES: dict[str, Any] = {
    "muzero": emcts.muzero_policy,
    "uct": emcts.uct_policy,
    "gumbel": emcts.gumbel_muzero_policy,
}


def model(params: Any, key: Any, action: Any, state: Any) -> Any:
    """A chain with one number for each row: `params` by the name of a field, added to a good output."""
    base = 0.1 * action.astype(jnp.float32)
    logits = jnp.broadcast_to(jnp.arange(ACTIONS, dtype=jnp.float32) / 10, (BATCH, ACTIONS))
    fields = {
        "reward": base,
        "discount": 0.9 + 0 * base,
        "prior_logits": logits,
        "value": 1 - base,
        "reward_variance": 0.1 + base,
        "value_variance": 0.2 + base,
    }
    added = {name: value + _column(params.get(name, 0.0), value) for name, value in fields.items()}
    return emcts.RecurrentFnOutput(**added), state + 1


def _column(number: Any, like: Any) -> Any:
    row = jnp.zeros(BATCH).at[BAD].set(number)
    return row[:, None] if like.ndim == 2 else row


def run(policy: str, bad: dict[str, Any], *, jit: bool = True, backend: Any = None, **options: Any) -> Any:
    """Searches with numbers added to the fields that are named: `root.value`, `step.reward`, or an option."""

    def searched(bad: dict[str, Any]) -> Any:
        def at_root(name: str, value: Any) -> Any:
            return value + _column(bad.get(f"root.{name}", 0.0), value) if f"root.{name}" in bad else value

        root = emcts.RootFnOutput(
            prior_logits=at_root("prior_logits", jnp.zeros((BATCH, ACTIONS))),
            value=at_root("value", jnp.ones(BATCH)),
            embedding=jnp.zeros(BATCH, jnp.int32),
            value_variance=at_root("value_variance", jnp.full(BATCH, 0.5)),
        )
        params = {name.removeprefix("step."): one for name, one in bad.items() if name.startswith("step.")}
        given = {name: one for name, one in bad.items() if "." not in name}
        if "beta" in given:
            given["beta"] = jnp.ones(BATCH).at[BAD].set(given["beta"])
        chosen = {"beta": 1.0, **options, **given}
        return POLICIES[policy](params, KEY, root, model, 12, backend=backend, **chosen)

    return (jax.jit(searched) if jit else searched)(bad)


ROW_CASES = [
    ("root.prior_logits", NAN),
    ("root.prior_logits", INF),
    ("root.value", NAN),
    ("root.value", -INF),
    ("root.value_variance", NAN),
    ("root.value_variance", INF),
    ("root.value_variance", -3.0),
    ("beta", NAN),
    ("beta", INF),
    ("step.reward", NAN),
    ("step.reward", INF),
    ("step.value", NAN),
    ("step.discount", NAN),
    ("step.prior_logits", NAN),
    ("step.reward_variance", NAN),
    ("step.value_variance", -3.0),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_row_with_a_bad_number_has_no_weights_and_others_are_as_ever(policy: str) -> None:
    program = jax.jit(lambda bad: run(policy, bad, jit=False).action_weights)
    names = sorted({name for name, _ in ROW_CASES})
    good = {name: 1.0 if name == "beta" else 0.0 for name in names}
    wanted = np.asarray(program(good))
    assert np.all(np.isfinite(wanted))
    for name, number in ROW_CASES:
        found = np.asarray(program({**good, name: number}))
        assert np.all(np.isnan(found[BAD])), (name, number)
        rest = [row for row in range(BATCH) if row != BAD]
        np.testing.assert_array_equal(found[rest], wanted[rest], err_msg=name)


@pytest.mark.parametrize("backend", [emcts.plain_backend, INTERPRETED_KERNELS])
@pytest.mark.parametrize("policy", POLICIES)
def test_variances_do_not_matter_without_beta(policy: str, backend: Any) -> None:
    bad = {"root.value_variance": NAN, "step.reward_variance": NAN, "step.value_variance": -3.0}
    found = run(policy, bad, backend=backend, beta=0.0)
    wanted = run(policy, dict.fromkeys(bad, 0.0), backend=backend, beta=0.0)
    np.testing.assert_array_equal(found.action_weights, wanted.action_weights)
    np.testing.assert_array_equal(found.search_tree.node_visits, wanted.search_tree.node_visits)
    np.testing.assert_array_equal(found.search_tree.node_values, wanted.search_tree.node_values)


OPTIONS = [
    ("muzero", "temperature", -1.0),
    ("muzero", "temperature", NAN),
    ("muzero", "dirichlet_alpha", 0.0),
    ("muzero", "dirichlet_fraction", 1.5),
    ("muzero", "pb_c_init", -0.1),
    ("muzero", "pb_c_base", 0.0),
    ("uct", "c", NAN),
    ("uct", "temperature", INF),
    ("gumbel", "gumbel_scale", -1.0),
]


@pytest.mark.parametrize(("policy", "option", "number"), OPTIONS)
def test_options_out_of_range(policy: str, option: str, number: float) -> None:
    with pytest.raises(ValueError, match=f"{option} must be a finite number .*, got {number}"):
        run(policy, {option: number}, jit=False)
    assert np.all(np.isnan(run(policy, {option: number}).action_weights))


@pytest.mark.parametrize(("name", "number"), [case for case in ROW_CASES if not case[0].startswith("step")])
def test_known_numbers_are_refused(name: str, number: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} is .* in row {BAD}: "):
        run("muzero", {name: number}, jit=False)


def test_a_known_row_without_actions_is_refused() -> None:
    mask = jnp.array([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]])
    with pytest.raises(ValueError, match=r"invalid_actions masks every action in row 1"):
        run("gumbel", {}, jit=False, invalid_actions=mask)
    with pytest.raises(ValueError, match=r"root.prior_logits is -inf in row 1: give at least one"):
        run("gumbel", {"root.prior_logits": -INF}, jit=False)
    with pytest.raises(ValueError, match="max_num_considered_actions must be at least 1, got 0"):
        run("gumbel", {}, max_num_considered_actions=0)


def check(bad: dict[str, Any], **options: Any) -> None:
    root = emcts.RootFnOutput(jnp.zeros((BATCH, ACTIONS)), jnp.ones(BATCH), jnp.zeros(BATCH, jnp.int32))
    emcts.check_inputs(root, model, bad, KEY, **options)


@pytest.mark.parametrize("field", ["reward", "discount", "value", "reward_variance", "value_variance"])
def test_the_culprit_is_found(field: str) -> None:
    check({})
    with pytest.raises(ValueError, match=f"recurrent_fn.s output.{field} is nan in row {BAD}: "):
        check({field: NAN})


def test_what_else_is_found() -> None:
    with pytest.raises(ValueError, match=r"of action 0, recurrent_fn.s output.prior_logits is nan in row 1"):
        check({"prior_logits": NAN})
    with pytest.raises(ValueError, match="output.value_variance is -3.* a variance is not negative"):
        check({"value_variance": -3.2})
    with pytest.raises(ValueError, match="beta is nan"):
        check({}, beta=NAN)
    with pytest.raises(TypeError, match="not known inside jit: call it outside"):
        jax.jit(lambda bad: check({"reward": bad}))(1.0)


def test_a_search_that_no_memory_holds_says_so() -> None:
    root = emcts.RootFnOutput(jnp.zeros((BATCH, ACTIONS)), jnp.ones(BATCH), jnp.zeros((BATCH, 8)))
    with pytest.raises(ValueError, match=r"num_simulations is 1,000,000,000: .* need \d+ GiB, and there are"):
        emcts.muzero_policy({}, KEY, root, model, 10**9)


def test_a_gradient_is_refused_and_a_target_is_not() -> None:
    def weights(logits: Any) -> Any:
        root = emcts.RootFnOutput(logits, jnp.ones(BATCH), jnp.zeros(BATCH, jnp.int32))
        return emcts.gumbel_muzero_policy({}, KEY, root, model, 4).action_weights

    logits = jnp.zeros((BATCH, ACTIONS))
    with pytest.raises(TypeError, match="a search has no gradient"):
        jax.grad(lambda x: weights(x)[0, 0])(logits)

    def loss(x: Any) -> Any:
        return -jnp.sum(jax.lax.stop_gradient(weights(x)) * jax.nn.log_softmax(x))

    found = jax.jit(jax.grad(loss))(logits)
    np.testing.assert_allclose(found, jax.nn.softmax(logits) - weights(logits), atol=1e-6)
