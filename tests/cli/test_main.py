"""The command line: what it prints, what it leaves behind, and how it refuses."""

import json
from pathlib import Path

import pytest

from emcts.cli import demo, main
from emcts.envs.base import SimulatorError


def test_overview(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "bench" in capsys.readouterr().out


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["serach"])
    assert exit.value.code == 2
    assert "unknown command 'serach'" in capsys.readouterr().err


def test_demo_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["demo", "--size", "1"])
    assert exit.value.code == 2
    assert "from 2 to 100" in capsys.readouterr().err


def test_a_simulator_that_fails_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(error: Exception) -> None:
        raise error

    monkeypatch.setattr(demo, "COMMANDS", lambda: fail(SimulatorError("CartPole-v1 failed in step 3")))
    with pytest.raises(SystemExit) as exit:
        main(["demo"])
    assert exit.value.code == 2
    assert capsys.readouterr().err == "emcts: CartPole-v1 failed in step 3\n"
    monkeypatch.setattr(demo, "COMMANDS", lambda: fail(RuntimeError("a defect")))
    with pytest.raises(RuntimeError, match="a defect"):
        main(["demo"])


def test_bench_search_smoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "search.json"
    main(["bench", "search", "--smoke", "--out", str(out)])
    results = json.loads(out.read_text())
    assert {"command", "commit", "device", "jax"} <= set(results)
    for row in results["cases"]:
        assert row["agree_with_mctx"] == row["kernels_agree_with_plain"] == row["epistemic_agrees"] == 1
        assert row["emcts_tree_mib"] > 0
    assert all(row["equal"] == 1 for row in results["equality"])
    assert "mctx's time over ours" in capsys.readouterr().out
