"""Novelty estimators by name: sizes of hash tables, and what a network learns of rare inputs."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.novelty import EstimatorInputs, make_estimator
from emcts.agents.settings import NoveltySettings
from emcts.models.networks import InputSpec
from emcts.novelty import HashCounts, HashSet, Normalised
from emcts.runs.config import override
from tests.agents.tiny import CATALOGUE

PAIRS = 8
UPDATES = 200


@pytest.mark.parametrize("environment", ["subleq", "minatar-breakout"])
@pytest.mark.parametrize("kind", ["hash-set", "hash-counts"])
def test_a_table_is_at_most_a_tenth_full_if_every_step_is_new(environment: str, kind: str) -> None:
    for steps in (2_000_000, 4_096_000, 13_000_000):
        changes = {"novelty.kind": kind, "novelty.hash_bits": None, "steps": steps}
        settings = override(CATALOGUE.settings(environment, "e-az"), changes)
        bits = settings.novelty.table_bits(steps)
        assert steps <= 2**bits / 10
        estimator = make_estimator(settings.novelty, EstimatorInputs(InputSpec((5,)), steps))
        assert isinstance(estimator, HashSet | HashCounts)
        assert settings.with_table_bits().novelty.hash_bits == bits == estimator.bits
        state = jax.eval_shape(estimator.init, jax.random.key(0))
        assert sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) <= 2**28


def test_a_given_size_of_the_table_is_taken() -> None:
    settings = override(CATALOGUE.settings("subleq", "e-az"), {"novelty.hash_bits": 20})
    assert settings.novelty.table_bits(settings.steps) == 20
    assert settings.with_table_bits() == settings


@pytest.mark.parametrize("environment", ["subleq", "minatar-breakout"])
def test_a_default_preset_leaves_the_size_of_the_table_to_the_run(environment: str) -> None:
    settings = CATALOGUE.settings(environment, "e-az")
    assert settings.novelty.hash_bits is None
    assert settings.with_table_bits().novelty.hash_bits is not None


@pytest.mark.parametrize(
    ("environment", "preset"), [("subleq", "paper-subleq"), ("minatar-asterix", "paper-minatar")]
)
def test_the_presets_of_the_paper_have_its_size(environment: str, preset: str) -> None:
    assert CATALOGUE.settings(environment, "e-az", preset).novelty.hash_bits == 24


def test_an_agent_without_a_table_has_no_size() -> None:
    settings = CATALOGUE.settings("minatar-breakout", "e-mz")
    assert settings.novelty.kind == "ensemble"
    assert settings.with_table_bits().novelty.hash_bits is None


def rnd(epsilon: float) -> Any:
    settings = NoveltySettings(kind="rnd", adam_epsilon=epsilon, reward_noise=False)
    inputs = EstimatorInputs(InputSpec(num_indices=PAIRS), 1000, probes=lambda key: jnp.arange(PAIRS))
    normalised = make_estimator(settings, inputs)
    assert isinstance(normalised, Normalised)
    return normalised.novelty


@functools.cache
def error_of_rare_inputs(epsilon: float) -> float:
    """RND's error after updates in which one transition fills the batch but for a single other."""
    estimator = rnd(epsilon)
    rare = jax.random.randint(jax.random.key(1), (UPDATES, 1), 1, PAIRS)
    batches = jnp.pad(rare, ((0, 0), (0, 15)))
    mask = jnp.ones(16, bool)
    state, _ = jax.lax.scan(
        lambda state, batch: (estimator.update(state, batch, mask), None),
        estimator.init(jax.random.key(0)),
        batches,
    )
    return float(np.mean(jax.vmap(estimator.variance, (None, 0))(state, jnp.arange(1, PAIRS))))


@pytest.mark.long
def test_with_a_large_epsilon_of_adam_rnd_learns_rare_inputs() -> None:
    """Adam's steps are as large for a small error as for a large one, unless its epsilon is large."""
    assert error_of_rare_inputs(0.01) < 0.01 * error_of_rare_inputs(1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adam_epsilon": 0.0}, r"novelty.adam_epsilon is 0\.0: give a positive number"),
        ({"rnd_width": 1}, r"novelty.rnd_width is 1: give at least 2"),
    ],
)
def test_an_estimator_that_cannot_learn_is_refused(change: dict[str, Any], message: str) -> None:
    inputs = EstimatorInputs(InputSpec(num_indices=PAIRS), 1000, probes=lambda key: jnp.arange(PAIRS))
    with pytest.raises(ValueError, match=message):
        make_estimator(dataclasses.replace(NoveltySettings(kind="rnd"), **change), inputs)
