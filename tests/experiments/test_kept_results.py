"""The results in the repository: they draw without runs, and say what made them."""

import json
import shutil
from pathlib import Path

import pytest

from emcts.cli import main
from emcts.cli.reproduce import EXPERIMENTS

KEPT = Path(__file__).parents[2] / "results"
NAMES = sorted(folder.name for folder in KEPT.iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", NAMES)
def test_kept_results_draw_without_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(KEPT / name, tmp_path / "results" / name, ignore=shutil.ignore_patterns("*.png"))
    settings = ["--paper-settings"] if name.endswith("-paper") else []
    main(["reproduce", name.removesuffix("-paper"), "--from-results", *settings])
    assert f"picture results/{name}/{name}.png" in capsys.readouterr().out
    assert 10_000 < (tmp_path / "results" / name / f"{name}.png").stat().st_size < 300_000


@pytest.mark.parametrize("name", NAMES)
def test_kept_results_say_what_made_them(name: str) -> None:
    made = json.loads((KEPT / name / "made.json").read_text())
    assert made["experiment"] == name
    rows = {row.name for row in EXPERIMENTS[name.removesuffix("-paper")].rows}
    for run in made["runs"]:
        assert run["row"] in rows
        assert run["seeds"]
        assert run["env_steps"] > 0
        assert all(run[what] for what in ("command", "commit", "device", "state"))
    assert (KEPT / name / f"{name}.png").stat().st_size < 300_000
