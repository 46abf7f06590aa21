"""Snapshots of maps over a run."""

from pathlib import Path

import numpy as np

from emcts.runs.logging.maps import MapHistory


def test_maps_are_cut_and_taken_at_even_times(tmp_path: Path) -> None:
    history = MapHistory.read(tmp_path / "maps.npz")
    steps = [step for step in range(10, 3210, 10) if history.is_due(step, 3200)]
    assert steps == list(range(10, 3210, 10))  # nothing taken yet: the first is due whenever it comes
    for step in range(10, 3210, 10):
        if history.is_due(step, 3200):
            history = history.add(step, {"visits": np.full((1, 2, 2), step)})
    assert history.env_steps.tolist() == [10, *range(200, 3201, 200)]
    kept = MapHistory.read(history.file, until=500)
    assert kept.env_steps.tolist() == [10, 200, 400]
    np.testing.assert_array_equal(kept.maps["visits"][:, 0, 0, 0], [10, 200, 400])


def test_maps_are_taken_when_something_happened(tmp_path: Path) -> None:
    history = MapHistory.read(tmp_path / "maps.npz")
    moments = [35.0, 290.0, 290.0, 1213.0]
    for step in range(10, 3210, 10):
        if history.is_due(step, 3200, [moment for moment in moments if moment <= step]):
            history = history.add(step, {"visits": np.full((1, 2, 2), step)})
    assert history.env_steps.tolist() == sorted([10, 40, 290, 1220, *range(200, 3201, 200)])
    resumed = MapHistory.read(history.file, until=290)
    assert not resumed.is_due(300, 3200, moments[:3]), "what a moment has is not taken again"


def test_maps_of_moments_are_shown_before_others(tmp_path: Path) -> None:
    history = MapHistory.read(tmp_path / "maps.npz")
    assert history.chosen(5, {}) == {}
    for step in range(100, 1100, 100):
        history = history.add(step, {"visits": np.full((1, 2, 2), step)})
    assert list(history.chosen(5, {})) == [0, 2, 4, 7, 9]
    shown = history.chosen(4, {"first reward": 150.0, "solved": 800.0})
    assert shown == {0: "", 1: "first reward", 7: "solved", 9: ""}
    assert history.chosen(3, {"first reward": 120.0, "solved": 130.0, "more": 5000.0}) == {
        0: "",
        1: "first reward and solved",
        9: "",
    }
    assert history.chosen(1, {"first reward": 150.0}) == {0: ""}
