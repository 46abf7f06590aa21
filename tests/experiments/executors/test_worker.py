"""A worker process: how it trains a run, and what it reports."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from emcts.experiments.executors import worker
from emcts.experiments.executors.ray import check_report
from emcts.experiments.executors.worker import (
    Terminated,
    WorkerReport,
    report,
    train,
    version,
    wait_for_lock,
)
from emcts.experiments.sweeps.job import jobs
from emcts.runs.folder import Folder
from tests.experiments.specs import RUNNER
from tests.runs.toy import ToyCatalogue, ToyTrainer

CATALOGUE = ToyCatalogue()


def test_a_worker_trains_and_returns_the_result(tmp_path: Path) -> None:
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    result = train(job, ToyCatalogue, "emcts")
    assert (result.state, result.messages) == ("finished", ())
    assert result.message.startswith("finished: 1,000 steps")
    (longer,) = jobs([RUNNER.with_changes({"steps": 1200})], tmp_path, CATALOGUE, "cpu")
    assert train(longer, ToyCatalogue, "emcts").messages == ("resumes from step 1,000",)
    (other,) = jobs([RUNNER.with_changes({"size": 7, "steps": 1300})], tmp_path, CATALOGUE, "cpu")
    refused = train(other, ToyCatalogue, "emcts")
    assert (refused.state, "begun with other settings" in refused.message) == ("failed", True)


def test_a_terminated_worker_raises_so_that_another_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ToyTrainer.end_chunk

    def end_chunk(self: ToyTrainer, state: Any, chunk: Any) -> Any:
        state, progress = whole(self, state, chunk)
        if progress.env_steps == 300:
            os.kill(os.getpid(), signal.SIGTERM)
        return state, progress

    monkeypatch.setattr(ToyTrainer, "end_chunk", end_chunk)
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    with pytest.raises(Terminated, match="stopped and saved at step 300"):
        train(job, ToyCatalogue, "emcts")
    assert train(job, ToyCatalogue, "emcts").messages == ("resumes from step 300",)


def test_a_lock_that_stays_is_waited_for_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LOCK_SECONDS", 0.0)
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    folder = job.folder(CATALOGUE, "emcts")
    with folder.lock():
        result = train(job, ToyCatalogue, "emcts")
        asked = []
        monkeypatch.setattr("time.sleep", lambda seconds: asked.append(seconds))
        monkeypatch.setattr(Folder, "is_locked", lambda self: len(asked) < 3)
        wait_for_lock(folder, 60.0)
    assert (result.state, "another process is training" in result.message) == ("failed", True)
    assert asked == [1.0, 1.0, 1.0]


def test_the_report_of_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "VISIBLE_SECONDS", 0.0)
    probe = tmp_path / ".probe-1"
    assert report(probe) == WorkerReport(None, True, version())
    probe.write_text(".probe-1")
    check_report("node7", report(probe), probe)
    for found, message in [
        (
            WorkerReport(None, False, version()),
            f"node7 does not see {tmp_path}: all machines need one file system",
        ),
        (WorkerReport(".probe-1", False, version()), "may not write there"),
        (WorkerReport(".probe-1", True, "0.0.1 (abc)"), r"node7 has emcts 0\.0\.1 \(abc\), this machine"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_report("node7", found, probe)
