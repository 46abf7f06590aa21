"""The planning model by hand: a Deep Sea of 3, judged by numbers that are made up."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import DeepSea
from emcts.models.evaluators import StateEstimate, TransitionEstimate
from emcts.models.simulator import SimulatorPlanningModel
from emcts.models.ube import horizon_factor, leaf_variance
from emcts.search.ube import one_step_lookahead

KEY = jax.random.key(0)
ENV = DeepSea(3, None)
GAMMA = 0.9


def exploiting(estimate: Any) -> Any:
    return estimate.policy


def evaluate_state(state: Any) -> StateEstimate:
    """Value 0.1 and variance 0.2 for each column, and policies that tell the two apart."""
    column = state.column.astype(jnp.float32)
    return StateEstimate(
        policy=jnp.stack([column, -column]),
        exploration=jnp.stack([-column, column]),
        value=0.1 * column,
        ube=0.2 * column,
    )


def evaluate_transition(before: Any, action: Any, after: Any, outcome: Any) -> TransitionEstimate:
    """Novelty 0.05 for left and 0.3 for right."""
    novelty = jnp.where(action == 1, 0.3, 0.05)
    return TransitionEstimate(outcome.reward, 0.5 * novelty, novelty)


def factor(leaf: Any) -> Any:
    return horizon_factor(GAMMA, ENV.size - leaf.row)


def model(largest: float = float("inf")) -> SimulatorPlanningModel:
    return SimulatorPlanningModel(ENV, evaluate_state, evaluate_transition, GAMMA, factor, largest)


def states(*cells: tuple[int, int]) -> Any:
    rows, columns = np.array(cells, np.int32).T
    return jax.vmap(lambda state, row, column: state.replace(row=row, column=column), in_axes=(None, 0, 0))(
        ENV.init(KEY), rows, columns
    )


def leaf(column: int, novelty: float, steps_left: int) -> float:
    """`max(u, c eta)` with c the sum of the squared discounts of the steps that are left."""
    return max(0.2 * column, novelty * sum(GAMMA ** (2 * step) for step in range(steps_left)))


CELLS = ((0, 0), (1, 1), (1, 0), (2, 2))


def test_a_step_by_hand() -> None:
    right = jnp.ones(4, jnp.int32)
    step = jax.jit(model().recurrent_fn(exploiting))
    out, after = step(None, KEY, right, states(*CELLS))
    cost = 0.01 / 3
    np.testing.assert_allclose(out.reward, [-cost, -cost, -cost, 1 - cost], rtol=1e-6)
    np.testing.assert_allclose(out.discount, [GAMMA, GAMMA, GAMMA, 0.0])
    np.testing.assert_allclose(out.value, [0.1, 0.2, 0.1, 0.3], rtol=1e-6)
    np.testing.assert_allclose(out.reward_variance, 0.15, rtol=1e-6)
    wanted = [leaf(1, 0.3, 2), leaf(2, 0.3, 1), leaf(1, 0.3, 1), leaf(3, 0.3, 0)]
    np.testing.assert_allclose(out.value_variance, wanted, rtol=1e-5)
    assert (wanted[0] > 0.2, wanted[1] > 0.4) == (True, False), "both sides of the maximum are tried"
    np.testing.assert_array_equal(after.column, [1, 2, 1, 3])
    np.testing.assert_allclose(out.prior_logits[:, 0], [1, 2, 1, 3])


def test_leaving_the_last_row_ends_for_both_actions() -> None:
    step = jax.jit(model().recurrent_fn(exploiting))
    for action in range(2):
        out, _ = step(None, KEY, jnp.full(4, action, jnp.int32), states((2, 0), (2, 1), (2, 2), (3, 1)))
        np.testing.assert_array_equal(out.discount, np.zeros(4))


def test_the_uncertainty_one_step_ahead_by_hand() -> None:
    root, step = model().root(states(*CELLS), exploiting), model().recurrent_fn(exploiting)
    stds = jax.jit(lambda: one_step_lookahead(None, KEY, root, step))().stds
    for (row, column), found in zip(CELLS, np.asarray(stds), strict=True):
        for action, novelty in enumerate((0.05, 0.3)):
            after = column + 1 if action else max(column - 1, 0)
            rest = 0.0 if row == 2 else GAMMA**2 * leaf(after, novelty, 2 - row)
            np.testing.assert_allclose(found[action], np.sqrt(0.5 * novelty + rest), rtol=1e-5)


def test_the_largest_variance_cuts_leaf_and_root() -> None:
    capped = model(0.35)
    out, _ = jax.jit(capped.recurrent_fn(exploiting))(None, KEY, jnp.ones(4, jnp.int32), states(*CELLS))
    np.testing.assert_allclose(out.value_variance, [0.35, 0.35, 0.3, 0.35], rtol=1e-6)
    root = jax.jit(lambda s: capped.root(s, exploiting))(states(*CELLS))
    np.testing.assert_allclose(root.value_variance, [0.0, 0.2, 0.0, 0.35], rtol=1e-6)
    np.testing.assert_allclose(root.value, [0.0, 0.1, 0.0, 0.2], rtol=1e-6)


def test_a_prior_is_asked_for_what_was_judged() -> None:
    root = model().root(states(*CELLS), lambda estimate: estimate.exploration)
    np.testing.assert_allclose(root.prior_logits[:, 1], [0, 1, 0, 2])


def test_a_variance_below_zero_counts_as_none() -> None:
    """The support of a categorical UBE head reaches below 0."""
    assert float(leaf_variance(jnp.float32(-3.0), jnp.float32(0.0), jnp.float32(1.0), 5.0)) == 0.0


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("horizon", [0, 1, 7])
def test_the_horizon_factor_is_a_sum(discount: float, horizon: int) -> None:
    wanted = sum(discount ** (2 * step) for step in range(horizon))
    np.testing.assert_allclose(horizon_factor(discount, horizon), wanted, rtol=1e-5)


def test_the_endless_factor_is_the_limit() -> None:
    np.testing.assert_allclose(horizon_factor(0.9), horizon_factor(0.9, 500), rtol=1e-5)


@pytest.mark.parametrize(
    ("discount", "horizon", "message"),
    [
        (1.0, None, "bounds no endless sum: give the horizon, or a discount below 1"),
        (1.5, 3, "discount is 1.5: give a number from 0 to 1"),
        (-0.1, None, "discount is -0.1"),
    ],
)
def test_bad_discounts(discount: float, horizon: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        horizon_factor(discount, horizon)


def test_what_is_known_is_known_without_a_discount_too() -> None:
    """The factor of an endless horizon is infinite then, and 0 times that is no number."""
    endless = horizon_factor(1.0, jnp.inf)
    assert float(leaf_variance(jnp.float32(0.2), jnp.float32(0.0), endless, 5.0)) == pytest.approx(0.2)
    assert float(leaf_variance(jnp.float32(0.2), jnp.float32(0.1), endless, 5.0)) == 5.0
