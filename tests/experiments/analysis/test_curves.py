"""Comparison of learning curves by the area below them."""

from pathlib import Path

from emcts.experiments.analysis.curves import areas_table
from emcts.runs.folder import Folder
from tests.experiments.specs import RUNNER, WALKER, group, made_up_run


def test_areas_up_to_the_step_both_have_come_to(tmp_path: Path) -> None:
    def run(name: str, returns: dict[int, tuple[float, float]]) -> Folder:
        lines = [
            {"seed": seed, "env_steps": step, "return": values[seed]}
            for step, values in returns.items()
            for seed in (0, 1)
        ]
        return made_up_run(tmp_path / name, lines, [{"seed": 0}, {"seed": 1}])

    slow = group(WALKER, run("slow", {100: (0.0, 0.0), 200: (0.0, 0.5), 300: (1.0, 1.0)}))
    fast = group(RUNNER, run("fast", {100: (0.5, 0.5), 200: (1.0, 1.0)}))
    (line,) = areas_table([slow, fast], "return", [("run", "walk"), ("run", "absent")])
    assert (line["first_mean"], line["second_mean"], line["up_to"]) == (0.75, 0.125, 200)
    assert line["permutation_p"] == 2 / 6
