"""Whole trainings with a simulator: Deep Sea solved, independent seeds, and runs that resume where they stopped."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.agents.tiny import advanced, assert_equal, assert_resumes, table, trainer

AGENTS = ["e-az", "az-ube", "az"]


@pytest.mark.usefixtures("key_reuse_checked")
def test_e_az_solves_deep_sea() -> None:
    tiny = trainer("deep-tiny", "e-az")
    _, reports = advanced(tiny, tiny.init(), 10)
    assert reports[-1].env_steps == tiny.total_env_steps == 1000
    np.testing.assert_allclose(reports[-1].metrics["return"], 0.99, atol=1e-4)
    first, solved = (reports[-1].metrics[name] for name in ("first_reward_step", "solved_step"))
    assert np.all(first <= solved)
    assert np.all(solved <= 1000)
    np.testing.assert_array_equal(table(reports, "solved"), table(reports, "return") > 0.9)
    assert np.all(table(reports, "states_discovered")[-1] == 15)
    # The goal was reached in a chunk just when a training episode has its return.
    for report in reports:
        found = first <= report.env_steps
        assert np.all(found | (report.metrics["train_return"] < 0.5))


@pytest.mark.usefixtures("key_reuse_checked")
def test_what_is_known_grows_and_what_is_uncertain_shrinks() -> None:
    tiny = trainer("deep-tiny", "e-az")
    _, reports = advanced(tiny, tiny.init(), 6)
    assert np.all(np.diff(table(reports, "states_discovered"), axis=0) >= 0)
    uncertainty = table(reports, "uncertainty")
    assert np.all(uncertainty[-1] < 0.5 * uncertainty[0])
    assert [report.env_steps for report in reports] == [100 * (k + 1) for k in range(6)]
    # 40 steps of warm-up are 4 iterations of 10 steps; the fourth is the first that learns, by 5 updates.
    assert [report.train_steps for report in reports] == [5 * (10 * (k + 1) - 3) for k in range(6)]
    # 12 simulations for each step; and for each of 15 states as many and 2 actions, in each iteration that learns.
    for k, report in enumerate(reports):
        acting, targets = 12 * 100 * (k + 1), 15 * (12 + 2) * (10 * (k + 1) - 3)
        assert report.simulator_steps == acting + targets
        assert np.all(report.metrics["simulator_steps_acting"] == acting)
        assert np.all(report.metrics["simulator_steps_reanalyse"] == targets)
    np.testing.assert_array_equal(table(reports, "simulator_steps_evaluation"), np.full((6, 2), 12 * 5))


@pytest.mark.usefixtures("key_reuse_checked")
@pytest.mark.parametrize("novelty", ["rnd", "ensemble"])
def test_novelty_can_be_learned(novelty: str) -> None:
    """From the first step to a solved task, with an estimator that is a network."""
    tiny = trainer("deep-tiny", "e-az", (1,), novelty)
    _, reports = advanced(tiny, tiny.init(), 12)
    uncertainty = table(reports, "uncertainty")
    assert uncertainty[-1, 0] < 0.5 * uncertainty[0, 0]
    assert table(reports, "states_discovered")[-1, 0] == 15
    assert np.isnan(table(reports, "nan_step")).all()
    assert reports[-1].metrics["first_reward_step"][0] <= 1000
    np.testing.assert_allclose(reports[-1].metrics["return"], 0.99, atol=1e-4)


@pytest.mark.usefixtures("key_reuse_checked")
@pytest.mark.parametrize("agent", AGENTS)
def test_a_restored_run_continues_bit_for_bit(agent: str, tmp_path: Path) -> None:
    reports = assert_resumes(trainer("deep-tiny", agent), tmp_path)
    losses = ("loss", "loss_value", "loss_policy", "loss_ube", "loss_reward", "uncertainty")
    assert np.isfinite([table(reports, name) for name in losses]).all()
    assert np.isnan(table(reports, "nan_step")).all()
    assert np.any(table(reports, "loss_ube") > 0) == (agent != "az")


def assert_same_alone(environment: str, seeds: tuple[int, ...], chunks: int) -> None:
    """Of these seeds. Programs for one and for two round differently, and where two actions are nearly as good, that
    decides: half of all seeds part ways sooner or later.
    """
    together = trainer(environment, "e-az", seeds)
    state, reports = advanced(together, together.init(), chunks)
    one_seed = trainer(environment, "e-az", (0,))
    for place, seed in enumerate(together.seeds):
        start = dataclasses.replace(one_seed, seeds=(seed,)).init()
        alone, alone_reports = advanced(one_seed, start, chunks)
        for name in reports[-1].metrics:
            found = table(alone_reports, name)[:, 0]
            np.testing.assert_allclose(table(reports, name)[:, place], found, rtol=1e-3, atol=1e-5)
        here = jax.tree.map(lambda leaf, place=place: leaf[place], state)
        there = jax.tree.map(lambda leaf: leaf[0], alone)
        assert_equal(here.episodes, there.episodes, atol=1e-6)
        assert_equal(here.networks, there.networks, rtol=1e-2, atol=1e-3)


@pytest.mark.usefixtures("key_reuse_checked")
def test_seeds_side_by_side_are_the_seeds_alone() -> None:
    assert_same_alone("deep-tiny", (1, 5), 3)


@pytest.mark.usefixtures("key_reuse_checked")
@pytest.mark.long
def test_seeds_of_subleq_side_by_side_are_the_seeds_alone() -> None:
    assert_same_alone("subleq", (0, 1), 3)


@pytest.mark.usefixtures("key_reuse_checked")
@pytest.mark.parametrize("environment", ["deep-tiny", "subleq"])
def test_a_seed_does_not_feel_its_neighbours(environment: str) -> None:
    one, two = trainer(environment, "e-az", (0, 1)), trainer(environment, "e-az", (1, 7))
    _, reports = advanced(one, one.init(), 3)
    _, others = advanced(one, two.init(), 3)
    for name in reports[-1].metrics:
        np.testing.assert_array_equal(table(reports, name)[:, 1], table(others, name)[:, 0])
    assert not np.array_equal(table(reports, "loss")[:, 0], table(others, "loss")[:, 1])


@pytest.mark.usefixtures("key_reuse_checked")
def test_a_loss_that_is_not_finite_is_noticed() -> None:
    """In the seed where it happens, and there alone."""
    tiny = trainer("deep-tiny", "e-az")
    state, _ = advanced(tiny, tiny.init(), 1)
    poisoned = jax.tree.map(lambda leaf: leaf.at[1].set(jnp.nan), state.networks.value)
    state = state.replace(networks=state.networks.__class__(**{**vars(state.networks), "value": poisoned}))
    _, (first, second) = advanced(tiny, state, 2)
    np.testing.assert_array_equal(first.metrics["nan_step"], [np.nan, 110.0])
    np.testing.assert_array_equal(second.metrics["nan_step"], [np.nan, 110.0])
    assert np.isfinite(second.metrics["loss"][0])


def test_minatar_trains() -> None:
    game = trainer("minatar-breakout", "e-az", (0,))
    _, reports = advanced(game, game.init(), 2)
    for name in (
        "return",
        "uncertainty",
        "loss",
        "loss_value",
        "loss_policy",
        "loss_exploration",
        "loss_ube",
    ):
        assert np.isfinite(table(reports, name)).all(), name
    assert np.isnan(table(reports, "nan_step")).all()
    assert np.all(np.diff(table(reports, "states_discovered"), axis=0) > 0)
    assert np.all(table(reports, "length") <= 5)
    assert np.all(table(reports, "episodes") > 0)
    assert np.isnan([table(reports, name) for name in ("solved", "solved_step")]).all(), "a game has no end"


def test_asterix_is_trained_saved_and_restored(tmp_path: Path) -> None:
    """Its state has an array without elements."""
    reports = assert_resumes(trainer("minatar-asterix", "az", (0,)), tmp_path)
    assert np.isfinite(table(reports, "loss")).all()
