"""Deep Sea of 70 and 100 rows: its sweep, its tables of made-up runs, and its episodes of stored results."""

import csv
from pathlib import Path

import numpy as np
import pytest

from emcts.agents.catalogue import installed
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.tables import number, stored_results, where
from emcts.experiments.beyond import EXPERIMENTS, deep_sea_100
from emcts.experiments.beyond.deep_sea_100 import EXPERIMENT, OTHERS, PLANNER, analyse, draw
from emcts.experiments.paper import exact_novelty
from emcts.models.codecs import PAPER
from emcts.models.ube import horizon_factor
from tests.experiments.paper.test_smoke import smoke
from tests.experiments.specs import made_up_run

CATALOGUE = installed()
SPECS = {spec.name: spec for spec in EXPERIMENT.specs}


def test_the_rows_can_be_trained() -> None:
    assert EXPERIMENTS["deep-sea-100"] is EXPERIMENT
    assert len(SPECS) == len(EXPERIMENT.specs) == 6
    for spec in EXPERIMENT.specs:
        trainer = CATALOGUE.trainer("deep-sea", spec.agent, spec.settings(CATALOGUE), (1000, 1001))
        assert trainer.total_env_steps == spec.changes[paths.STEPS]
        assert spec.with_paper_settings().settings(CATALOGUE).env.size == spec.changes[paths.SIZE]
    assert set(EXPERIMENT.smoke) <= set(SPECS)
    small = EXPERIMENT.for_smoke_test(CATALOGUE, ())
    assert small.title == "smoke test, Deep Sea 4 x 4"
    assert [spec.name for spec in small.specs] == ["deep-sea-4-e-az-counts", "deep-sea-4-e-mz-abstracted"]


def test_e_az_with_counts_gets_twice_the_steps_of_the_planner() -> None:
    for size in deep_sea_100.SIZES:
        steps = deep_sea_100.planner_steps(size).mean()
        assert 2 * steps <= SPECS[f"deep-sea-{size}-e-az-counts"].changes[paths.STEPS] <= 2.1 * steps


@pytest.mark.parametrize("name", SPECS)
def test_the_head_of_the_uncertainty_represents_a_way_that_is_all_new(name: str) -> None:
    settings = SPECS[name].settings(CATALOGUE)
    steps = horizon_factor(settings.search.discount, settings.env.size)
    assert PAPER.represents(settings.novelty.unseen_variance * steps)
    preset = CATALOGUE.settings("deep-sea", SPECS[name].agent)
    assert not PAPER.represents(preset.novelty.unseen_variance * steps), "as the preset's would not"


def made_up_group(tmp_path: Path, name: str, firsts: dict[int, int | None], steps: int) -> RunGroup:
    """A spec at size 4, of which half of the episodes explore."""
    lines = [
        {"seed": seed, "env_steps": step, "states_discovered": 2.0 * part}
        for part, step in enumerate((steps // 2, steps), 1)
        for seed in firsts
    ]
    ends = [
        {"seed": seed, "env_steps": steps, "first_reward_step": first, "regret_step": first and 2 * first}
        for seed, first in firsts.items()
    ]
    settings = {paths.SIZE: 4, paths.NUM_EXPLOITING: 1, paths.NUM_ENVS: 2}
    run = made_up_run(tmp_path / name, lines, ends, agent=SPECS[name].agent, settings=settings)
    return RunGroup(SPECS[name], (run,))


def test_tables_of_runs_beside_the_planner(tmp_path: Path) -> None:
    planner = exact_novelty.steps_of_seeds(4, 5, exact_novelty.HALF).mean()
    late = int(2 * planner)
    ours = made_up_group(tmp_path, "deep-sea-70-e-az-counts", {1000: 40, 1001: late, 1002: None}, 400)
    tables = analyse([ours])
    (row,) = where(tables["summary"], row="deep-sea-70-e-az-counts")
    assert (row["found"], row["seeds"], row["within_target"]) == (2, 3, 1)
    assert row["target_steps"] == pytest.approx(1.5 * planner)
    assert row["mean_over_planner"] == pytest.approx((40 + late) / 2 / planner)
    assert row["states_discovered"] == 4
    (floor,) = where(tables["summary"], label=PLANNER)
    assert floor["mean_of_found"] == planner
    (episodes,) = where(tables["episodes"], row="deep-sea-70-e-az-counts")
    assert episodes["episodes"] == pytest.approx((40 + late) / 2 / (2 * 4))
    assert episodes["slowest"] == pytest.approx(late / (2 * 4))
    assert episodes["episodes_to_90_percent_regret"] == pytest.approx((40 + late) / (2 * 4))
    assert {row["label"] for row in tables["curves"]} == {"E-AZ, counts, 4 x 4"}
    assert len(draw(tables).axes) == 2


def test_episodes_of_stored_results_stand_beside_published_ones() -> None:
    rows = deep_sea_100.episodes_of_stored_results()
    assert [(row["size"], row["episodes"]) for row in where(rows, label=OTHERS)] == [
        (10, 33),
        (20, 155),
        (30, 353),
        (40, 574),
    ]
    with (stored_results() / "figure-2-left" / "seeds.csv").open(newline="") as stream:
        seeds = list(csv.DictReader(stream))
    steps_of_one = {"deep-sea-20-e-az": 40, "deep-sea-20-e-mz-abstracted": 40, "deep-sea-10-bdqn": 10}
    for name, steps in steps_of_one.items():
        first = [float(seed["first_goal_step"]) for seed in seeds if seed["row"] == name]
        (row,) = (row for row in rows if row["row"] == name)
        assert number(row["episodes"]) == pytest.approx(np.mean(first) / steps)
    names = [row["row"] for row in rows]
    assert len(names) == len(set(names))
    assert not {"deep-sea-10-az", "deep-sea-40-mz-anchored"} & set(names), (
        "no episode of theirs is to explore"
    )


@pytest.mark.long
def test_the_smoke_test(tmp_path: Path) -> None:
    results = smoke("deep-sea-100", tmp_path)
    summary = (results / "summary.csv").read_text()
    assert "deep-sea-4-e-az-counts," in summary
    assert "perfect-novelty-4," in summary
    assert "published" in (results / "episodes.csv").read_text()
