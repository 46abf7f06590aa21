"""Whole trainings in MinAtar, with a simulator and with a learned model.

Key reuse is not checked: games of pgx store a key in their state, and searches use it more than once, as they should.
"""

import numpy as np
import pytest

from tests.agents.tiny import advanced, table, trainer

HEADS = ("loss_value", "loss_policy", "loss_exploration", "loss_ube")


@pytest.mark.long
def test_minatar_trains() -> None:
    one = trainer("minatar-breakout", "e-az", (0,))
    _, reports = advanced(one, one.init(), 2)
    for name in ("return", "uncertainty", "loss", *HEADS):
        assert np.isfinite(table(reports, name)).all(), name
    assert np.isnan(table(reports, "nan_step")).all()
    assert np.all(np.diff(table(reports, "states_discovered"), axis=0) > 0)
    assert np.all(table(reports, "length") <= 5)
    assert np.all(table(reports, "episodes") > 0)
    assert np.isnan([table(reports, name) for name in ("solved", "solved_step")]).all(), "it cannot be solved"


@pytest.mark.long
def test_a_model_of_minatar_is_learned() -> None:
    one = trainer("minatar-breakout", "e-mz", (0,))
    _, reports = advanced(one, one.init(), 3)
    losses = ("loss", *HEADS, "loss_reward", "loss_continuation", "loss_consistency")
    assert np.isfinite([table(reports, name) for name in (*losses, "return")]).all()
    assert np.isnan(table(reports, "nan_step")).all()
    assert table(reports, "loss_consistency")[-1] < table(reports, "loss_consistency")[0]
    assert table(reports, "uncertainty")[-1] < table(reports, "uncertainty")[0]
