"""The planning model of a simulator by hand: Deep Sea 3 x 3, with estimates that are made up."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from emcts.envs import DeepSea, Outcome
from emcts.models.evaluators import StateEstimate, TransitionEstimate
from emcts.models.simulator import SimulatorPlanningModel
from emcts.models.ube import horizon_factor
from emcts.search.ube import one_step_lookahead

KEY = jax.random.key(0)
ENV = DeepSea(3, None)
GAMMA = 0.9


def policy_prior(estimate: StateEstimate) -> Float[Array, "B A"]:
    return estimate.policy


def evaluate_state(state: PyTree) -> StateEstimate:
    """Value 0.1 and variance 0.2 for each column, and two different policies."""
    column = state.column.astype(jnp.float32)
    return StateEstimate(
        policy=jnp.stack([column, -column]),
        exploration=jnp.stack([-column, column]),
        value=0.1 * column,
        ube=0.2 * column,
    )


def evaluate_transition(
    before: PyTree, action: Int[Array, ""], after: PyTree, outcome: Outcome
) -> TransitionEstimate:
    """Novelty 0.05 for left and 0.3 for right."""
    novelty = jnp.where(action == 1, 0.3, 0.05)
    return TransitionEstimate(outcome.reward, 0.5 * novelty, novelty)


def leaf_factor(leaf: PyTree) -> Float[Array, ""]:
    return horizon_factor(GAMMA, ENV.size - leaf.row)


def planning_model(max_variance: float = float("inf")) -> SimulatorPlanningModel:
    return SimulatorPlanningModel(ENV, evaluate_state, evaluate_transition, GAMMA, leaf_factor, max_variance)


def states(*cells: tuple[int, int]) -> PyTree:
    rows, columns = np.array(cells, np.int32).T
    return jax.vmap(lambda state, row, column: state.replace(row=row, column=column), in_axes=(None, 0, 0))(
        ENV.init(KEY), rows, columns
    )


def expected_variance(column: int, novelty: float, steps_left: int) -> float:
    """`max(u, c eta)` with c the sum of the squared discounts of the steps that are left."""
    return max(0.2 * column, novelty * sum(GAMMA ** (2 * step) for step in range(steps_left)))


CELLS = ((0, 0), (1, 1), (1, 0), (2, 2))


def test_a_step_by_hand() -> None:
    right = jnp.ones(4, jnp.int32)
    step = jax.jit(planning_model().recurrent_fn(policy_prior))
    out, after = step(None, KEY, right, states(*CELLS))
    cost = 0.01 / 3
    np.testing.assert_allclose(out.reward, [-cost, -cost, -cost, 1 - cost], rtol=1e-6)
    np.testing.assert_allclose(out.discount, [GAMMA, GAMMA, GAMMA, 0.0])
    np.testing.assert_allclose(out.value, [0.1, 0.2, 0.1, 0.3], rtol=1e-6)
    np.testing.assert_allclose(out.reward_variance, 0.15, rtol=1e-6)
    expected = [expected_variance(*leaf) for leaf in ((1, 0.3, 2), (2, 0.3, 1), (1, 0.3, 1), (3, 0.3, 0))]
    np.testing.assert_allclose(out.value_variance, expected, rtol=1e-5)
    assert (expected[0] > 0.2, expected[1] > 0.4) == (True, False), "both sides of the maximum are tested"
    np.testing.assert_array_equal(after.column, [1, 2, 1, 3])
    np.testing.assert_allclose(out.prior_logits[:, 0], [1, 2, 1, 3])


def test_leaving_the_last_row_ends_the_episode_for_both_actions() -> None:
    step = jax.jit(planning_model().recurrent_fn(policy_prior))
    for action in range(2):
        out, _ = step(None, KEY, jnp.full(4, action, jnp.int32), states((2, 0), (2, 1), (2, 2), (3, 1)))
        np.testing.assert_array_equal(out.discount, np.zeros(4))


def test_one_step_lookahead_by_hand() -> None:
    model = planning_model()
    root, step = model.root(states(*CELLS), policy_prior), model.recurrent_fn(policy_prior)
    stds = jax.jit(lambda: one_step_lookahead(None, KEY, root, step))().stds
    for (row, column), found in zip(CELLS, np.asarray(stds), strict=True):
        for action, novelty in enumerate((0.05, 0.3)):
            after = column + 1 if action else max(column - 1, 0)
            rest = 0.0 if row == 2 else GAMMA**2 * expected_variance(after, novelty, 2 - row)
            np.testing.assert_allclose(found[action], np.sqrt(0.5 * novelty + rest), rtol=1e-5)


def test_the_maximal_variance_applies_to_leaf_and_root() -> None:
    capped = planning_model(0.35)
    out, _ = jax.jit(capped.recurrent_fn(policy_prior))(None, KEY, jnp.ones(4, jnp.int32), states(*CELLS))
    np.testing.assert_allclose(out.value_variance, [0.35, 0.35, 0.3, 0.35], rtol=1e-6)
    root = jax.jit(lambda s: capped.root(s, policy_prior))(states(*CELLS))
    np.testing.assert_allclose(root.value_variance, [0.0, 0.2, 0.0, 0.35], rtol=1e-6)
    np.testing.assert_allclose(root.value, [0.0, 0.1, 0.0, 0.2], rtol=1e-6)


def test_a_prior_reads_the_estimates() -> None:
    root = planning_model().root(states(*CELLS), lambda estimate: estimate.exploration)
    np.testing.assert_allclose(root.prior_logits[:, 1], [0, 1, 0, 2])
