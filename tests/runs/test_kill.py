"""A run that is killed again and again, at every kind of moment, ends as one that never was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import CheckpointSchedule, Config, plain
from emcts.runs.drive import drive
from emcts.runs.folder import Folder
from emcts.runs.logging.display import LineDisplay
from tests.runs.killed import CHUNKS, MOMENTS, SEEDS, SETTINGS
from tests.runs.toy import CHUNK, ToyTrainer

ROOT = Path(__file__).parents[2]


def make(path: Path) -> Folder:
    config = Config(
        "plain", "walker", None, SEEDS, plain(SETTINGS), CheckpointSchedule(chunks=CHUNKS, keep=2)
    )
    return Folder.create(path, config, {})


def test_a_run_killed_at_every_moment_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed, whole = make(tmp_path / "killed"), make(tmp_path / "whole")
    command = [sys.executable, "-W", "ignore", "-m", "tests.runs.killed", str(killed.path)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    for (name, status, written, saved), moment in zip(reported, MOMENTS, strict=True):
        assert (name, status) == (moment.__name__, 0 if name == "never" else -signal.SIGKILL)
        assert written - saved <= CHUNKS * CHUNK, f"{name} lost more than an interval"
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)
    trainer = ToyTrainer(SETTINGS, SEEDS)
    assert drive(trainer, whole, LineDisplay(lambda text: None), "emcts train").state == "finished"
    timeless = [[{**line, "seconds": 0} for line in folder.metrics.read()] for folder in (killed, whole)]
    assert timeless[0] == timeless[1]
    assert killed.artifacts.read() == whole.artifacts.read()
    ends = [Checkpoints(folder.checkpoints).restore(trainer.init()) for folder in (killed, whole)]
    assert all(end is not None and end.env_steps == SETTINGS.steps for end in ends)
    np.testing.assert_array_equal(*(end.state.weights for end in ends if end is not None))
    assert sorted(path.name[:5] for path in killed.checkpoints.iterdir()) == ["step-", "step-"]
