"""`emcts reproduce` from end to end: on toys, to test how a sweep continues, and on small Deep Sea with real agents."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from emcts.cli import main
from emcts.experiments.analysis.tables import stored_results
from tests.runs.toy import ToyTrainer


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", *arguments])
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.usefixtures("toys")
def test_from_the_sweep_to_the_figure(capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "toy"])
    out = output(capsys)
    assert "run 4 of 4: Runner, 2 seeds, in runs/reproduce/run-seeds-1000-1001" in out
    assert "sweep: 4 of 4 runs over, 100% of the steps, 0:00:00 left" in out
    assert "Walker 5 3" in out, "the first seed of each of the three runs"
    provenance = json.loads(Path("results/toy/made.json").read_text())
    assert provenance["command"] == "emcts reproduce toy"
    assert [(run["row"], run["seeds"]) for run in provenance["runs"]][-1] == ("run", [1000, 1001])
    assert {"commit", "device", "versions"} <= set(provenance)
    before = Path("results/toy/toy.png").read_bytes()
    Path("results/toy/toy.png").unlink()
    main(["reproduce", "toy", "--from-results"])
    assert Path("results/toy/toy.png").read_bytes() == before
    main(["reproduce", "toy"])
    assert "run 1 of 4" not in output(capsys), "nothing is left to run"


@pytest.mark.usefixtures("toys")
def test_a_stopped_sweep_continues(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ToyTrainer.end_chunk

    def end_chunk(self: ToyTrainer, state: Any, chunk: Any) -> Any:
        state, progress = whole(self, state, chunk)
        if self.seeds == (1002, 1003) and progress.env_steps == 300:
            os.kill(os.getpid(), signal.SIGTERM)
        return state, progress

    with monkeypatch.context() as patched:
        patched.setattr(ToyTrainer, "end_chunk", end_chunk)
        with pytest.raises(SystemExit) as caught:
            main(["reproduce", "toy", "--agents", "walker"])
    assert caught.value.code == 143
    assert "the same command continues the sweep" in output(capsys)
    assert not Path("results").exists()
    first = Path("runs/reproduce/walk-seeds-1000-1001/metrics.jsonl").stat().st_mtime_ns
    main(["reproduce", "toy", "--agents", "walker"])
    out = output(capsys)
    assert "resumes from step 300" in out
    assert Path("runs/reproduce/walk-seeds-1000-1001/metrics.jsonl").stat().st_mtime_ns == first
    assert not list(Path("runs/reproduce").glob("run-*")), "runners were not asked for"


@pytest.mark.usefixtures("toys")
def test_a_plan_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "toy", "--plan", "--seeds", "3", "--steps", "500", "--paper-settings"])
    out = output(capsys)
    assert "walk 2 3 500 1,500 unknown unknown" in out
    assert "all 3 3,000 unknown" in out
    assert "--plan --measure times it" in out
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("toys")
def test_a_plan_with_times(capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "toy", "--plan", "--measure", "--agents", "walker"])
    out = output(capsys)
    assert out.count("timing walk") == 1, "the runs of a row are timed once"
    assert "unknown" not in out
    assert "walk 3 5 1,000 5,000" in out
    assert list(Path().iterdir()) == [], "what was timed is thrown away"


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("arguments", [("--measure",), ("--measure", "--plan", "--on", "ray")])
def test_times_belong_to_a_plan_of_this_machine(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "add --plan, and leave out --on" in refused(capsys, "toy", *arguments)


@pytest.mark.usefixtures("toys")
def test_rows_by_their_names() -> None:
    main(["reproduce", "toy", "--rows", "ru*,fly"])
    assert [run.name for run in Path("runs/reproduce").iterdir()] == ["run-seeds-1000-1001"]


@pytest.mark.usefixtures("toys")
def test_runs_from_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "plain", "--agent", "walker", "--seeds", "2", "--out", "mine", "--ballast", "9"])
    main(["reproduce", "toy", "--from-runs", "mine"])
    out = output(capsys)
    assert "Walker 2 1" in out
    assert "warning: mine has other settings than walk: ballast" in out
    (run,) = json.loads(Path("results/toy/made.json").read_text())["runs"]
    assert run["differs"] == {"ballast": [9, 8]}
    main(["train", "hilly", "--agent", "walker", "--seeds", "1", "--out", "other"])
    assert "other (walker on hilly) fits no row of toy" in refused(capsys, "toy", "--from-runs", "other")


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tyo",), "unknown figure or table 'tyo': did you mean 'toy'?"),
        (("toy", "--agents", "walkr"), "unknown agent of this sweep 'walkr': did you mean 'walker'?"),
        (("toy", "--rows", "swim,fly"), "no row of toy is selected: --plan alone lists them"),
        (("toy", "--seeds", "0"), "--seeds 0: give at least 1"),
        (("toy", "--from-results"), "no results in results/toy: run the sweep first"),
        (("toy", "--from-runs", "nowhere"), "nowhere is not a run"),
    ],
)
def test_bad_input_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *arguments)
    assert list(Path().iterdir()) == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder for the runs of all sweeps: rows that two of them share are trained once."""
    return tmp_path_factory.mktemp("runs")


SMOKE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "table-1": (
        ("--rows", "deep-sea-4-e-az"),
        ("E-AZ, RND", "perfect novelty", "smoke test, steps to the first goal in Deep Sea 4 x 4: summary"),
    ),
    "figure-4": ((), ("figure-4.png",)),
    "figure-3": ((), ("search", "UBE head")),
    "figure-2-left": (("--agents", "bdqn", "--rows", "deep-sea-4-*"), ("BDQN",)),
    "figure-2-right": (("--from-runs", "deep-sea-4-e-az-seeds-1000-1001"), ("average regret",)),
    "figure-2-middle": (("--agents", "bdqn"), ("BDQN",)),
}
"""Options that leave few programs to compile, and what is printed: a run of table-1 is one of figure-2-right, too."""


SHORT = ("table-1", "figure-2-right")


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in SMOKE]
)
def test_every_figure_of_deep_sea_as_a_smoke_test(
    name: str, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    options, printed = SMOKE[name]
    main(["reproduce", name, "--smoke", "--out", ".", *options])
    out = output(capsys)
    for words in printed:
        assert words in out
    assert re.search(r"(10|30|40|50) x |sea-(10|30|40|50)", out) is None, (
        "nothing has a size that was not run"
    )
    results = runs / "results" / name
    assert 5_000 < (results / f"{name}.png").stat().st_size < 300_000
    provenance = json.loads((results / "made.json").read_text())
    assert all(run["state"] == "finished" and run["differs"] == {} for run in provenance["runs"])


@pytest.mark.usefixtures("toys")
def test_stored_results_are_found_from_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "figure-4", "--from-results"])
    assert Path("results/figure-4/figure-4.png").exists()
    assert "figure results/figure-4/figure-4.png" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("toys")
def test_stored_results_inside_of_the_package_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a wheel has them, which knows no checkout."""
    package = tmp_path / "site-packages" / "emcts"
    tables = stored_results() / "figure-4"
    monkeypatch.setattr("emcts.experiments.analysis.tables.resources.files", lambda name: package)
    assert stored_results() == tmp_path / "results", "not inside"
    shutil.copytree(tables, package / "results" / "figure-4")
    assert stored_results() == package / "results"
    main(["reproduce", "figure-4", "--from-results"])
    assert Path("results/figure-4/figure-4.png").exists()


@pytest.mark.long
def test_a_wheel_has_the_stored_results(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--quiet",
        "--wheel-dir",
        str(tmp_path),
        str(root),
    ]
    if subprocess.run(build, capture_output=True, check=False).returncode:
        pytest.skip("the build backend cannot be installed here")
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 1_000_000
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "installed")
    assert not list((tmp_path / "installed").rglob("*.png"))
    done = subprocess.run(
        [sys.executable, "-m", "emcts", "reproduce", "table-1", "--from-results"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"tables in {tmp_path / 'installed'}" in done.stdout
    assert (tmp_path / "results" / "table-1" / "table-1.png").exists()


@pytest.mark.usefixtures("toys")
def test_the_plan_has_speeds_of_stored_results_on_such_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = {"row": "walk", "seeds": [0, 1], "env_steps": 1000, "seconds": 20.0, "device": "an abacus"}
    slower = {**run, "row": "run", "seconds": 80.0, "device": "an engine"}
    folder = tmp_path / "package" / "toy"
    folder.mkdir(parents=True)
    (folder / "made.json").write_text(json.dumps({"runs": [run, slower]}))
    monkeypatch.setattr("emcts.cli.reproduce.stored_results", lambda: tmp_path / "package")
    monkeypatch.setattr("emcts.experiments.executors.local.this_device", lambda: ("cpu", "an abacus"))
    main(["reproduce", "toy", "--plan"])
    out = output(capsys)
    assert "steps/s of the stored results, made on an abacus: walk" in out
    assert "0:00:50 and more" in out, "5 seeds of 1,000 steps at 100 steps a second"
    assert "unknown: no speed is known for such a machine (an abacus): run; --plan --measure" in out
    main(["reproduce", "toy", "--plan", "--paper-settings"])
    assert "no speed is known for such a machine (an abacus): all rows" in output(capsys), "other settings"
