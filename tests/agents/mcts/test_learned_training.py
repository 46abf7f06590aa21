"""Whole trainings with learned models: a sea that is solved, and runs that go on where they stopped."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from emcts.agents import catalogue
from tests.agents.resuming import assert_resumes
from tests.agents.tiny import LEARNED_SEA, advanced, table, trainer

LOSSES = ("loss", "loss_value", "loss_policy", "loss_ube", "loss_reward", "loss_going", "loss_drift")


@pytest.mark.usefixtures("key_reuse_checked")
def test_e_mz_solves_deep_sea() -> None:
    sea = trainer("deep-sea", "e-mz")
    _, reports = advanced(sea, sea.init(), 10)
    np.testing.assert_allclose(reports[-1].metrics["return"], 0.99, atol=1e-4)
    assert np.all(table(reports, "states_discovered")[-1] == 15)
    for name in ("loss_reward", "loss_going", "loss_drift", "uncertainty"):
        assert np.all(table(reports, name)[-1] < 0.5 * table(reports, name)[0]), name


@pytest.mark.usefixtures("key_reuse_checked")
@pytest.mark.parametrize(("agent", "preset"), [("e-mz", None), ("mz-ube", "anchored"), ("mz", None)])
def test_a_restored_run_goes_on_as_if_nothing_had_happened(
    agent: str, preset: str | None, tmp_path: Path
) -> None:
    sea = trainer("deep-sea", agent, novelty="counts" if preset else None, preset=preset)
    reports = assert_resumes(sea, tmp_path)
    assert np.isfinite([table(reports, name) for name in LOSSES]).all()
    assert np.any(table(reports, "loss_ube") > 0) == (agent != "mz")
    assert np.all(table(reports, "loss_drift") > 0)


@pytest.mark.usefixtures("key_reuse_checked")
def test_disagreement_goes_away_and_all_is_seen() -> None:
    """With appendix B's rule on top, which makes the start more uncertain."""
    settings = dataclasses.replace(
        catalogue.settings("deep-sea", "e-mz"), **LEARNED_SEA, novelty="ensemble", beyond_known=True
    )
    sea = catalogue.trainer("deep-sea", "e-mz", settings, (0,))
    _, reports = advanced(sea, sea.init(), 8)
    uncertainty = table(reports, "uncertainty")
    assert uncertainty[-1] < 0.5 * uncertainty[0]
    assert table(reports, "states_discovered")[-1] == 15


def test_minatar_is_learned_from_what_was_seen() -> None:
    game = trainer("minatar-breakout", "e-mz", (0,))
    _, reports = advanced(game, game.init(), 3)
    assert np.isfinite([table(reports, name) for name in (*LOSSES, "loss_exploration", "return")]).all()
    assert np.isnan(table(reports, "nan_step")).all()
    assert table(reports, "loss_drift")[-1] < table(reports, "loss_drift")[0]
    assert table(reports, "uncertainty")[-1] < table(reports, "uncertainty")[0]
