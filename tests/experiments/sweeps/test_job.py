"""The runs of a spec: how seeds are split, and that no run is trained twice or with other settings."""

from pathlib import Path

import pytest

from emcts.experiments.sweeps.job import Job, jobs
from emcts.experiments.sweeps.progress import SweepProgress
from emcts.runs.drive import drive
from emcts.runs.logging.display import LineDisplay
from tests.experiments.specs import RUNNER, WALKER
from tests.runs.toy import ToyCatalogue

CATALOGUE = ToyCatalogue()


def trained(job: Job) -> None:
    folder = job.folder(CATALOGUE, "emcts reproduce toy")
    drive(job.trainer(CATALOGUE, folder), folder, LineDisplay(lambda text: None), "emcts reproduce toy")


def test_seeds_are_split_into_runs(tmp_path: Path) -> None:
    found = jobs([WALKER, RUNNER], tmp_path, CATALOGUE, "cpu")
    assert [(job.path.name, job.seeds) for job in found] == [
        ("walk-seeds-0-1", (0, 1)),
        ("walk-seeds-2-3", (2, 3)),
        ("walk-seeds-4-4", (4,)),
        ("run-seeds-0-1", (0, 1)),
    ]
    assert [job.seeds for job in jobs([WALKER], tmp_path, CATALOGUE, "gpu")] == [(0, 1, 2, 3), (4,)]
    assert [job.work for job in found] == [2000, 2000, 1000, 2000]


def test_existing_runs_are_not_repeated(tmp_path: Path) -> None:
    first = jobs([WALKER], tmp_path, CATALOGUE, "gpu")[0]
    trained(first)
    assert first.is_over
    again = jobs([WALKER], tmp_path, CATALOGUE, "cpu")
    assert [(job.seeds, job.is_over) for job in again] == [((0, 1, 2, 3), True), ((4,), False)]
    assert [len(job.seeds) for job in jobs([WALKER.with_seeds(3)], tmp_path, CATALOGUE, "cpu")] == [4]
    assert RUNNER.folders(tmp_path) == []


def test_a_run_is_lengthened_when_more_steps_are_wanted(tmp_path: Path) -> None:
    trained(jobs([RUNNER], tmp_path, CATALOGUE, "cpu")[0])
    (longer,) = jobs([RUNNER.with_changes({"steps": 1400})], tmp_path, CATALOGUE, "cpu")
    assert (longer.env_steps, longer.is_over) == (1000, False)
    trained(longer)
    (folder,) = RUNNER.folders(tmp_path)
    assert folder.config().total_env_steps == longer.env_steps == 1400
    assert folder.config().settings["novelty"] == {"hash_bits": 1000}, "sizes stay those that it began with"
    assert RUNNER.differences(folder.config(), CATALOGUE) == {}
    (shorter,) = jobs([RUNNER.with_changes({"steps": 600})], tmp_path, CATALOGUE, "cpu")
    assert shorter.is_over


def test_a_run_of_other_settings_is_refused(tmp_path: Path) -> None:
    trained(jobs([RUNNER], tmp_path, CATALOGUE, "cpu")[0])
    (other,) = jobs([RUNNER.with_changes({"size": 5, "steps": 2000})], tmp_path, CATALOGUE, "cpu")
    with pytest.raises(ValueError, match="begun with other settings .*size is 4.*got 5.*another --out"):
        other.folder(CATALOGUE, "")


def test_a_broken_run_is_over(tmp_path: Path) -> None:
    (job,) = jobs([RUNNER.with_changes({"nan_at": 300})], tmp_path, CATALOGUE, "cpu")
    trained(job)
    assert job.is_broken
    assert job.is_over
    assert SweepProgress.begin([job], [None]).share == 1
