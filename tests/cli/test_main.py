"""The command line: what it prints, what it leaves behind, and how it refuses."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from emcts import interrupts
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


def test_a_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluat", "runs/x"])
    assert "unknown command 'evaluat': did you mean 'evaluate'?" in capsys.readouterr().err


def test_demo_refuses_seeds_that_no_memory_holds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["demo", "--seeds", "4294967296"])
    assert exit.value.code == 2
    assert capsys.readouterr().err == "emcts: --seeds 4294967296: give at most 100,000\n"


def test_demo_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*arguments: object) -> None:
        raise ValueError("enough")

    monkeypatch.setattr(demo, "_train", stop)
    for arguments, takes in (([], True), (["--size", "5"], False)):
        with pytest.raises(SystemExit):
            main(["demo", *arguments])
        printed = " ".join(capsys.readouterr().out.split())
        assert ("This takes two to three minutes on two CPU cores." in printed) == takes
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    assert demo.DURATION in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OverflowError("too large"), RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nat")],
)
def test_too_little_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(demo, "COMMANDS", lambda: fail())
    with pytest.raises(SystemExit) as exit:
        main(["demo"])
    assert exit.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "orig", "expected"),
    [
        (["/usr/bin/emcts", "train"], ["python", "/usr/bin/emcts", "train"], True),
        (["-m", "train"], ["python", "-m", "emcts", "train"], True),
        (["/lib/emcts/__main__.py"], ["python", "-m", "emcts"], True),
        (["-m", "emcts"], ["python", "-m", "mine", "emcts"], False),
        (["train.py", "emcts"], ["python", "train.py", "emcts"], False),
        ([""], ["python"], False),
    ],
)
def test_only_the_command_line_is_guarded(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], orig: list[str], expected: bool
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig)
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(signal, "default_int_handler", before)  # pytest or a worker may have another
    interrupts.guard()
    assert (signal.getsignal(signal.SIGINT) is not before) == expected
    interrupts.release()
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_importing_is_one_line(tmp_path: Path) -> None:
    """A package that stands for JAX interrupts the process while it is imported."""
    slow = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(10)\n"
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text(slow)
    source = Path(__file__).parents[2] / "src"
    process = subprocess.run(
        [sys.executable, "-m", "emcts", "runs"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        # A shell starts what it runs in the background with Ctrl-C ignored, and so would these tests.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (process.returncode, process.stderr) == (130, "emcts: interrupted\n")


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
