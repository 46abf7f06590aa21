"""Results on the disk: tables are read as they were written."""

import math
from pathlib import Path

import pytest

from emcts.experiments.analysis.tables import Results, Table, number, unique, where


def test_tables_come_back_as_they_were(tmp_path: Path) -> None:
    results = Results(tmp_path / "new" / "table-1")
    table: Table = [
        {"label": "E-AZ, RND", "steps": 8299.0, "share": 0.123456789, "never": None},
        {"label": 'a "quoted" name', "steps": math.inf, "share": math.nan, "never": 3},
    ]
    results.write({"summary": table, "nothing": []}, {"command": "x", "runs": []})
    (read,) = results.read().values()
    assert read[0] == {"label": "E-AZ, RND", "steps": 8299, "share": 0.123457, "never": None}
    assert read[1] == {"label": 'a "quoted" name', "steps": math.inf, "share": None, "never": 3}
    assert (tmp_path / "new" / "table-1" / "summary.csv").read_text().startswith("label,steps,share,never\n")
    assert results.provenance() == {"command": "x", "runs": []}


def test_lines_with_other_columns_fit_into_one_file(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write({"summary": [{"row": "a"}, {"row": "b", "paper": 5}]}, {})
    assert results.read()["summary"] == [{"row": "a", "paper": None}, {"row": "b", "paper": 5}]


def test_cells() -> None:
    table: Table = [{"row": "a", "seed": 0}, {"row": "b", "seed": 0}, {"row": "a", "seed": 1}]
    assert where(table, row="a", seed=1) == [table[2]]
    assert unique(table, "row") == ["a", "b"]
    assert math.isnan(number(None))
    with pytest.raises(ValueError, match="'x' is not a number"):
        number("x")


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results in .*nowhere: run the sweep first"):
        Results(tmp_path / "nowhere").read()
