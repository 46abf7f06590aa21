"""Appendix B on a corridor of three transitions, of which the second was never seen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int

import emcts
from emcts.models.beyond_known import BeyondKnown, BeyondKnownModel, BeyondKnownPlanning
from emcts.models.evaluators import StateEstimate
from emcts.models.world_model import Prior
from emcts.search.tree import Tree
from emcts.types import Key, Params, RecurrentFn

R_MAX, GAMMA, ENDS_AFTER = 2.0, 0.5, 4
Positions = Int[Array, "B"]


def corridor(
    params: Params, key: Key, action: Int[Array, "B"], position: Positions
) -> tuple[emcts.RecurrentFnOutput, Positions]:
    """The variance of a reward is 0.25, except for the transition out of position 1: there it is r_max^2."""
    unseen = position == 1
    ones = jnp.ones(action.shape)
    step = emcts.RecurrentFnOutput(
        reward=0 * ones,
        discount=jnp.where(position + 1 == ENDS_AFTER, 0.0, GAMMA),
        prior_logits=jnp.zeros((*action.shape, 1)),
        value=0 * ones,
        reward_variance=jnp.where(unseen, R_MAX**2, 0.25),
        value_variance=0.09 * ones,
    )
    return step, position + 1


@functools.cache
def search(simulations: int) -> Tree[BeyondKnown]:
    model = BeyondKnownModel(corridor, r_max=R_MAX, gamma=GAMMA)
    root = emcts.RootFnOutput(jnp.zeros((1, 1)), jnp.zeros(1), jnp.zeros(1, jnp.int32), jnp.full(1, 0.09))
    return tree_of(model.root(root), model.recurrent_fn, simulations)


def tree_of(root: emcts.RootFnOutput, step: RecurrentFn, simulations: int) -> Tree[BeyondKnown]:
    return jax.jit(lambda key: emcts.uct_policy(None, key, root, step, simulations).search_tree)(
        jax.random.key(0)
    )


def test_variances_along_the_path() -> None:
    tree = search(4)
    np.testing.assert_allclose(tree.edge_reward_variances[0, 1:], [0.25, R_MAX**2, R_MAX**2, R_MAX**2])
    highest = (R_MAX / (1 - GAMMA)) ** 2
    np.testing.assert_allclose(
        tree.raw_value_stds[0] ** 2, [0.09, 0.09, highest, highest, highest], rtol=1e-6
    )
    np.testing.assert_array_equal(tree.embeddings.past_unknown[0], [False, False, True, True, True])


def test_the_variance_reaches_the_root_and_ends_with_the_episode() -> None:
    known, crossed = search(1).summary(), search(2).summary()
    assert float(crossed.qvalues_std[0, 0]) > float(known.qvalues_std[0, 0])
    last = search(4)
    np.testing.assert_allclose(last.edge_qvalue_stds[0, 4], R_MAX, rtol=1e-6)


def test_without_the_wrapper_later_transitions_look_known() -> None:
    root = emcts.RootFnOutput(jnp.zeros((1, 1)), jnp.zeros(1), jnp.zeros(1, jnp.int32))
    tree = tree_of(root, corridor, 4)
    np.testing.assert_allclose(tree.edge_reward_variances[0, 1:], [0.25, R_MAX**2, 0.25, 0.25])


@pytest.mark.parametrize(
    ("options", "word"), [({"r_max": 0.0, "gamma": 0.5}, "r_max"), ({"r_max": 1.0, "gamma": 1.0}, "gamma")]
)
def test_bad_numbers(options: dict[str, float], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        BeyondKnownModel(corridor, **options)


class Corridor:
    """The same corridor as a planning model: states are positions."""

    return_range = 1.0

    def root(self, states: Positions, prior: Prior) -> emcts.RootFnOutput:
        ones = jnp.ones(states.shape)
        return emcts.RootFnOutput(jnp.zeros((*states.shape, 1)), 0 * ones, states, 0.09 * ones)

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        return corridor

    def invalid_actions(self, states: Positions) -> Bool[Array, "B A"]:
        return jnp.zeros((*states.shape, 1), bool)

    def stands_for(self, embeddings: Positions, states: Positions) -> Bool[Array, "B"]:
        return embeddings == states

    def estimate(self, states: Positions) -> StateEstimate:
        ones = jnp.ones(states.shape)
        return StateEstimate(0 * ones[:, None], 0 * ones[:, None], 0 * ones, 0.09 * ones)

    def step(self, states: Positions, actions: Int[Array, "B"], key: Key) -> emcts.RecurrentFnOutput:
        return corridor(None, key, actions, states)[0]


def test_a_planning_model_follows_the_rule_in_a_search_and_in_single_steps() -> None:
    model = BeyondKnownPlanning(Corridor(), R_MAX, GAMMA, R_MAX**2)
    states = jnp.zeros(1, jnp.int32)

    def prior(estimate: StateEstimate) -> Float[Array, "B A"]:
        return jnp.zeros((1, 1))

    assert model.estimate(states).ube == jnp.float32(0.09)
    tree = tree_of(model.root(states, prior), model.recurrent_fn(prior), 4)
    alike = search(4)
    np.testing.assert_allclose(tree.edge_reward_variances, alike.edge_reward_variances)
    np.testing.assert_allclose(tree.raw_value_stds, alike.raw_value_stds)
    ahead = model.step(jnp.arange(3), jnp.zeros(3, jnp.int32), jax.random.key(0))
    np.testing.assert_allclose(ahead.reward_variance, [0.25, R_MAX**2, 0.25])
    np.testing.assert_allclose(ahead.value_variance, [0.09, (R_MAX / (1 - GAMMA)) ** 2, 0.09], rtol=1e-6)
