"""The display of a run, on a terminal and in a pipe."""

import io
import time

import pytest
from rich.console import Console

from emcts.runs.logging import display
from emcts.runs.logging.display import Clock, LineDisplay, LiveDisplay, RunProgress, display_for, duration
from emcts.runs.logging.metrics import LatestMetrics
from emcts.runs.summary import summarise

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


def test_what_cannot_be_solved_shows_no_count() -> None:
    played = {0: {"seed": 0, "return": 0.25}}
    assert "solved" not in RunProgress(500, 2000, played, None, None).cells()
    assert summarise([0], played, "running", 2000)["seeds_solved"] is None
    evaluated = {0: {"seed": 0, "return": 0.25, "solved": 0.5}}
    assert RunProgress(500, 2000, evaluated, None, None).cells()["solved"] == "0 of 1"
    assert summarise([0], evaluated, "running", 2000)["seeds_solved"] == 0


def test_the_clock_leaves_out_the_chunk_that_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 102.0, 104.0])  # the first chunk ends at 100, after any time
    monkeypatch.setattr(display.time, "monotonic", lambda: next(times))
    clock = Clock()
    first, second, third = (clock.progress(steps, 1000, LATEST) for steps in (200, 300, 400))
    assert first.steps_per_second is None
    assert second.steps_per_second == 100  # two seeds, 50 steps a second each
    assert third.seconds_left == 12


def test_the_clock_has_a_speed_after_the_first_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 102.0, 104.0, 105.0])
    monkeypatch.setattr(display.time, "monotonic", lambda: next(times))
    clock = Clock()
    clock.start(200)  # after compilation
    first, second, chunk = (
        clock.progress(steps, 1000, LATEST, in_chunk=steps < 600) for steps in (300, 500, 600)
    )
    assert (first.steps_per_second, second.steps_per_second) == (100, 150)
    assert chunk.seconds_left == 5
    assert len(clock.marks) == 2, "the start and the chunk"


def test_lines_in_a_chunk_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(display.time, "monotonic", lambda: now)
    lines: list[str] = []
    shown = LineDisplay(lines.append, seconds=5.0, quiet_seconds=30.0)
    for step in range(1, 61):
        now += 2.0
        shown.show(RunProgress(step, 100, {0: {"seed": 0}}, 3.0, None, in_chunk=True))
    assert [line.split(" |")[0] for line in lines] == [f"steps {n} of 100" for n in (1, 16, 31, 46)]
    assert "steps/s 3" in lines[0]
    assert "return - " in lines[0], "nothing was evaluated yet"


def test_what_takes_long_is_told_in_lines() -> None:
    lines: list[str] = []
    with LineDisplay(lines.append, quiet_seconds=0.01) as shown:
        with shown.busy("compiling training", done="compiled training"):
            deadline = time.monotonic() + 10
            while len(lines) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
        with shown.busy("training"):
            pass
    assert lines[0] == "compiling training ..."
    assert set(lines[1:-1]) == {"compiling training 0:00"}
    assert lines[-1] == "compiled training in 0 s"


def screen(shown: LiveDisplay, width: int = 120) -> str:
    """What the terminal shows now."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    console.print(shown.live.renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_terminal_shows_for_how_long_something_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(display.time, "monotonic", lambda: now)
    printed = io.StringIO()
    shown = LiveDisplay(Console(file=printed), "runs/x: e-az")
    with shown.busy("compiling training", done="compiled training"):
        now += 72
        assert screen(shown).splitlines() == ["runs/x: e-az", "compiling training 1:12"]
    assert "compiling" not in screen(shown)
    assert printed.getvalue() == "compiled training in 72 s\n"
    shown.show(RunProgress(500, 2000, LATEST, 1234.5, 3725.0, in_chunk=True))
    with shown.busy("training"):
        now += 2
        assert "training" not in screen(shown), "a piece takes seconds"
        now += 10
        assert screen(shown).splitlines()[-1] == "training 0:12"


def test_the_row_of_a_stop_stays_until_the_end() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120, color_system=None)
    with LiveDisplay(console, "runs/x: e-az") as shown:
        shown.show(RunProgress(500, 2000, LATEST, 1234.5, 3725.0))
        shown.stopping("stopping after this piece")
        for steps in (600, 700):
            shown.show(RunProgress(steps, 2000, LATEST, 1234.5, 3725.0))
            lines = screen(shown).splitlines()
            assert lines[-1] == "stopping after this piece"
            assert any(f"{steps} of 2,000" in line for line in lines)
        shown.message("a warning")
        assert "stopping after this piece" in screen(shown)
        file.truncate(0)
    last = file.getvalue().splitlines()
    assert not any("stopping" in line for line in last), "it has stopped"
    assert sum("┏" in line for line in last) == 1
    assert any("700 of 2,000" in line for line in last), "a whole table is left"


def test_a_stop_is_a_line_in_a_pipe() -> None:
    lines: list[str] = []
    with LineDisplay(lines.append) as shown:
        shown.stopping("stopping after this piece")
        assert lines == ["stopping after this piece"]


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
