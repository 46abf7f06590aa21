"""The rows of the benchmark of worlds, and when a seed is done."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.worlds import FIRST_SEED, WORLDS, _chosen

from emcts.envs.references import parse_reference

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "results" / "worlds.md", ROOT / "results" / "worlds"


def test_every_row_names_an_environment_and_agents() -> None:
    for world in WORLDS.values():
        parse_reference(world.reference)
        assert world.agents
        assert not set(world.agents) & set(world.baselines)


def test_rows_are_chosen_by_world_or_by_agent() -> None:
    assert _chosen(["rooms"]) == [("rooms", "e-az"), ("rooms", "az")]
    assert _chosen(["cart-pole:e-mz"]) == [("cart-pole", "e-mz")]
    assert len(_chosen([])) == sum(len(world.agents) + len(world.baselines) for world in WORLDS.values())
    with pytest.raises(ValueError, match="there is no row 'rome'"):
        _chosen(["rome"])


def test_a_seed_is_done_at_its_target() -> None:
    metrics = {"return": np.array([-140.0, -125.0, 500.0]), "solved": np.array([1.0, 0.5, np.nan])}
    assert WORLDS["mountain-car"].done(metrics, 0).tolist() == [False, True, True]
    assert WORLDS["door-key"].done(metrics, 0).tolist() == [True, False, False]
    assert WORLDS["2048"].done(metrics, 100.0).tolist() == [False, False, True]


def _rows() -> list[tuple[str, str, str]]:
    """Returns file, seeds and steps of each row of the page."""
    row = r"\[[A-Z-]+\]\(\.\./\.\./results/worlds/(.*)\.json\) \| (.*) \| (.*) \|"
    return re.findall(row, PAGE.read_text())


def test_the_page_has_every_file() -> None:
    assert sorted(file for file, _, _ in _rows()) == sorted(file.stem for file in RESULTS.glob("*.json"))


@pytest.mark.parametrize(("file", "seeds", "steps"), _rows())
def test_the_page_says_what_the_files_have(file: str, seeds: str, steps: str) -> None:
    record = json.loads((RESULTS / f"{file}.json").read_text())
    done = [step for step in record["done_step"] if step is not None]
    assert record["seeds"] == list(range(FIRST_SEED, FIRST_SEED + 5))
    assert seeds == f"{len(done)} of {len(record['seeds'])}"
    if done:
        assert steps == f"{min(done):,} to {max(done):,}"
        return
    assert steps.endswith(f" by {record['curve'][-1]['env_steps']:,}")
    if steps.startswith("no reward"):
        assert record["first_reward_step"] == [None] * 5
    target = WORLDS[record["world"]]
    for point in record["curve"]:
        values = np.array(point["return"])
        reached = target.done({"return": values, "solved": values}, record["untrained_return"])
        assert not reached.any()


def _curve(file: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    curve = json.loads((RESULTS / f"{file}.json").read_text())["curve"]
    values = [[np.nan if value is None else value for value in point[name]] for point in curve]
    return np.array([point["env_steps"] for point in curve]), np.array(values)


def test_the_tables_of_missed_targets_are_means_of_the_files() -> None:
    text = PAGE.read_text()
    quarters = re.findall(r"^\| to ([\d,]+) \| (.*) \| (.*) \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert len(quarters) == 4
    low = 0
    for to, *shown in quarters:
        high = int(to.replace(",", ""))
        expected = []
        for file, names in (
            ("e-az", ("return", "train_return", "uncertainty")),
            ("az", ("return", "train_return")),
        ):
            for name in names:
                steps, values = _curve(f"door-key-{file}", name)
                if name == "return":  # eight episodes: those that are solved return at least 0.94
                    values = np.round(values * 8 / 0.97) / 8
                expected.append(f"{np.nanmean(values[(steps > low) & (steps <= high)]):.2f}")
        assert shown == expected
        low = high
    parts = re.findall(r"^\| ([\d,]+ to|to) ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
    assert len(parts) == 4
    for first, to, *shown in parts:
        low, high = (
            int(step.removesuffix(" to").replace(",", "").replace("to", "0")) for step in (first, to)
        )
        curves = [_curve("2048-az", name) for name in ("return", "train_return")]
        means = [np.nanmean(values[(steps >= low) & (steps <= high)]) for steps, values in curves]
        assert shown == [f"{mean:,.0f}" for mean in means]
