"""The analysis of each figure, on runs with known results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.tables import TableRow, Tables
from emcts.experiments.paper import figure_1, figure_2_left, figure_2_right, figure_3, figure_5, table_1
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.paper.figure_1 import Enumeration
from emcts.runs.logging.maps import MapHistory
from tests.experiments.specs import made_up_run


def made_up(
    experiment: Experiment,
    name: str,
    folder: Path,
    firsts: Mapping[int, int | None],
    steps: int = 1000,
    settings: Mapping[str, Any] | None = None,
) -> RunGroup:
    """Returns a spec whose seeds return 1 from their first success on, and 0 before it."""
    (spec,) = (spec for spec in experiment.specs if spec.name == name)
    lines = [
        {
            "seed": seed,
            "env_steps": step,
            "return": 1.0 if first is not None and step >= first else 0.0,
        }
        for step in range(100, steps + 1, 100)
        for seed, first in firsts.items()
    ]
    ends = [
        {
            "seed": seed,
            "env_steps": steps,
            "first_reward_step": first,
            "solved_step": first,
            "regret_step": first,
            "final_return": 0.0 if first is None else 1.0,
        }
        for seed, first in firsts.items()
    ]
    run = made_up_run(
        folder / name, lines, ends, environment=spec.environment, agent=spec.agent, settings=settings
    )
    return RunGroup(spec, (run,))


def only(tables: Tables, name: str, **wanted: str) -> TableRow:
    (line,) = (
        line for line in tables[name] if all(line[column] == value for column, value in wanted.items())
    )
    return line


def test_table_1(tmp_path: Path) -> None:
    fast = dict.fromkeys(range(6), 200)
    slow: dict[int, int | None] = {**dict.fromkeys(range(4), 800), 4: None, 5: None}
    groups = [
        made_up(table_1.EXPERIMENT, "deep-sea-40-e-az", tmp_path, fast, settings={paths.SIZE: 4}),
        made_up(table_1.EXPERIMENT, "deep-sea-40-az-ube", tmp_path, slow, settings={paths.SIZE: 4}),
    ]
    tables = table_1.analyse(groups)
    late = only(tables, "summary", row="deep-sea-40-az-ube")
    assert (late["found"], late["mean_of_found"], late["restricted_mean"]) == (
        4,
        800,
        (4 * 800 + 2 * 1000) / 6,
    )
    assert (late["paper_mean"], late["paper_found_percent"]) == (22_801, 91)
    assert only(tables, "summary", row="perfect-novelty")["seeds"] == 6
    claim = only(tables, "claims", sooner="deep-sea-40-e-az")
    assert claim["later"] == "deep-sea-40-az-ube"
    assert claim["permutation_p"] == 2 / 924, "as far apart as two samples of six can be"
    assert table_1.draw(tables).axes


def test_figure_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def enumerated(task: str, words: int, *, word_size: int, signed: bool) -> Enumeration:
        asked.append((task, words))
        return Enumeration(task, words, word_size, ((14, 13),))

    monkeypatch.setattr(figure_1, "enumerate_task", enumerated)
    same: dict[str, Any] = {
        paths.TASK: "identity",
        paths.WORD_SIZE: 16,
        paths.MAX_WORDS: 10,
        paths.SIGNED: False,
    }
    groups = [
        made_up(figure_1.EXPERIMENT, "identity-e-az-io", tmp_path, {0: 300, 1: 500}, settings=same),
        made_up(figure_1.EXPERIMENT, "identity-az", tmp_path, {0: None, 1: 900}, settings=same),
    ]
    tables = figure_1.analyse(groups)
    assert asked == [("identity", 6)]
    levels = only(tables, "levels", row="identity-e-az-io")
    assert (levels["reaches_0.5"], levels["reaches_0.99"]) == (300, 500)
    assert only(tables, "levels", row="identity-az")["reaches_0.9"] is None
    assert only(tables, "enumeration", task="identity")["first_in_order"] == 239
    assert {line["what"] for line in tables["claims"]} == {"first_goal_step", "solved_step"}
    assert figure_1.draw(tables).axes[0].get_title() == "SUBLEQ identity"


def test_figure_2_left_has_a_horizon_for_each_size(tmp_path: Path) -> None:
    experiment = figure_2_left.EXPERIMENT
    groups = [
        made_up(
            experiment, "deep-sea-10-e-az", tmp_path, {0: 200, 1: 400}, steps=1000, settings={paths.SIZE: 10}
        ),
        made_up(
            experiment, "deep-sea-20-e-az", tmp_path, {0: 900, 1: None}, steps=3000, settings={paths.SIZE: 20}
        ),
    ]
    tables = figure_2_left.analyse(groups)
    small, large = tables["summary"]
    assert (small["size"], large["size"]) == (10, 20)
    assert (small["found"], small["mean_of_found"]) == (2, (200 + 400) / 2)
    assert (large["found"], large["horizon"]) == (1, 3000)
    assert [line["size"] for line in tables["floor"]] == [10, 20]
    assert figure_2_left.draw(tables).axes


def test_figure_2_right(tmp_path: Path) -> None:
    experiment = figure_2_right.EXPERIMENT
    groups = [
        made_up(
            experiment, "deep-sea-30-e-az-beta-1", tmp_path, {0: 600, 1: 600}, settings={paths.BETA: 1.0}
        ),
        made_up(
            experiment,
            "deep-sea-30-e-az-beta-0.01",
            tmp_path,
            {0: None, 1: None},
            settings={paths.BETA: 0.01},
        ),
    ]
    tables = figure_2_right.analyse(groups)
    good, bad = tables["regret"]
    assert good["last_regret"] == pytest.approx(1 - 1 / 0.99)
    assert good["average_regret"] == pytest.approx(1 - 0.5 / 0.99), "half of the evaluations were perfect"
    assert (bad["last_regret"], bad["average_regret"]) == (1, 1)
    assert figure_2_right.draw(tables).axes


def test_figure_3_tells_good_maps_from_bad(tmp_path: Path) -> None:
    """The search has the unvisited below each cell right, the head has it upside down."""
    one = made_up(
        figure_3.EXPERIMENT, "deep-sea-40-e-az", tmp_path, {0: 800, 1: None}, settings={paths.SIZE: 3}
    )
    nan = np.nan
    visits = np.array([[4, nan, nan], [4, 0, nan], [4, 0, 0]], np.float32)
    below = np.array([[2, nan, nan], [1, 2, nan], [0, 1, 1]], np.float32)
    maps = {"visits": visits, "search std": below, "UBE std": 3 - below}
    history = MapHistory.read(one.folders[0].path / "maps.npz")
    for step in (100, 500):
        history = history.add(step, {name: np.stack([grid, grid]) for name, grid in maps.items()})
    tables = figure_3.analyse([one])
    assert [line["env_steps"] for line in tables["agreement"]] == [100, 500]
    assert [line["search"] for line in tables["agreement"]] == pytest.approx([1, 1])
    assert [line["UBE head"] for line in tables["agreement"]] == pytest.approx([-1, -1])
    cell = next(line for line in tables["maps"] if (line["row"], line["column"]) == (1, 1))
    assert (cell["search std"], cell["UBE std"], cell["inverse visits"]) == (2, 1, 2)
    assert len(tables["maps"]) == 2 * 6
    assert figure_3.draw(tables).axes


def test_figure_5(tmp_path: Path) -> None:
    experiment = figure_5.EXPERIMENT
    groups = [
        made_up(experiment, "minatar-asterix-e-az", tmp_path, {0: 300, 1: None}),
        made_up(experiment, "minatar-asterix-az", tmp_path, {0: None, 1: None}),
    ]
    tables = figure_5.analyse(groups)
    assert only(tables, "summary", row="minatar-asterix-e-az")["mean"] == 0.5
    (areas,) = tables["areas"]
    assert (areas["first_mean"], areas["second_mean"]) == (0.4, 0)
    assert figure_5.draw(tables).axes[0].get_title() == "minatar-asterix"
