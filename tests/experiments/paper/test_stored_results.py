"""The results in the repository: they draw without runs, and have their provenance."""

import json
import shutil
from pathlib import Path

import pytest

from emcts.cli import main
from emcts.experiments.beyond import EXPERIMENTS as BEYOND
from emcts.experiments.paper import EXPERIMENTS

STORED = Path(__file__).parents[3] / "results"
WORLDS = STORED / "worlds"  # of a benchmark; all others are of `emcts reproduce`
NAMES = sorted(folder.name for folder in STORED.iterdir() if folder.is_dir() and folder != WORLDS)


@pytest.mark.parametrize("name", NAMES)
def test_stored_results_draw_without_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(STORED / name, tmp_path / "results" / name, ignore=shutil.ignore_patterns("*.png"))
    settings = ["--paper-settings"] if name.endswith("-paper") else []
    main(["reproduce", name.removesuffix("-paper"), "--from-results", *settings])
    assert f"figure results/{name}/{name}.png" in capsys.readouterr().out
    assert 10_000 < (tmp_path / "results" / name / f"{name}.png").stat().st_size < 300_000


@pytest.mark.parametrize("name", NAMES)
def test_stored_results_have_their_provenance(name: str) -> None:
    provenance = json.loads((STORED / name / "made.json").read_text())
    assert provenance["experiment"] == name
    experiments = {**EXPERIMENTS, **BEYOND}
    specs = {spec.name for spec in experiments[name.removesuffix("-paper")].specs}
    for run in provenance["runs"]:
        assert run["row"] in specs
        assert run["seeds"]
        assert run["env_steps"] > 0
        assert all(run[what] for what in ("command", "commit", "device", "state"))
    assert (STORED / name / f"{name}.png").stat().st_size < 300_000


@pytest.mark.parametrize("path", sorted(WORLDS.iterdir()), ids=lambda path: path.stem)
def test_rows_of_the_benchmark_have_their_provenance(path: Path) -> None:
    record = json.loads(path.read_text())
    assert path.stem == f"{record['world']}-{record['agent']}"
    assert record["command"].endswith(f"--rows {record['world']}:{record['agent']}")
    assert all(record[what] for what in ("commit", "device", "settings", "curve"))
    assert min(record["seeds"]) >= 1000, "seeds that no setting was chosen on"
    assert len(record["seeds"]) == len(record["done_step"])
