"""Speed of whole training: what a measurement reports, and that its cases exist."""

import json
from pathlib import Path

import pytest

from benchmarks import train as benchmark


@pytest.mark.long
def test_a_tiny_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_cases_can_be_composed() -> None:
    for case in (*benchmark.CPU, *benchmark.GPU):
        if case.environment != "minatar-breakout":
            assert case.trainer().seeds == tuple(range(case.seeds))


def test_an_agent_without_a_search_is_measured_without_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {
        "env.size": 5,
        "ensemble.size": 5,
        "replay.batch_size": 32,
        "replay.capacity": 2000,
        "schedule.warmup_steps": 40,
        "evaluation.every": 100,
    }
    monkeypatch.setattr(
        benchmark, "SMOKE", (benchmark.Case("deep-sea", "default", 2, changes, agent="bdqn"),)
    )
    benchmark.main(smoke=True, out=tmp_path / "train.json")
    (row,) = json.loads((tmp_path / "train.json").read_text())["cases"]
    assert row["steps_per_second"] == pytest.approx(2 / (row["iteration_ms"] / 1e3))
    assert not any(name.endswith("_share") for name in row)
    assert f"{row['iteration_ms']:,.1f}" in capsys.readouterr().out
