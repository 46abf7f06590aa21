"""Runs of real agents that are killed at random moments end as those that never were, bit for bit.

`EMCTS_KILLS=50 pytest -m long tests/agents/test_kills.py -s` kills each 50 times, and prints what the kills hit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import CheckpointSchedule, Config, plain
from emcts.runs.drive import drive
from emcts.runs.folder import Folder
from emcts.runs.logging.display import Display
from tests.agents.tiny import CATALOGUE, assert_equal, restored_state, settings

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("EMCTS_KILLS", "4"))
SEED = int(os.environ.get("EMCTS_KILLS_SEED", "0"))
SEEDS = (0, 1)
ITERATIONS = 60  # for each process, and more than it has time for before it is killed
SOON = CheckpointSchedule(seconds=0.01, keep=2)


@pytest.mark.long
@pytest.mark.parametrize("agent", ["e-az", "e-az with reuse", "e-mz", "bdqn"])
def test_a_run_killed_at_random_moments_ends_the_same(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, _, reuses = agent.partition(" ")
    changes = {"search.reuse": True} if reuses else {}
    per_iteration = CATALOGUE.trainer(
        "deep-sea", agent, settings("deep-sea", agent, changes), SEEDS
    ).learner.steps_per_iteration
    steps = ITERATIONS * (KILLS + 1) * per_iteration
    chosen = settings("deep-sea", agent, {**changes, "steps": steps})
    config = Config("deep-sea", agent, None, SEEDS, plain(chosen), SOON)
    killed, whole = (Folder.create(tmp_path / name, config, {}) for name in ("killed", "whole"))
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)
    # Compiled here once, and read by the processes that are killed.
    trainer = CATALOGUE.trainer("deep-sea", agent, chosen, SEEDS)
    assert drive(trainer, whole, Display(), "emcts train").state == "finished"
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.agents.killed",
            str(killed.path),
            str(KILLS),
            str(SEED),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120 * (KILLS + 2),
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    chunk = trainer.iterations_per_chunk * per_iteration
    in_chunk = sum(bool(after % chunk) for _, after, _ in reported)
    print(
        f"\n{agent}: {len(reported)} kills, {sum(trained for *_, trained in reported)} of them after training had "
        f"begun; {in_chunk} left a checkpoint in the middle of a chunk, {sum(b < a for b, a, _ in reported)} came "
        f"after a save"
    )
    assert len(reported) == KILLS
    assert in_chunk > 0
    timeless = [[{**line, "seconds": 0} for line in folder.metrics.read()] for folder in (killed, whole)]
    assert timeless[0] == timeless[1]
    assert killed.artifacts.read() == whole.artifacts.read()
    assert_equal(*(restored_state(trainer, Checkpoints(folder.checkpoints)) for folder in (killed, whole)))
    jax.clear_caches()
