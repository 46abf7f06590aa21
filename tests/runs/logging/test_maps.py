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
