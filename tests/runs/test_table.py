"""The numbers behind a figure, as a file."""

import csv
from pathlib import Path

from emcts.runs.config import Config
from emcts.runs.folder import Folder
from emcts.runs.table import write_table


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
