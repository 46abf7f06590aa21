"""The real command line, end to end: train, resume, evaluate, plot and list real agents."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emcts.agents import catalogue
from emcts.cli import main
from emcts.envs import subleq
from emcts.inspect.document import unpack
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.folder import Folder
from tests.agents.tiny import BDQN, DEEP_SEA, SUBLEQ, options


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_a_run_in_deep_sea_from_its_start_to_its_figure(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = options(DEEP_SEA)
    main(["train", "deep-sea", "--agent", "e-az", "--seeds", "2", "--out", "runs/tiny", *tiny])
    assert "finished: 1,000 steps of each seed in runs/tiny" in capsys.readouterr().out
    folder = Folder.open(Path("runs/tiny"))
    lines = [line for line in folder.metrics.read() if "return" in line]
    assert [(line["seed"], line["env_steps"]) for line in lines] == [
        (seed, 100 * (k + 1)) for k in range(10) for seed in (0, 1)
    ]
    assert Checkpoints(folder.checkpoints).steps()[-1] == 1000
    np.testing.assert_allclose([line["return"] for line in lines[-2:]], 0.99, atol=1e-4)
    config = json.loads(Path("runs/tiny/config.json").read_text())
    assert config["settings"]["env"]["size"] == 5
    assert config["settings"]["steps"] == 1000

    main(["evaluate", "runs/tiny", "--episodes", "2"])
    evaluation = json.loads(Path("runs/tiny/evaluation.json").read_text())
    assert [seed["seed"] for seed in evaluation["seeds"]] == [0, 1]
    np.testing.assert_allclose([seed["return"] for seed in evaluation["seeds"]], 0.99, atol=1e-4)
    assert evaluation["mean"]["length"] == 5
    inspect_and_record(capsys)
    main(["plot", "runs/tiny"])
    assert Path("runs/tiny/figure.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    main(["runs"])
    out = capsys.readouterr().out
    for word in ("runs/tiny", "deep-sea", "e-az", "1,000 of 1,000", "finished"):
        assert word in out


def inspect_and_record(capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", "runs/tiny", "--episode", "explore", "--max-moves", "2", "--checkpoint", "best"])
    assert "inspect.html: 0." in capsys.readouterr().out
    data = unpack(Path("inspect.html").read_text())
    assert data["title"] == "e-az on deep-sea"
    moves = data["episodes"][0]["moves"]
    assert [len(move.get("searches", ())) for move in moves] == [3, 3, 0]
    assert moves[0]["searches"][0]["simulations"] == 12
    main(["evaluate", "runs/tiny", "--episodes", "1", "--record", "episodes.npz"])
    evaluation = json.loads(Path("runs/tiny/evaluation.json").read_text())
    with np.load("episodes.npz", allow_pickle=False) as episodes:
        returns = [seed["return"][0] for seed in evaluation["seeds"]]
        np.testing.assert_allclose(episodes["return"], returns, atol=1e-6)
    for arguments, message in {
        ("inspect", "runs/tiny", "--out", "page.pdf"): "ends in .html",
        ("inspect", "runs/tiny", "--simulations", "0"): "give at least 1",
        ("inspect", "runs/tiny", "--seed", "9"): "has the seeds 0, 1",
        ("inspect", "runs/none"): "runs/none",
        ("evaluate", "runs/tiny", "--record", "episodes.mp4"): "ends in .npz, .html, .gif",
    }.items():
        assert message in refused(capsys, *arguments)


@pytest.mark.long
def test_a_run_without_search(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = options({**BDQN, "env.size": 4, "steps": 300})
    main(["train", "deep-sea", "--agent", "bdqn", "--seeds", "2", "--out", "runs/tiny", *tiny])
    assert "finished: 300 steps of each seed in runs/tiny" in capsys.readouterr().out
    main(["resume", "runs/tiny", "--steps", "800"])
    assert "resumes from step 300\n" in capsys.readouterr().out
    capsys.readouterr()
    main(["evaluate", "runs/tiny", "--episodes", "2"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "± is one standard error: in the row of a seed between its episodes, in the row all" in printed
    evaluation = json.loads(Path("runs/tiny/evaluation.json").read_text())
    np.testing.assert_allclose([seed["return"] for seed in evaluation["seeds"]], 0.99, atol=1e-4)
    folder = Folder.open(Path("runs/tiny"))
    assert Checkpoints(folder.checkpoints).steps()[-1] == 800
    assert json.loads(Path("runs/tiny/config.json").read_text())["settings"]["steps"] == 800
    lines = [line for line in folder.metrics.read() if "return" in line]
    assert [line["env_steps"] for line in lines[::2]] == list(range(100, 801, 100))
    assert {"loss", "loss_value", "uncertainty"} <= lines[-1].keys()


def test_help_lists_the_presets_of_each_kind_of_agent(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "subleq", "--help"])
    printed = capsys.readouterr().out
    assert "presets of subleq for e-az, az-ube, az: default, paper-subleq\n" in printed
    assert "presets of subleq for e-mz, mz-ube, mz, bdqn: default\n" in printed
    assert "Bootstrapped DQN with randomised priors, which explores without planning" in printed


@pytest.mark.long
def test_programs_that_solve_a_task_are_kept() -> None:
    main(["train", "subleq", "--agent", "e-az", "--seeds", "2", "--out", "runs/words", *options(SUBLEQ)])
    folder = Folder.open(Path("runs/words"))
    artifacts = folder.artifacts.read()
    assert artifacts, "2,048 steps find a program of two words"
    for artifact in artifacts:
        words: Any = artifact["data"]["words"]
        assert subleq.solves(words, "negate-positives", word_size=32)
        text = (folder.path / "artifacts" / f"seed-{artifact['seed']}.asm").read_text()
        program = f"{' '.join(map(str, words))}\n{subleq.disassemble(words, 32)}"
        assert f"; step {artifact['env_steps']:,}: {program}\n" in text
    first = min(artifact["env_steps"] for artifact in artifacts)
    rewarded = [line["first_reward_step"] for line in folder.metrics.read()[-2:]]
    assert first == min(step for step in rewarded if step is not None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("deep-see", "--agent", "e-az"), "unknown environment 'deep-see': did you mean 'deep-sea'?"),
        (("minatar-brekout", "--agent", "az"), "did you mean 'minatar-breakout'?"),
        (("deep-sea", "--agent", "e-ax"), "unknown agent 'e-ax': did you mean 'e-az'?"),
        (("deep-sea", "--agent", "az", "--preset", "paper-deep-se"), "did you mean 'paper-deep-sea'?"),
        (
            ("deep-sea", "--agent", "e-az", "--novelty.kind", "count"),
            "unknown novelty.kind 'count': did you mean 'counts'?",
        ),
        (
            ("deep-sea", "--agent", "az", "--targets.search", "pct"),
            "unknown targets.search 'pct': did you mean 'puct'?",
        ),
        (("deep-sea", "--agent", "e-az", "--novelty.leaf-horizon", "episodes"), "did you mean 'episode'?"),
        (("subleq", "--agent", "e-az", "--novelty.kind", "hash-sets"), "did you mean 'hash-set'?"),
        (
            ("subleq", "--agent", "e-az", "--novelty.input", "ful"),
            "unknown novelty.input 'ful': did you mean 'full'?",
        ),
        (
            ("subleq", "--agent", "az", "--novelty.update", "action"),
            "unknown novelty.update 'action': did you mean 'acting'?",
        ),
        (("subleq", "--agent", "az", "--env.task", "identiy"), "identity"),
        (("subleq", "--agent", "bdqn", "--preset", "paper-subleq"), "unknown preset 'paper-subleq'"),
        (
            ("deep-sea", "--agent", "bdqn", "--ensemble.mask-probability", "0"),
            "mask_probability is 0.0: give a share",
        ),
        (("deep-sea", "--agent", "bdqn", "--ensemble.hidden", "50", "0"), "hidden layers of [50, 0] units"),
        (
            ("deep-sea", "--agent", "bdqn", "--ensemble.size", "0"),
            "ensemble.size is 0: give at least 1",
        ),
        (("deep-sea", "--agent", "bdqn", "--schedule.rollout-length", "0"), "schedule.rollout_length is 0"),
        (("deep-sea", "--agent", "bdqn", "--evaluation.episodes", "0"), "evaluation.episodes is 0"),
        (("deep-sea", "--agent", "bdqn", "--replay.capacity", "100"), "does not hold warmup_steps of 128"),
        (("subleq", "--agent", "az", "--env.max-words", "99"), "has room for 1 to"),
        (("deep-sea", "--agent", "e-az", "--env.size", "1"), "Deep Sea of size 1: give a size from 2 to 100"),
        (
            ("deep-sea", "--agent", "e-az", "--schedule.num-envs", "0"),
            "schedule.num_envs is 0: give at least 1",
        ),
        (
            ("deep-sea", "--agent", "e-az", "--replay.batch-size", "-3"),
            "replay.batch_size is -3: give at least 1",
        ),
        (("deep-sea", "--agent", "e-az", "--replay.capacity", "50"), "holds less than one batch of 256"),
        (("deep-sea", "--agent", "e-az", "--schedule.rollout-length", "0"), "schedule.rollout_length is 0"),
        (("deep-sea", "--agent", "e-az", "--schedule.updates", "-1"), "schedule.updates is -1"),
        (("deep-sea", "--agent", "e-az", "--evaluation.episodes", "0"), "evaluation.episodes is 0"),
        (
            ("deep-sea", "--agent", "e-az", "--schedule.warmup-steps", "0", "--targets.value-steps", "9"),
            "updates begin after 5 steps of each episode, and a sample needs 10: raise warmup_steps to 20 or more",
        ),
        (
            ("subleq", "--agent", "az", "--replay.capacity", "64", "--replay.batch-size", "64"),
            "holds 1 steps of 128 parallel episodes, and a sample needs 2: raise capacity to 256 or more",
        ),
        (("deep-sea", "--agent", "e-az", "--steps", "0"), "steps is 0: give at least 1"),
        (
            ("deep-sea", "--agent", "e-az", "--targets.fraction", "2"),
            "fraction is 2.0: give a number from 0 to 1",
        ),
        (
            ("deep-sea", "--agent", "e-az", "--targets.ube-steps", "-1"),
            "targets.ube_steps is -1: give at least 0",
        ),
        (
            ("deep-sea", "--agent", "e-az", "--search.discount", "1", "--novelty.leaf-horizon", "endless"),
            "discount of 1 bounds no endless sum: give --novelty.leaf-horizon episode",
        ),
        (
            ("subleq", "--agent", "e-az", "--exploration.num-exploiting", "129"),
            "num_exploiting is 129: give 0 to 128",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, "train", *arguments)
    assert list(Path().iterdir()) == []


def test_an_agent_that_an_environment_does_not_have_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = catalogue.ENVIRONMENTS["subleq"]
    simulator = {"simulator": entry.presets["simulator"]}
    monkeypatch.setitem(catalogue.ENVIRONMENTS, "subleq", dataclasses.replace(entry, presets=simulator))
    printed = refused(capsys, "train", "subleq", "--agent", "e-mz")
    assert "unknown agent 'e-mz': did you mean 'e-az'? Choose one of e-az, az-ube, az" in printed
    with pytest.raises(ValueError, match="no agent 'bdqn' for subleq: choose one of e-az, az-ube, az"):
        catalogue.installed().settings("subleq", "bdqn")
