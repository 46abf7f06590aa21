"""The sweeps on SUBLEQ and MinAtar for real, made small; those in Deep Sea are tested with their command."""

import json
from pathlib import Path

import pytest

from emcts.cli import main


def smoke(name: str, folder: Path) -> Path:
    main(["reproduce", name, "--smoke", "--out", str(folder)])
    results = folder / "results" / name
    made = json.loads((results / "made.json").read_text())
    assert all(run["state"] == "finished" and run["differs"] == {} for run in made["runs"])
    assert 5_000 < (results / f"{name}.png").stat().st_size < 300_000
    return results


def test_figure_1_beside_enumeration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = smoke("figure-1", tmp_path)
    assert "14 13" in capsys.readouterr().out
    assert "negate-positives,3,4096," in (results / "enumeration.csv").read_text()
    curves = (results / "curves.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in curves[1:]] == [
        ["negate-positives-e-az-io", '"negate-positives: E-AZ']
    ] * 2


def test_figure_5(tmp_path: Path) -> None:
    pytest.importorskip("pgx")
    results = smoke("figure-5", tmp_path)
    assert "minatar-breakout-e-az,minatar-breakout: E-AZ,2,128," in (results / "summary.csv").read_text()
