"""What is read off run folders: seed by seed, over several folders, and first times in tables."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emcts.experiments.curves import areas_table, curves_table, levels_table
from emcts.experiments.evidence import relative
from emcts.experiments.first_times import Claim, claims_table, summary_table, survival_table
from tests.experiments.toys import RUNNER, WALKER, evidence, made_up_run


def episodes(seed: int, env_steps: int, count: int, mean: float, **more: float) -> dict[str, Any]:
    return {"seed": seed, "env_steps": env_steps, "episodes": float(count), "train_return": mean, **more}


def test_two_folders_of_a_row_are_one_sample(tmp_path: Path) -> None:
    lines = [episodes(2, 100, 5, 0.0, **{"return": 0.25}), episodes(2, 300, 5, 0.0, **{"return": 0.75})]
    late = made_up_run(tmp_path / "b", lines, [{"seed": 2, "env_steps": 300}])
    early = made_up_run(
        tmp_path / "a",
        [
            episodes(0, 100, 10, 0.0, **{"return": 0.0}),
            episodes(1, 100, 10, 0.09, **{"return": 1.0}),
            episodes(0, 200, 10, 0.22, **{"return": 0.5}),
            episodes(1, 200, 10, 0.09, **{"return": 1.0}),
        ],
        [
            {"seed": 0, "env_steps": 200, "first_reward_step": 150, "final_return": 0.5},
            {"seed": 1, "env_steps": 200},
        ],
    )
    both = evidence(WALKER, late, early)
    assert [(line["seed"], line["first_goal_step"], line["regret_step"]) for line in both.seeds()] == [
        # 0.22 of 10 of 20 episodes is 0.11, over 0.99 is a regret of 8/9; 0.09 is one of 10/11.
        (0, 150, 200),
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


def test_runs_that_kept_their_regret_are_believed(tmp_path: Path) -> None:
    """The chunks say 200; a run that kept the step of the episode knows better, and knows that it never came."""
    lines = [episodes(seed, 200, 10, 0.5) for seed in (0, 1, 2)]
    ends: list[dict[str, Any]] = [
        {"seed": 0, "regret_step": 130},
        {"seed": 1, "regret_step": None},
        {"seed": 2},
    ]
    one = made_up_run(tmp_path / "a", lines, ends)
    assert [line["regret_step"] for line in evidence(WALKER, one).seeds()] == [130, None, 200]
    noisy = made_up_run(tmp_path / "b", lines[:1], [{"seed": 0}], settings={"stochastic": True})
    assert evidence(WALKER, noisy).seeds()[0]["regret_step"] is None, "noisy returns are no regret"


def test_simulator_steps_stand_beside_environment_steps(tmp_path: Path) -> None:
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
    one = evidence(WALKER, made_up_run(tmp_path / "a", lines, ends))
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

    before = evidence(WALKER, made_up_run(tmp_path / "b", [], [{"seed": 0, "first_reward_step": 9}]))
    (summary,) = summary_table(before.seeds(), "first_goal_step")
    assert (summary["mean_of_found"], summary["simulator_steps_of_found"]) == (9, None), (
        "it did not count them"
    )


def test_where_runs_were_made_is_kept_and_machines_are_not(tmp_path: Path) -> None:
    folder = made_up_run(tmp_path / "a", [], [{"seed": 3, "env_steps": 200, "seconds": 7.5}])
    (made,) = evidence(WALKER, folder).provenance()
    assert made["command"] == "emcts train --out a"
    assert (made["row"], made["seeds"], made["env_steps"], made["seconds"]) == ("walk", [3], 200, 7.5)
    assert relative("emcts train --out runs/x") == "emcts train --out runs/x"


def seeds_of(row: str, *steps: float) -> list[dict[str, Any]]:
    """First times; below 0 is a seed that was followed so far without."""
    return [
        {
            "row": row,
            "label": row.upper(),
            "seed": seed,
            "env_steps": abs(step),
            "first": step if step > 0 else None,
        }
        for seed, step in enumerate(steps)
    ]


def test_first_times_with_unfinished_seeds() -> None:
    seeds = [*seeds_of("a", 10, 20, 30, 40), *seeds_of("b", 30, -50, -50, 40), *seeds_of("c", -60, -60)]
    a, b, c = summary_table(seeds, "first", {"b": {"paper_mean": 99.0}})
    assert (a["seeds"], a["found"], a["mean_of_found"], a["median"]) == (4, 4, 25, 25)
    assert (b["seeds"], b["found"], b["mean_of_found"], b["median"]) == (4, 2, 35, math.inf)
    assert b["paper_mean"] == 99
    assert [line["horizon"] for line in (a, b, c)] == [50] * 3, "what all were followed to"
    assert (a["restricted_mean"], b["restricted_mean"], c["restricted_mean"]) == (25, 42.5, 50)
    assert (c["found"], c["median"]) == (0, math.inf)

    (claim,) = claims_table(seeds, "first", [Claim("a", "b"), Claim("a", "absent")])
    assert claim["difference_of_restricted_means"] == 25 - 42.5
    assert claim["seeds"] == "4 and 4"
    assert isinstance(claim["log_rank_p"], float)
    assert 0.01 < claim["log_rank_p"] < 0.1
    assert isinstance(claim["permutation_p"], float)
    assert 0.01 < claim["permutation_p"] < 0.2

    of_b = [
        (line["env_steps"], line["not_yet"]) for line in survival_table(seeds, "first") if line["row"] == "b"
    ]
    assert of_b == [(0, 1), (30, 0.75), (40, 0.5), (50, 0.5)]


def test_a_claim_does_not_rest_on_seeds_that_were_stopped_early() -> None:
    seeds = [*seeds_of("slow", -10, -10, -10, 100), *seeds_of("fast", 40, 40, 40, -100)]
    slow, fast = summary_table(seeds, "first")
    (claim,) = claims_table(seeds, "first", [Claim("slow", "fast")])
    assert (slow["restricted_mean"], fast["restricted_mean"]) == (100, 55)
    assert claim["difference_of_restricted_means"] == 100 - 55, (
        "the same as in the summary, and of the same sign"
    )


def test_areas_up_to_the_step_both_have_come_to(tmp_path: Path) -> None:
    def run(name: str, returns: dict[int, tuple[float, float]]) -> Any:
        lines = [
            {"seed": seed, "env_steps": step, "return": values[seed]}
            for step, values in returns.items()
            for seed in (0, 1)
        ]
        return made_up_run(tmp_path / name, lines, [{"seed": 0}, {"seed": 1}])

    slow = evidence(WALKER, run("slow", {100: (0.0, 0.0), 200: (0.0, 0.5), 300: (1.0, 1.0)}))
    fast = evidence(RUNNER, run("fast", {100: (0.5, 0.5), 200: (1.0, 1.0)}))
    (line,) = areas_table([slow, fast], "return", [("run", "walk"), ("run", "absent")])
    assert (line["first_mean"], line["second_mean"], line["up_to"]) == (0.75, 0.125, 200)
    assert line["permutation_p"] == 2 / 6
