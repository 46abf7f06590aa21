"""Ctrl-C in a real process that trains a real agent: it stops within seconds, and leaves a run that continues."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emcts.runs.checkpoints import Checkpoints
from emcts.runs.folder import Folder

ROOT = Path(__file__).parents[2]
TRAIN = (
    *("train", "deep-sea", "--agent", "bdqn", "--seeds", "2", "--env.size", "5", "--ensemble.size", "3"),
    *("--steps", "10000000", "--evaluation.every", "1000000", "--out", "run"),  # a chunk takes many minutes
)


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "emcts", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError(f"no line has {text!r}: {lines}")


def interrupted(process: subprocess.Popen[str]) -> tuple[str, float]:
    """Returns what is printed after a Ctrl-C, and the seconds until the end."""
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    return out, time.monotonic() - began


@pytest.mark.long
def test_a_run_stops_within_seconds_and_continues(tmp_path: Path) -> None:
    with started(tmp_path, *TRAIN) as process:
        line_with(process, "compiled training in")
        assert "steps/s -" not in line_with(process, "steps/s")
        time.sleep(3)
        out, seconds = interrupted(process)
    assert seconds < 10
    assert "stopping after this piece of training (about" in out
    folder = Folder.open(tmp_path / "run")
    (saved,) = Checkpoints(folder.checkpoints).steps()
    assert 0 < saved < 1_000_000
    assert f"stopped and saved at step {saved:,}: continue with `emcts resume run`" in out
    lines = folder.metrics.read()
    assert lines, "acting and learning report before the first evaluation"
    assert all(line["env_steps"] <= saved and "return" not in line for line in lines)
    with started(tmp_path, "resume", "run") as process:
        line_with(process, f"resumes from step {saved:,}")
        line_with(process, "steps/s")
        time.sleep(1)
        interrupted(process)
    assert Checkpoints(folder.checkpoints).steps()[-1] > saved


@pytest.mark.long
def test_a_run_that_compiles_is_left_at_once(tmp_path: Path) -> None:
    with started(tmp_path, *TRAIN) as process:
        line_with(process, "compiling training")
        out, seconds = interrupted(process)
    assert seconds < 3
    assert "nothing had to be saved: continue with `emcts resume run`" in out
    with started(tmp_path, "resume", "run") as process:
        line_with(process, "compiling training")
