"""Learning curves read from metrics, and as a table."""

import csv
from pathlib import Path

import numpy as np

from emcts.runs.config import Config
from emcts.runs.curves import curve, write_table
from emcts.runs.folder import Folder


def test_a_table_has_means_and_standard_errors(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "run", Config("plain", "walker", None, (0, 7), {}), {})
    folder.metrics.append(
        [
            {"seed": 0, "env_steps": 10, "return": 1.0},
            {"seed": 7, "env_steps": 10, "return": 3.0},
            {"seed": 7, "env_steps": 20, "return": 5.0},
        ]
    )
    file = write_table([folder], tmp_path / "deep" / "curves.csv")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [(row["env_steps"], row["seeds"], row["mean"]) for row in rows] == [
        ("10", "2", "2"),
        ("20", "1", "5"),
    ]
    assert rows[0]["run"] == "run"
    assert rows[0]["standard_error"] == "1"


def test_curves_leave_gaps_where_a_seed_reported_nothing(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "run", Config("plain", "walker", None, (0, 7), {}), {})
    folder.metrics.append(
        [
            {"seed": 0, "env_steps": 10, "return": 1.0},
            {"seed": 7, "env_steps": 10, "return": 3.0},
            {"seed": 0, "env_steps": 20, "states_discovered": 4.0},
            {"seed": 7, "env_steps": 20, "return": 5.0},
        ]
    )
    returns = curve(folder, "return")
    assert returns is not None
    np.testing.assert_array_equal(returns.env_steps, [10, 20])
    np.testing.assert_array_equal(returns.values, [[1.0, np.nan], [3.0, 5.0]])
    np.testing.assert_array_equal(returns.mean, [2.0, 5.0])
    np.testing.assert_allclose(returns.standard_error, [1.0, 0.0])
    assert curve(folder, "uncertainty") is None
