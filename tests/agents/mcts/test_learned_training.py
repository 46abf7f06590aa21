"""Whole trainings of agents that plan with a learned model: Deep Sea is solved, and runs resume."""

from pathlib import Path

import numpy as np
import pytest

from tests.agents.tiny import CATALOGUE, advanced, assert_resumes, settings, table, trainer

pytestmark = pytest.mark.usefixtures("key_reuse_checked")
LOSSES = (
    "loss",
    "loss_value",
    "loss_policy",
    "loss_ube",
    "loss_reward",
    "loss_continuation",
    "loss_consistency",
)


@pytest.mark.long
def test_e_mz_solves_deep_sea() -> None:
    one = trainer("deep-sea", "e-mz")
    _, reports = advanced(one, one.init(), 10)
    np.testing.assert_allclose(reports[-1].metrics["return"], 0.99, atol=1e-4)
    assert np.all(table(reports, "states_discovered")[-1] == 15)
    for name in ("loss_reward", "loss_continuation", "loss_consistency", "uncertainty"):
        assert np.all(table(reports, name)[-1] < 0.5 * table(reports, name)[0]), name


@pytest.mark.parametrize(
    ("agent", "preset"),
    [
        ("e-mz", None),
        pytest.param("mz-ube", "anchored", marks=pytest.mark.long),
        pytest.param("mz", None, marks=pytest.mark.long),
    ],
)
def test_a_resumed_training_equals_an_uninterrupted_one(
    agent: str, preset: str | None, tmp_path: Path
) -> None:
    one = trainer("deep-sea", agent, novelty="counts" if preset else None, preset=preset)
    reports = assert_resumes(one, tmp_path)
    assert np.isfinite([table(reports, name) for name in LOSSES]).all()
    assert np.any(table(reports, "loss_ube") > 0) == (agent != "mz")
    assert np.all(table(reports, "loss_consistency") > 0)


@pytest.mark.long
def test_disagreement_vanishes_and_all_states_are_discovered() -> None:
    """With appendix B's rule on top, which makes the start more uncertain."""
    changes = {"novelty.kind": "ensemble", "novelty.ensemble_hidden": (32, 32), "model.beyond_known": True}
    one = CATALOGUE.trainer("deep-sea", "e-mz", settings("deep-sea", "e-mz", changes), (0,))
    _, reports = advanced(one, one.init(), 8)
    uncertainty = table(reports, "uncertainty")
    assert uncertainty[-1] < 0.5 * uncertainty[0]
    assert table(reports, "states_discovered")[-1] == 15
