"""The sweeps as the paper describes them: agents, seeds and sizes; and that all of it can be trained."""

from collections import Counter

import pytest

from emcts.agents import catalogue
from emcts.cli.reproduce import EXPERIMENTS
from emcts.experiments import figure_1, figure_2_right, table_1
from emcts.experiments.deep_sea_rows import sooner
from emcts.experiments.experiment import SMALL


def test_the_names() -> None:
    assert set(EXPERIMENTS) == {
        "table-1",
        *(f"figure-{number}" for number in (1, 3, 4, 5)),
        *(f"figure-2-{part}" for part in ("left", "middle", "right")),
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_can_be_trained_and_told_apart(name: str) -> None:
    rows = EXPERIMENTS[name].rows
    assert max(Counter(row.name for row in rows).values()) == 1
    for row in rows:
        settings = row.settings(catalogue)
        assert settings.total_env_steps > 0
        assert row.with_paper_settings().settings(catalogue).total_env_steps > 0
    assert set(EXPERIMENTS[name].smoke) <= {row.name for row in rows}
    small = EXPERIMENTS[name].made_small(catalogue, ())
    assert len(small.rows) == len(EXPERIMENTS[name].smoke) > 0


def test_the_paper_s_numbers_of_seeds() -> None:
    seeds = {name: {row.seeds for row in one.rows} for name, one in EXPERIMENTS.items()}
    assert seeds == {
        "figure-1": {15},
        "figure-2-left": {5},
        "figure-2-middle": {10},
        "figure-2-right": {3},
        "figure-3": {20},
        "figure-4": {20},
        "table-1": {20},
        "figure-5": {10},
    }


def test_what_each_sweep_varies() -> None:
    left = EXPERIMENTS["figure-2-left"].rows
    assert {row.changes["size"] for row in left} == {10, 20, 30, 40, 50}
    assert {row.agent for row in left} == {"e-az", "az-ube", "az", "e-mz", "mz-ube", "bdqn"}
    assert all(
        row.changes["stochastic"] and row.changes["size"] == 50 for row in EXPERIMENTS["figure-2-middle"].rows
    )
    betas = [row.changes["beta"] for row in EXPERIMENTS["figure-2-right"].rows]
    assert tuple(betas) == figure_2_right.BETAS
    assert {row.changes["task"] for row in figure_1.EXPERIMENT.rows} == {"negate-positives", "identity"}
    assert {row.environment for row in EXPERIMENTS["figure-5"].rows} >= {
        "minatar-breakout",
        "minatar-asterix",
    }


def test_table_1_has_the_paper_s_nine_rows() -> None:
    assert len(table_1.PAPER) == 9
    assert set(table_1.PAPER) == set(table_1.ROWS)
    assert table_1.ROWS["anchored-ube"].changes["model"] == "anchored"
    names = {row.name for row in EXPERIMENTS["table-1"].rows}
    assert {row.name for row in EXPERIMENTS["figure-4"].rows} < names, "whose runs it shares"
    assert {sooner(40, model).later for model in ("true", "abstracted", "anchored")} < names


def test_smoke_settings_are_the_agents_own() -> None:
    """Each of them is a setting of some agent there, else it does nothing."""
    for kind, small in SMALL.items():
        rows = [row for one in EXPERIMENTS.values() for row in one.rows if row.environment.startswith(kind)]
        known = {name for row in rows for name in vars(row.settings(catalogue))}
        assert set(small) <= known
