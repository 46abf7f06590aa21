"""Whole trainings of agents that plan with a simulator: Deep Sea is solved, seeds do not interact, runs resume.

One trainer of each agent serves all tests of this file, which is why tests of several modules are here.
"""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.novelty import NoiseAware
from tests.agents.tiny import CATALOGUE, advanced, assert_equal, assert_resumes, settings, table, trainer
from tests.training.test_log import assert_regret_is_scored
from tests.training.test_step_counters import assert_counts_past_32_bits

pytestmark = pytest.mark.usefixtures("key_reuse_checked")


def test_e_az_solves_deep_sea() -> None:
    one = trainer("deep-sea", "e-az")
    _, reports = advanced(one, one.init(), 10)
    assert reports[-1].env_steps == one.total_env_steps == 1000
    np.testing.assert_allclose(reports[-1].metrics["return"], 0.99, atol=1e-4)
    first, solved = (reports[-1].metrics[name] for name in ("first_reward_step", "solved_step"))
    assert np.all(first <= solved)
    assert np.all(solved <= 1000)
    np.testing.assert_array_equal(table(reports, "solved"), table(reports, "return") > 0.9)
    assert np.all(table(reports, "states_discovered")[-1] == 15)
    # Before the chunk of the first success, no training episode had the return of the goal.
    for report in reports:
        found = first <= report.env_steps
        assert np.all(found | (report.metrics["train_return"] < 0.5))


def test_discovered_states_increase_and_uncertainty_decreases() -> None:
    one = trainer("deep-sea", "e-az")
    _, reports = advanced(one, one.init(), 6)
    assert np.all(np.diff(table(reports, "states_discovered"), axis=0) >= 0)
    uncertainty = table(reports, "uncertainty")
    assert np.all(uncertainty[-1] < 0.5 * uncertainty[0])
    assert [report.env_steps for report in reports] == [100 * (k + 1) for k in range(6)]
    # 40 warm-up steps are 4 iterations of 10 steps; the fourth is the first that learns, by 5 updates.
    assert [report.train_steps for report in reports] == [5 * (10 * (k + 1) - 3) for k in range(6)]
    # 12 simulations for each step; and in each iteration that learns, for each of 15 states, as many, and 2 actions for
    # each of 5 steps of lookahead.
    for k, report in enumerate(reports):
        acting, targets = 12 * 100 * (k + 1), 15 * (12 + 5 * 2) * (10 * (k + 1) - 3)
        assert report.simulator_steps == acting + targets
        assert np.all(report.metrics["simulator_steps_acting"] == acting)
        assert np.all(report.metrics["simulator_steps_reanalyse"] == targets)
    np.testing.assert_array_equal(table(reports, "simulator_steps_evaluation"), np.full((6, 2), 12 * 5))


@pytest.mark.long
@pytest.mark.parametrize("novelty", ["rnd", "ensemble"])
def test_novelty_can_be_learned(novelty: str) -> None:
    """From the first step to a solved task, with an estimator that is a network."""
    one = trainer("deep-sea", "e-az", (1,), novelty)
    _, reports = advanced(one, one.init(), 12)
    uncertainty = table(reports, "uncertainty")
    assert uncertainty[-1, 0] < 0.5 * uncertainty[0, 0]
    assert table(reports, "states_discovered")[-1, 0] == 15
    assert np.isnan(table(reports, "nan_step")).all()
    assert reports[-1].metrics["first_reward_step"][0] <= 1000
    np.testing.assert_allclose(reports[-1].metrics["return"], 0.99, atol=1e-4)


@pytest.mark.parametrize(
    "agent",
    ["e-az", pytest.param("az-ube", marks=pytest.mark.long), pytest.param("az", marks=pytest.mark.long)],
)
def test_a_resumed_training_equals_an_uninterrupted_one(agent: str, tmp_path: Path) -> None:
    reports = assert_resumes(trainer("deep-sea", agent), tmp_path)
    losses = ("loss", "loss_value", "loss_policy", "loss_ube", "loss_reward", "uncertainty")
    assert np.isfinite([table(reports, name) for name in losses]).all()
    assert np.isnan(table(reports, "nan_step")).all()
    assert np.any(table(reports, "loss_ube") > 0) == (agent != "az")


def test_steps_are_counted_past_32_bits(tmp_path: Path) -> None:
    assert_counts_past_32_bits(trainer("deep-sea", "e-az"), tmp_path)


def test_regret_is_scored_at_the_end_of_each_episode() -> None:
    """Over all parallel episodes, those that exploit and those that explore."""
    assert_regret_is_scored(trainer("deep-sea", "e-az"))


def assert_same_alone(environment: str, seeds: tuple[int, ...], chunks: int) -> None:
    """Compares seeds that are trained together with each seed alone.

    Programs for one and for two seeds round differently, and where two actions are nearly as good, that decides: half
    of all seeds differ sooner or later. The given ones do not.
    """
    together, one_seed = trainer(environment, "e-az"), trainer(environment, "e-az", (0,))
    state, reports = advanced(together, dataclasses.replace(together, seeds=seeds).init(), chunks)
    for place, seed in enumerate(seeds):
        start = dataclasses.replace(one_seed, seeds=(seed,)).init()
        alone, alone_reports = advanced(one_seed, start, chunks)
        for name in reports[-1].metrics:
            found = table(alone_reports, name)[:, 0]
            np.testing.assert_allclose(table(reports, name)[:, place], found, rtol=1e-3, atol=1e-5)
        here = jax.tree.map(lambda leaf, place=place: leaf[place], state)
        there = jax.tree.map(lambda leaf: leaf[0], alone)
        assert_equal(here.episodes, there.episodes, atol=1e-6)
        assert_equal(here.networks, there.networks, rtol=1e-2, atol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize(("environment", "seeds"), [("deep-sea", (1, 5)), ("subleq", (0, 1))])
def test_seeds_trained_together_equal_seeds_trained_alone(environment: str, seeds: tuple[int, ...]) -> None:
    assert_same_alone(environment, seeds, 3)


@pytest.mark.parametrize("environment", ["deep-sea", pytest.param("subleq", marks=pytest.mark.long)])
def test_a_seed_does_not_depend_on_the_others(environment: str) -> None:
    one, two = trainer(environment, "e-az", (0, 1)), trainer(environment, "e-az", (1, 7))
    _, reports = advanced(one, one.init(), 3)
    _, others = advanced(one, two.init(), 3)
    for name in reports[-1].metrics:
        np.testing.assert_array_equal(table(reports, name)[:, 1], table(others, name)[:, 0])
    assert not np.array_equal(table(reports, "loss")[:, 0], table(others, "loss")[:, 1])


def test_a_loss_that_is_not_finite_is_reported() -> None:
    """In the seed where it happens, and there alone."""
    one = trainer("deep-sea", "e-az")
    state, _ = advanced(one, one.init(), 1)
    broken = jax.tree.map(lambda leaf: leaf.at[1].set(jnp.nan), state.networks.value)
    state = state.replace(networks=state.networks.__class__(**{**vars(state.networks), "value": broken}))
    _, (first, second) = advanced(one, state, 2)
    np.testing.assert_array_equal(first.metrics["nan_step"], [np.nan, 110.0])
    np.testing.assert_array_equal(second.metrics["nan_step"], [np.nan, 110.0])
    assert np.isfinite(second.metrics["loss"][0])


@pytest.mark.long
def test_without_noise_training_does_not_change_in_the_last_digit() -> None:
    """Moments of rewards are estimated by default: in a deterministic environment their variance is 0."""
    with_moments: Any = trainer("deep-sea", "e-az")
    assert isinstance(with_moments.learner.world_model.novelty, NoiseAware)
    plain = settings("deep-sea", "e-az", {"novelty.reward_noise": False})
    without: Any = CATALOGUE.trainer("deep-sea", "e-az", plain, (0, 1))
    assert not isinstance(without.learner.world_model.novelty, NoiseAware)
    _, reports = advanced(with_moments, with_moments.init(), 3)
    _, others = advanced(without, without.init(), 3)
    for first, second in zip(reports, others, strict=True):
        for name in first.metrics:
            np.testing.assert_array_equal(first.metrics[name], second.metrics[name], err_msg=name)


def test_occupancy_of_the_hash_table_is_a_metric() -> None:
    one = trainer("subleq", "e-az")
    _, reports = advanced(one, one.init(), 2)
    occupied = table(reports, "table_occupancy")
    np.testing.assert_allclose(occupied, table(reports, "states_discovered") / 2**12)
    assert np.all(occupied[1] >= occupied[0])
    assert np.all(occupied > 0)


@pytest.mark.long
@pytest.mark.parametrize(("agent", "novelty"), [("e-az", "rnd"), ("e-mz", "counts")])
def test_training_is_the_same_where_equal_work_is_not_saved(
    agent: str, novelty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to rounding, in the first updates: a length is chosen for both seeds, and sums have another order."""
    chosen = settings("deep-sea", agent, {"novelty.kind": novelty, "evaluation.every": 60})

    def first_chunk() -> Any:
        one: Any = CATALOGUE.trainer("deep-sea", agent, chosen, (0, 1))
        return advanced(one, one.init(), 1)[1][0].metrics

    saved = first_chunk()
    for module in ("emcts.novelty.rnd", "emcts.agents.mcts.update"):
        monkeypatch.setattr(f"{module}.saves_work", lambda: False)
    each = first_chunk()
    assert np.isfinite(saved["loss"]).all()
    for name in saved:
        np.testing.assert_allclose(saved[name], each[name], rtol=1e-3, atol=1e-5, err_msg=name)
