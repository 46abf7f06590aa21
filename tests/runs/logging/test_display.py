"""The display of a run, on a terminal and in a pipe."""

import io

import pytest
from rich.console import Console

from emcts.runs.logging import display
from emcts.runs.logging.display import Clock, LineDisplay, LiveDisplay, RunProgress, display_for, duration
from emcts.runs.logging.metrics import LatestMetrics

LATEST: LatestMetrics = {
    0: {
        "seed": 0,
        "return": 0.25,
        "first_reward_step": 300.0,
        "solved_step": 900.0,
        "states_discovered": 1200.0,
    },
    1: {"seed": 1, "return": 0.75, "states_discovered": 1800.0},
}


def test_cells_are_means_over_the_seeds_that_have_reported() -> None:
    cells = RunProgress(500, 2000, LATEST, 1234.5, 3725.0).cells()
    assert cells == {
        "steps": "500 of 2,000",
        "return": "0.5",
        "first reward": "300 (1 of 2)",
        "solved": "1 of 2",
        "states": "1,500",
        "steps/s": "1,234",
        "left": "1:02:05",
    }


def test_the_clock_leaves_out_the_chunk_that_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 102.0, 104.0])  # the first chunk ends at 100, after any time
    monkeypatch.setattr(display.time, "monotonic", lambda: next(times))
    clock = Clock()
    first, second, third = (clock.progress(steps, 1000, LATEST) for steps in (200, 300, 400))
    assert first.steps_per_second is None
    assert second.steps_per_second == 100  # two seeds, 50 steps a second each
    assert third.seconds_left == 12


def test_lines_come_at_intervals_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(display.time, "monotonic", lambda: now)
    lines: list[str] = []
    with LineDisplay(lines.append, seconds=5.0) as shown:
        for step in range(1, 9):
            now += 1.0
            shown.show(RunProgress(step, 8, LATEST, None, None))
    assert [line.split(" |")[0] for line in lines] == ["steps 1 of 8", "steps 6 of 8", "steps 8 of 8"]


def test_a_message_comes_after_the_progress_shown_before() -> None:
    lines: list[str] = []
    with LineDisplay(lines.append, seconds=1e9) as shown:
        shown.show(RunProgress(1, 8, LATEST, None, None))
        shown.show(RunProgress(2, 8, LATEST, None, None))
        shown.message("done")
    assert lines[1].startswith("steps 2 of 8")
    assert lines[2:] == ["done"]


def test_a_terminal_gets_a_table_in_place() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    with display_for(console, "runs/x: e-az") as shown:
        assert isinstance(shown, LiveDisplay)
        shown.show(RunProgress(500, 2000, LATEST, 1234.5, 3725.0))
        shown.message("[a warning]")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "500 of 2,000" in text
    assert "runs/x: e-az" in text
    assert "[a warning]" in text


def test_a_pipe_gets_lines() -> None:
    console = Console(file=io.StringIO(), width=20)
    with display_for(console, "runs/x") as shown:
        assert isinstance(shown, LineDisplay)
        shown.show(RunProgress(500, 2000, LATEST, 1234.5, 3725.0))
    title, line = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert title == "runs/x"
    assert line.startswith("steps 500 of 2,000 | return 0.5 |")


def test_durations() -> None:
    assert (duration(3725.2), duration(None), duration(None, "unknown time")) == (
        "1:02:05",
        "-",
        "unknown time",
    )
