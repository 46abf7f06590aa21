import json

import pytest
from benchmarks import train as benchmark


def test_a_tiny_measurement(tmp_path, capsys):
    benchmark.main(smoke=True, out=tmp_path / "new" / "train.json")
    assert "deep-sea 4 x 4" in capsys.readouterr().out
    written = json.loads((tmp_path / "new" / "train.json").read_text())
    assert {"commit", "device", "jax"} <= written.keys()
    (row,) = written["cases"]
    assert row["seeds"] == 2
    assert row["steps_per_second"] == pytest.approx(2 * 10 / (row["iteration_ms"] / 1e3))
    assert row["compile_s"] > row["iteration_ms"] / 1e3
    assert sum(row[f"{part}_share"] for part in ("acting", "reanalyse", "updates")) == pytest.approx(1)
    assert 0.1 < row["state_mib_per_seed"] < 10


def test_cases_can_be_composed():
    for case in (*benchmark.CPU, *benchmark.GPU):
        if case.environment != "minatar-breakout":
            assert case.trainer().seeds == tuple(range(case.seeds))
