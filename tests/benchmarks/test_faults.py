"""The simulations of wrong uncertainty, and the chart on which they stand beside trained agents."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.heads_chart import main as draw_chart

from benchmarks import faults


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = faults.example()
    monkeypatch.setattr(module, "FAULTS", (module.Fault(), module.Fault(late=2, noise=0.2)))
    return module


def test_a_row_for_each_fault_and_way(tiny: Any, tmp_path: Path) -> None:
    out = tmp_path / "faults.csv"
    faults.main(size=4, seeds=2, ways=["one-step lookahead", "max"], out=out)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["late"], row["noise"], row["acting"]) for row in rows] == [
        ("0", "0.0", "one-step lookahead"),
        ("0", "0.0", "max"),
        ("2", "0.2", "one-step lookahead"),
        ("2", "0.2", "max"),
    ]
    assert all(row["found"] == "2" and float(row["mean"]) >= 8 for row in rows)
    made = json.loads(out.with_suffix(".json").read_text())
    assert made["command"] == 'emcts bench faults --size 4 --seeds 2 --ways "one-step lookahead" "max"'
    heads = tmp_path / "heads.json"
    row = {"row": "e-az-counts 4", "age": 1.5, "noise": 0.3, "mean_first_goal": None}
    heads.write_text(json.dumps({"rows": [row, row | {"mean_first_goal": 80.0}]}))
    draw_chart(heads, out, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 5_000


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no column 'median'"):
        faults.rows(4, 1, ["median"])
