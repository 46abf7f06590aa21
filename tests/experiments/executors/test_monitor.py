"""Monitoring of runs through their files, and how it is shown."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from emcts.experiments.executors.monitor import LineMonitor, LiveMonitor, MonitoredRun, monitor_for
from emcts.experiments.sweeps.job import jobs
from emcts.experiments.sweeps.progress import SweepProgress
from tests.experiments.specs import RUNNER, WALKER
from tests.runs.toy import ToyCatalogue

CATALOGUE = ToyCatalogue()


def test_a_run_is_followed_through_its_files(tmp_path: Path) -> None:
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    run, progress = MonitoredRun(0, job), SweepProgress([job.work], [0], [None])
    run.read()
    run.update(progress)
    assert (run.has_begun, run.progress, progress.done) == (False, None, [0])
    folder = job.folder(CATALOGUE, "emcts")
    line = {"env_steps": 100, "return": 0.5, "seconds": 1.0}
    folder.metrics.append([{"seed": seed, **line} for seed in (0, 1)])
    with (job.path / "metrics.jsonl").open("a") as file:
        file.write('{"seed": 0, "env_')
    with folder.lock():
        assert not run.has_new_worker()
    run.read()
    run.update(progress)
    assert run.has_begun
    assert run.progress is not None
    assert (run.progress.env_steps, progress.done) == (100, [200])
    with (job.path / "metrics.jsonl").open("a") as file:
        file.write('steps": 300, "seconds": 2.0}\n')
    run.read()
    assert (run.progress.env_steps, run.latest[0]["return"]) == (300, 0.5)
    folder.metrics.truncate(100)
    run.read()
    assert run.progress.env_steps == 100, "it went back to its checkpoint"
    with folder.lock():
        assert [run.has_new_worker(), run.has_new_worker()] == [True, False]
    assert not MonitoredRun(0, job).has_begun, "by an earlier sweep"


def test_time_left_of_concurrent_runs() -> None:
    progress = SweepProgress([1000, 1000, 1000], [0, 0, 0], [10.0, 10.0, 10.0], concurrent=2)
    assert progress.seconds_left == 150
    progress.concurrent = 3
    assert progress.seconds_left == 100


@pytest.mark.parametrize("live", [True, False])
def test_the_sweep_is_shown_with_its_runs(tmp_path: Path, live: bool) -> None:
    todo = jobs([WALKER], tmp_path, CATALOGUE, "cpu")
    runs = [MonitoredRun(number, job) for number, job in enumerate(todo)]
    todo[0].folder(CATALOGUE, "").metrics.append(
        [{"seed": 0, "env_steps": 300, "seconds": 1.0, "return": 2.5}]
    )
    runs[0].read()
    screen = io.StringIO()
    monitor = monitor_for(Console(file=screen, force_terminal=live, width=120))
    assert isinstance(monitor, LiveMonitor if live else LineMonitor)
    if isinstance(monitor, LineMonitor):
        monitor.seconds = 0.0
    with monitor:
        monitor.message("walk-seeds-2-3: finished")
        monitor.show(SweepProgress.begin(todo, [None, None, None]), runs[:2])
    shown = " ".join(screen.getvalue().split())
    for words in ("walk-seeds-2-3: finished", "300 of 1,000", "2.5", "compiling", "0 of 3 runs over"):
        assert words in shown
