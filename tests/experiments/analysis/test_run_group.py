"""The runs of a spec as one sample: seed by seed, over several folders, with their provenance."""

from pathlib import Path

import numpy as np
import pytest

from emcts.experiments.analysis.curves import curves_table, levels_table
from emcts.experiments.analysis.first_times import summary_table
from emcts.experiments.analysis.run_group import relative
from tests.experiments.specs import WALKER, group, made_up_run


def test_two_folders_of_a_spec_are_one_sample(tmp_path: Path) -> None:
    lines = [{"seed": 2, "env_steps": 100, "return": 0.25}, {"seed": 2, "env_steps": 300, "return": 0.75}]
    late = made_up_run(tmp_path / "b", lines, [{"seed": 2, "env_steps": 300}])
    early = made_up_run(
        tmp_path / "a",
        [
            {"seed": 0, "env_steps": 100, "return": 0.0},
            {"seed": 1, "env_steps": 100, "return": 1.0},
            {"seed": 0, "env_steps": 200, "return": 0.5},
            {"seed": 1, "env_steps": 200, "return": 1.0},
        ],
        [
            {"seed": 0, "env_steps": 200, "first_reward_step": 150, "regret_step": 130, "final_return": 0.5},
            {"seed": 1, "env_steps": 200},
        ],
    )
    both = group(WALKER, late, early)
    assert [(line["seed"], line["first_goal_step"], line["regret_step"]) for line in both.seeds()] == [
        (0, 150, 130),
        (1, None, None),
        (2, None, None),
    ]
    whole = both.curve("return")
    assert whole is not None
    np.testing.assert_array_equal(whole.env_steps, [100, 200, 300])
    np.testing.assert_array_equal(
        whole.values, [[0.25, np.nan, 0.75], [0.0, 0.5, np.nan], [1.0, 1.0, np.nan]]
    )
    assert both.curve("states_discovered") is None
    (table,) = (curves_table([both], ["return", "states_discovered"]),)
    assert [line["seeds"] for line in table] == [3, 2, 1]
    assert table[0]["mean"] == pytest.approx(1.25 / 3)
    assert table[0]["median"] == 0.25
    (levels,) = levels_table([both], "return", [0.5, 0.9])
    assert (levels["reaches_0.5"], levels["reaches_0.9"], levels["last_mean"]) == (200, None, 0.75)


def test_simulator_steps_beside_environment_steps(tmp_path: Path) -> None:
    """40 for each step, and from step 100 on 160 more."""
    taken = {100: 4_000, 200: 24_000, 300: 44_000}
    lines = [
        {"seed": seed, "env_steps": step, "simulator_steps": count, "return": 0.5}
        for step, count in taken.items()
        for seed in (0, 1)
    ]
    ends = [
        {"seed": 0, "env_steps": 300, "first_reward_step": 50, "solved_step": 250, "simulator_steps": 44_000},
        {"seed": 1, "env_steps": 300, "first_reward_step": 150, "simulator_steps": 44_000},
    ]
    one = group(WALKER, made_up_run(tmp_path / "a", lines, ends))
    first, second = seeds = one.seeds()
    assert (first["first_goal_simulator_steps"], first["solved_simulator_steps"]) == (2_000, 34_000)
    assert (second["first_goal_simulator_steps"], second["solved_simulator_steps"]) == (14_000, None)
    (summary,) = summary_table(seeds, "first_goal_step")
    assert (summary["mean_of_found"], summary["simulator_steps_of_found"]) == (100, 8_000)
    assert (summary["steps_run"], summary["simulator_steps_run"]) == (300, 44_000)
    (levels,) = levels_table([one], "return", [0.5])
    assert (levels["steps_run"], levels["simulator_steps_run"]) == (300, 44_000)
    (made,) = one.provenance()
    assert (made["env_steps"], made["simulator_steps"]) == (300, 44_000)

    before = group(WALKER, made_up_run(tmp_path / "b", [], [{"seed": 0, "first_reward_step": 9}]))
    (summary,) = summary_table(before.seeds(), "first_goal_step")
    assert (summary["mean_of_found"], summary["simulator_steps_of_found"]) == (9, None), (
        "it did not count them"
    )


def test_provenance_without_folders_of_the_machine(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path / "a", [], [{"seed": 3, "env_steps": 200, "seconds": 7.5}])
    (made,) = group(WALKER, folder).provenance()
    assert made["command"] == "emcts train --out a"
    assert (made["row"], made["seeds"], made["env_steps"], made["seconds"]) == ("walk", [3], 200, 7.5)
    assert relative("emcts train --out runs/x") == "emcts train --out runs/x"
