"""Smoke tests of the sweeps on SUBLEQ and MinAtar; those on Deep Sea are tested with their command.

Each runs in a process of its own, as a user runs it, without the checks of shapes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def smoke(name: str, folder: Path, *options: str) -> Path:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    changes = {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "emcts", "reproduce", name, "--smoke", *options]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **changes}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results = folder / "runs" / "smoke" / "results" / name
    provenance = json.loads((results / "made.json").read_text())
    assert all(run["state"] == "finished" and run["differs"] == {} for run in provenance["runs"])
    assert provenance["command"] == " ".join(["emcts", *command[3:]])
    assert 5_000 < (results / f"{name}.png").stat().st_size < 300_000
    return results


@pytest.mark.long
def test_figure_1_beside_enumeration(tmp_path: Path) -> None:
    results = smoke("figure-1", tmp_path)
    assert "negate-positives,3,4096," in (results / "enumeration.csv").read_text()
    assert ",14 13,239," in (results / "enumeration.csv").read_text()
    curves = (results / "curves.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in curves] == ["row"] + 2 * ["negate-positives-e-az-io"]


@pytest.mark.long
def test_figure_5(tmp_path: Path) -> None:
    pytest.importorskip("pgx")
    results = smoke("figure-5", tmp_path, "--agents", "az", "--rows", "minatar-breakout-az")
    assert "minatar-breakout-az,minatar-breakout: AZ,2,128," in (results / "summary.csv").read_text()
