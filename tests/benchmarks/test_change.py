"""The time of an iteration before and after a change: what a measurement reports."""

import json
from pathlib import Path

import pytest

from benchmarks import change


def test_cases_are_checked_before_anything_is_measured() -> None:
    with pytest.raises(ValueError, match=r"rows \['e-xz'\] do not exist: name some of e-az-rnd"):
        change.main(since="HEAD", rows=("e-xz",))


def test_a_process_that_ends_is_an_error() -> None:
    command = ["nowhere.npz", "no-such-agent", "{}", "1"]
    with (
        change._process(Path(__file__).parents[2], command) as process,
        pytest.raises(RuntimeError, match="a process ended with 1"),
    ):
        change._answer(process)


@pytest.mark.long
def test_a_tiny_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change.main(since="HEAD", rows=("e-az-rnd",), smoke=True, out=tmp_path / "change.json")
    assert "e-az-rnd" in capsys.readouterr().out
    (case,) = json.loads((tmp_path / "change.json").read_text())["cases"]
    parts = sum(case[f"{part}_cpu_ms_after"] for part in change.PARTS)
    assert case["cpu_ms_after"] == pytest.approx(parts)
    assert case["updates_cpu_ms_before"] > 0
