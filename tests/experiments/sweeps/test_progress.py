"""The progress of a sweep, and how it is shown."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from emcts.experiments.sweeps.job import jobs
from emcts.experiments.sweeps.progress import SweepDisplay, SweepProgress
from emcts.runs.logging.display import Display, RunProgress, display_for
from tests.experiments.specs import WALKER
from tests.runs.toy import ToyCatalogue

CATALOGUE = ToyCatalogue()


def test_time_left() -> None:
    progress = SweepProgress([1000, 3000, 2000], [1000, 1000, 0], [50.0, 100.0, None])
    assert progress.share == pytest.approx(1 / 3)
    assert progress.seconds_left == 2000 / 100 + 2000 / 75
    assert SweepProgress([5], [0], [None]).seconds_left is None
    assert SweepProgress([5], [5], [None]).seconds_left == 0
    assert SweepProgress([5], [0], [None]).line.endswith("unknown time left")
    assert progress.line == "sweep: 1 of 3 runs over, 33% of the steps, 0:00:47 left"


def test_the_time_left_counts_the_compilation_of_each_run_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo, now = jobs([WALKER], tmp_path, CATALOGUE, "cpu"), [0.0]
    monkeypatch.setattr("emcts.experiments.sweeps.progress.time.monotonic", lambda: now[0])
    progress = SweepProgress.begin(todo, [None, None, None])
    display = SweepDisplay(progress, 0, todo, "", Display())
    for doing, seconds in (("compiling training", 40.0), ("compiling evaluation", 20.0), ("training", 9.0)):
        with display.busy(doing):
            now[0] += seconds
    assert progress.compilations == {0: 60.0}
    display.show(RunProgress(500, 1000, {0: {}, 1: {}}, 50.0, 10.0))
    assert progress.seconds_left == 4000 / 50 + 2 * 60
    progress.done[1] = progress.total[1]
    assert progress.seconds_left == 2000 / 50 + 60


@pytest.mark.parametrize("live", [True, False])
def test_the_whole_sweep_is_shown_beside_each_run(tmp_path: Path, live: bool) -> None:
    todo = jobs([WALKER], tmp_path, CATALOGUE, "cpu")
    progress = SweepProgress.begin(todo, [None, None, None])
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=live, width=120)
    display = SweepDisplay(
        progress, 0, todo, "the first run", display_for(console, "the first run"), seconds=0.0
    )
    with display:
        display.show(RunProgress(500, 1000, {0: {}, 1: {}}, 50.0, 10.0))
    shown = " ".join(screen.getvalue().split())
    assert "the first run" in shown
    assert "500 of 1,000" in shown
    assert "sweep: 0 of 3 runs over, 20% of the steps, 0:01:20 left" in shown
    assert progress.speeds == [50.0, None, None]
