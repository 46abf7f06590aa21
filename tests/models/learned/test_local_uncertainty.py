"""Local uncertainty of a learned model: of true states, of latent states, and by the disagreement of an ensemble."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float, Int, PyTree

from emcts.envs import DeepSea
from emcts.models.evaluators import Transition, pair_index
from emcts.models.layers import mlp
from emcts.models.learned.local_uncertainty import (
    EnsembleDisagreement,
    LatentNovelty,
    LocalUncertainty,
    PlannedTransition,
    TrueStateNovelty,
    with_action,
)
from emcts.novelty import Counts, Ensemble, Normalised, Rnd
from emcts.types import Key

KEY = jax.random.key(0)
ENV = DeepSea(3, seed=2)
INPUTS = 2 * ENV.size + ENV.num_actions
CELLS = jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))


@functools.cache
def true_states() -> LocalUncertainty:
    return TrueStateNovelty(
        Counts(2 * ENV.num_states), lambda env, before, action, after: pair_index(ENV, before, action)
    )


def probes(key: Key) -> Float[Array, "64 inputs"]:
    return jax.random.normal(key, (64, INPUTS))


@functools.cache
def latent_novelty() -> LatentNovelty:
    rnd = Rnd(
        lambda key: mlp(INPUTS, (32, 8), key=key, indexed=False),
        lambda key: mlp(INPUTS, (32, 8), key=key, indexed=False),
        optax.adam(1e-2),
    )
    return LatentNovelty(Normalised(rnd, probes))


@functools.cache
def disagreement_ensemble() -> Ensemble[Any]:
    return Ensemble(
        lambda key: mlp(INPUTS, (32, 2 * ENV.size), key=key, indexed=False), optax.adam(1e-2), size=4
    )


@functools.cache
def disagreement() -> LocalUncertainty:
    return EnsembleDisagreement(Normalised(disagreement_ensemble(), probes))


MAKERS: list[Callable[[], LocalUncertainty]] = [true_states, latent_novelty, disagreement]


def encode(state: PyTree) -> Float[Array, "latent"]:
    """The row and the column of a cell, as one-hot vectors."""
    return jnp.concatenate([jax.nn.one_hot(place, ENV.size) for place in (state.row, state.column)])


def transitions(cells: Int[Array, "B"], actions: Int[Array, "B"]) -> Transition:
    before = jax.tree.map(lambda leaf: leaf[cells], CELLS)
    after, outcome = jax.vmap(ENV.step, in_axes=(0, 0, None))(before, actions, KEY)
    valid = jnp.ones(actions.shape, bool)
    return Transition(before, actions, outcome.reward, after, outcome.terminated, outcome.truncated, valid)


EVERY = transitions(jnp.repeat(jnp.arange(ENV.num_states), 2), jnp.tile(jnp.arange(2), ENV.num_states))
# All but one of the first row; those of the last row end the episode.
EXPERIENCED = EVERY.replace(valid=jnp.arange(EVERY.valid.shape[0]) != 1)


@functools.partial(jax.jit, static_argnums=0)
def variances(local_uncertainty: LocalUncertainty, novelty: PyTree) -> Float[Array, "B"]:
    """Of every transition, planned."""

    def one(before: PyTree, action: Int[Array, ""]) -> Float[Array, ""]:
        carry = local_uncertainty.init_carry(before)
        after = local_uncertainty.step_carry(ENV, carry, action, KEY)
        transition = PlannedTransition(encode(before), action, carry, after)
        return local_uncertainty.variance(ENV, novelty, transition)

    return jax.vmap(one)(EVERY.before, EVERY.action)


@functools.partial(jax.jit, static_argnums=0)
def updated(
    local_uncertainty: LocalUncertainty, novelty: PyTree, experienced: Transition, times: int
) -> PyTree:
    return jax.lax.fori_loop(
        0, times, lambda _, novelty: local_uncertainty.update(ENV, encode, novelty, experienced), novelty
    )


@pytest.mark.parametrize("make", MAKERS)
def test_experienced_transitions_are_known_and_others_novel(make: Callable[[], LocalUncertainty]) -> None:
    local_uncertainty = make()
    start = local_uncertainty.novelty.init(KEY)
    before = np.asarray(variances(local_uncertainty, start))
    after = np.asarray(variances(local_uncertainty, updated(local_uncertainty, start, EXPERIENCED, 300)))
    seen = np.asarray(EXPERIENCED.valid)
    assert np.all(after[seen] < 0.5 * before[seen]), "ends included"
    assert np.all(after[~seen] > 2 * after[seen].max())


@pytest.mark.parametrize("make", MAKERS)
def test_padding_changes_nothing(make: Callable[[], LocalUncertainty]) -> None:
    local_uncertainty = make()
    start = local_uncertainty.novelty.init(KEY)
    padding = EXPERIENCED.replace(valid=jnp.zeros_like(EXPERIENCED.valid))
    same = updated(local_uncertainty, start, padding, 1)
    np.testing.assert_array_equal(variances(local_uncertainty, start), variances(local_uncertainty, same))


def test_nothing_is_novel_past_the_end_of_an_episode() -> None:
    local_uncertainty = true_states()
    last = jax.tree.map(lambda leaf: leaf[-1], CELLS)
    end = local_uncertainty.step_carry(ENV, local_uncertainty.init_carry(last), jnp.int32(1), KEY)
    beyond = PlannedTransition(
        encode(last), jnp.int32(0), end, local_uncertainty.step_carry(ENV, end, jnp.int32(0), KEY)
    )
    assert local_uncertainty.variance(ENV, local_uncertainty.novelty.init(KEY), beyond) == 0


def test_a_wrong_prediction_is_novel() -> None:
    """RND is trained on true states: the further a predicted one is from them, the more novel it is."""
    local_uncertainty = latent_novelty()
    novelty = updated(local_uncertainty, local_uncertainty.novelty.init(KEY), EVERY, 300)
    right = encode(jax.tree.map(lambda leaf: leaf[1], CELLS))
    wrong = right.at[0].set(1.0).at[4].set(1.0)  # two rows and two columns at once
    near, far = (
        float(local_uncertainty.variance(ENV, novelty, PlannedTransition(latent, jnp.int32(0), (), ())))
        for latent in (right, wrong)
    )
    assert far > 5 * near


def test_disagreement_needs_an_estimator_that_is_fitted_to_targets() -> None:
    local_uncertainty = EnsembleDisagreement(latent_novelty().novelty)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Rnd .* targets: give"):
        local_uncertainty.update(ENV, encode, local_uncertainty.novelty.init(KEY), EXPERIENCED)


def test_an_end_by_the_rules_is_a_state_of_its_own_and_a_cut_off_is_not() -> None:
    """Members predict zeros behind an end by the rules, and the state that was reached behind a time limit."""
    local_uncertainty = disagreement()
    start = local_uncertainty.novelty.init(KEY)
    ensemble = disagreement_ensemble()
    first, last = transitions(jnp.array([0]), jnp.array([1])), transitions(jnp.array([8]), jnp.array([1]))
    assert last.terminated[0]
    cut_off = first.replace(truncated=jnp.array([True]))

    def predicted(experienced: Transition) -> np.ndarray:
        state = updated(local_uncertainty, start, experienced, 300)
        before = jax.tree.map(lambda leaf: leaf[0], experienced.before)
        x = with_action(encode(before), experienced.action[0], ENV.num_actions)
        return np.asarray(ensemble.predictions(state.inner, x)).mean(axis=0)

    reached = encode(jax.tree.map(lambda leaf: leaf[0], first.after))
    np.testing.assert_allclose(predicted(cut_off), reached, atol=0.1)
    np.testing.assert_allclose(predicted(last), 0, atol=0.1)
