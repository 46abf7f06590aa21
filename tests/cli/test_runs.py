"""The commands around a run, end to end, with a toy to train."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from emcts.agents.settings import EvaluationSettings
from emcts.cli import main
from emcts.cli.train import RunOptions
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.folder import Folder
from emcts.runs.logging.loggers import LOGGERS, LoggerEntry
from emcts.runs.logging.metrics import MetricsLine
from tests.runs.toy import ToyCatalogue

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder of its own, with the toy catalogue, and figures only from `plot`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emcts.agents.catalogue.installed", ToyCatalogue)
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)


@pytest.fixture
def trained(toys: None) -> Folder:
    main(["train", "plain", "--agent", "walker", "--seed-list", "3", "5", "--out", "runs/x"])
    return Folder.open(Path("runs/x"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that fails says."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_train_names_the_run_and_stores_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        main(
            [
                *("train", "plain", "--agent", "runner", "--preset", "long", "--seeds", "2"),
                *("--steps", "200", "--optimiser.betas", "0.5", "--checkpoint-chunks", "1"),
            ]
        )
    assert "finished: 200 steps of each seed in runs/plain-runner-2" in capsys.readouterr().out
    config = json.loads(Path("runs/plain-runner-2/config.json").read_text())
    assert (config["environment"], config["agent"], config["preset"]) == ("plain", "runner", "long")
    assert config["seeds"] == [0, 1]
    assert config["settings"]["steps"] == 200
    assert config["settings"]["optimiser"] == {"learning_rate": 0.5, "betas": [0.5]}
    assert config["command"].startswith("emcts train plain --agent runner --preset long")
    assert {"versions", "device", "machine", "commit"} <= set(config)
    assert Checkpoints(Path("runs/plain-runner-2/checkpoints")).steps() == [100, 200]


def test_help_shows_the_values_of_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", "plain", "--agent", "runner", "--preset", "long", "--help"])
    assert caught.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "(default: 5000)" in out
    assert "(default: 0.5)" in out
    assert "--seed-list" in out
    for arguments, wanted in [
        ([], "exits with code 130 or 143"),
        (["plain", "--help"], "presets of plain: short, long"),
    ]:
        with pytest.raises(SystemExit) as caught:
            main(["train", *arguments])
        assert caught.value.code == 0
        assert wanted in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "plain", "--agnet", "walker"), "unknown option --agnet: did you mean --agent?"),
        (("train", "plain", "--agents=walker"), "unknown option --agents: did you mean --agent?"),
        (("train", "plain", "--seeds", "2"), "no agent given: add --agent, one of walker"),
        (("train", "plane", "--agent", "walker"), "unknown environment 'plane': did you mean 'plain'?"),
        (("train", "plain", "--agent", "rummer"), "unknown agent 'rummer': did you mean 'runner'?"),
        (
            ("train", "plain", "--agent", "walker", "--preset", "lng"),
            "unknown preset 'lng': did you mean 'long'?",
        ),
        (("train", "plain"), "no agent given: add --agent, one of walker, runner"),
        (("train", "--agent", "walker", "plain"), "the environment comes first"),
        (("train", "plain", "--agent", "walker", "--learning-rat", "1"), "--optimiser.learning-rate"),
        (("train", "plain", "--agent", "walker", "--seeds", "0"), "--seeds 0: give at least 1"),
        (("train", "plain", "--agent", "walker", "--seeds", "4294967296"), "give at most 100,000"),
        (("train", "plain", "--agent", "walker", "--seed-list", "-1"), "seed -1: seeds are from 0"),
        (
            ("train", "plain", "--agent", "walker", "--optimiser.learning-rate", "nan"),
            "setting optimiser.learning_rate is nan: give a finite number",
        ),
        (("train", "plain", "--agent", "walker", "--out", ""), "--out is empty"),
        (("train", "plain", "--agent", "walker", "--out="), "--out is empty"),
        (("evaluate", "runs/x", "--beta", "nan"), "--beta nan: give a finite number"),
        (("evaluate", "runs/x", "--seed", "-1"), "--seed -1: give a number from 0"),
        (("train", "plain", "--agent", "walker", "--seeds", "2", "--seed-list", "1"), "give one of them"),
        (("train", "plain", "--agent", "walker", "--keep-checkpoints", "1"), "keep at least 2"),
        (("train", "plain", "--agent", "walker", "--loggers", "wandb"), 'pip install "emcts[wandb]"'),
        (("train", "plain", "--agent", "walker", "--loggers", "wandbb"), "unknown logger 'wandbb'"),
        (("resume", "runs/none"), "runs/none is not a run"),
        (("resume", "--steps", "3"), "the run comes first"),
        (("evaluate", "runs/none"), "runs/none is not a run"),
        (("plot",), "name a run to plot"),
        (("plot", "runs/a", "runs/b"), "add --out comparison.png"),
        (("plot", "runs/a", "--out", "x.gif"), "PNG"),
        (("runs", "nowhere"), "there is no folder nowhere"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.setattr("emcts.runs.logging.loggers.find_spec", lambda name: None)
    assert message in refused(capsys, *arguments)
    assert list(Path().iterdir()) == []


def test_a_run_is_never_trained_over(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    error = refused(capsys, "train", "plain", "--agent", "walker", "--out", "runs/x")
    assert "runs/x holds a run already: continue it with `emcts resume runs/x`" in error


def test_resume_extends_a_run(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    main(["resume", "runs/x"])
    assert "resumes from step 1,000\nfinished: 1,000 steps" in capsys.readouterr().out
    main(["resume", "runs/x", "--steps", "1300"])
    assert "finished: 1,300 steps" in capsys.readouterr().out
    assert trained.metrics.read()[-1]["env_steps"] == trained.config().total_env_steps == 1300
    assert trained.provenance()["command"].startswith("emcts train")
    assert trained.summary()["command"] == "emcts resume runs/x --steps 1300"
    assert "got 1,200: --steps can only be raised" in refused(capsys, "resume", "runs/x", "--steps", "1200")


def test_a_run_says_where_whole_iterations_pass_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "plain", "--agent", "walker", "--out", "runs/x", "--steps", "150"])
    printed = capsys.readouterr().out
    assert "finished: 200 steps of each seed (whole iterations: 150 were asked for) in runs/x;" in printed


def test_a_run_ends_when_its_time_is_up_or_it_is_solved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["train", "plain", "--agent", "walker", "--out", "runs/x", "--max-minutes", "1e-9", "--seeds", "1"])
    assert "ended and saved at step" in capsys.readouterr().out
    monkeypatch.setattr(
        "emcts.cli.train.is_solved", lambda latest: any(line["env_steps"] >= 500 for line in latest.values())
    )
    main(["resume", "runs/x", "--stop-when-solved"])
    assert "ended and saved at step 500 of 1,000: `emcts resume runs/x`" in capsys.readouterr().out
    main(["resume", "runs/x"])
    assert "finished: 1,000 steps" in capsys.readouterr().out
    assert "--max-minutes nan: give a finite number" in refused(
        capsys, "train", "plain", "--agent", "walker", "--max-minutes", "nan"
    )
    played = SimpleNamespace(evaluation=EvaluationSettings(baseline_return=3.0))
    with pytest.raises(ValueError, match="give --evaluation.solved-return"):
        RunOptions(stop_when_solved=True).stop(played)


def test_a_refused_resume_changes_nothing(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    before = (trained.path / "config.json").read_bytes()
    with trained.lock():
        assert "another process is training" in refused(capsys, "resume", "runs/x", "--steps", "1300")
    for checkpoint in trained.checkpoints.iterdir():
        (checkpoint / "manifest.json").unlink()
    assert "no checkpoint in" in refused(capsys, "resume", "runs/x", "--steps", "1300")
    assert (trained.path / "config.json").read_bytes() == before


def test_resume_refuses_other_settings(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    error = refused(capsys, "resume", "runs/x", "--optimiser.learning-rate", "0.3")
    assert "setting optimiser.learning_rate is 0.1 in this run, got 0.3" in error
    edited = json.loads((trained.path / "config.json").read_text())
    edited["settings"]["size"] = 5
    (trained.path / "config.json").write_text(json.dumps(edited))
    assert "setting size is 4 in this run, got 5" in refused(capsys, "resume", "runs/x")


def test_loggers_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    class Collector:
        def __init__(self, folder: Folder, env_steps: int) -> None:
            opened.append(env_steps)

        def write(self, lines: Iterable[MetricsLine]) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setitem(LOGGERS, "collector", LoggerEntry(Collector, "json"))
    loggers = ("--loggers", "collector", "tensorboard")
    main(["train", "plain", "--agent", "walker", "--steps", "200", "--out", "runs/x", *loggers])
    assert Path("runs/x/tensorboard").is_dir()
    main(["resume", "runs/x", "--steps", "300", *loggers])
    main(["resume", "runs/x", "--steps", "400"])
    assert opened == [0, 200]


def test_a_broken_run_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", "plain", "--agent", "walker", "--seeds", "1", "--nan-at", "300"])
    assert caught.value.code == 1
    assert "seed 0 at step 300" in capsys.readouterr().out
    main(["runs"])
    assert "broken" in capsys.readouterr().out


def test_evaluate_keeps_every_episode(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    main(["evaluate", "runs/x", "--episodes", "5", "--beta", "0.5", "--seed", "1"])
    assert "step 1,000: 5 episodes of each seed, beta 0.5" in " ".join(capsys.readouterr().out.split())
    result = json.loads((trained.path / "evaluation.json").read_text())
    assert result["env_steps"] == 1000
    assert [seed["seed"] for seed in result["seeds"]] == [3, 5]
    assert [len(seed["return"]) for seed in result["seeds"]] == [5, 5]
    assert result["seeds"][0]["return"][0] != result["seeds"][0]["return"][1]
    assert result["command"] == "emcts evaluate runs/x --episodes 5 --beta 0.5 --seed 1"
    main(["evaluate", "runs/x", "--best"])
    learned = json.loads((trained.path / "evaluation.json").read_text())["mean"]["return"]
    assert learned == pytest.approx(trained.summary()["mean_final_return"], rel=1e-6)


def test_evaluate_needs_a_checkpoint(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    trained.checkpoints.rename("elsewhere")
    assert "runs/x has no checkpoint yet" in refused(capsys, "evaluate", "runs/x")


def test_plot_draws_one_or_several(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    main(["plot", "runs/x"])
    assert capsys.readouterr().out.endswith("\nruns/x/figure.png\n")
    main(["plot", "runs/x", "runs/x", "--out", "both.png"])
    assert Path("both.png").read_bytes().startswith(b"\x89PNG")


def test_runs_lists_them_all(capsys: pytest.CaptureFixture[str], trained: Folder) -> None:
    Path("runs/odd").mkdir()
    Path("runs/odd/config.json").write_text("{}")
    with trained.lock():
        main(["runs"])
    first = capsys.readouterr().out
    assert "running" in first
    assert "unreadable: config.json lacks environment" in first
    main(["runs"])
    row = next(line for line in capsys.readouterr().out.splitlines() if "runs/x" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:5] == ["runs/x", "plain", "walker", "2", "1,000 of 1,000"]
    assert cells[6:] == ["1 of 2", "finished"]
    (Path("runs/odd") / "config.json").unlink()
    main(["runs", "runs/odd"])
    assert "no runs in runs/odd" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "code", "seconds"), [(signal.SIGTERM, 143, 0.05), (signal.SIGINT, 130, 4.0)]
)
def test_a_signal_stops_a_process_that_resume_continues(
    capsys: pytest.CaptureFixture[str], number: int, code: int, seconds: float
) -> None:
    """The real command line, in a process of its own. A long chunk is left in its middle."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    arguments = ["train", "plain", "--agent", "walker", "--seeds", "2", "--out", "runs/x"]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.runs.toy_cli", *arguments),
            *("--steps", "100000", "--chunk-seconds", str(seconds)),
        ],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(2)]
    assert first[1].startswith("steps 25 of 100,000 | "), (
        "a speed after the first piece, whatever a chunk takes"
    )
    assert "steps/s -" not in first[1]
    process.send_signal(number)
    sent = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - sent < 15
    assert process.returncode == code, err
    assert "stopping" in out
    assert "Ctrl-C again to leave at once and lose what was trained" in out
    assert "continue with `emcts resume runs/x`" in out
    assert err == ""
    folder = Folder.open(Path("runs/x"))
    saved = Checkpoints(folder.checkpoints).steps()[-1]
    assert saved < 100_000
    early = [step for step in (25, 50) if step <= saved]
    assert len(folder.metrics.read()) == 2 * (len(early) + saved // 100)
    if seconds > 1:
        assert saved < 100, "in the first chunk"
    main(["runs"])
    listed = capsys.readouterr().out
    assert "stopped" in listed
    assert f"{saved:,} of 100,000" in listed
