"""The command line: what it prints, what it leaves behind, and how it refuses."""

import json
from pathlib import Path

import pytest

from emcts.cli import main


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
