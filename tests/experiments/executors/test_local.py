"""The local executor: broken runs, other settings and exit codes."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from emcts.experiments.executors.executor import ExecutorOptions, SweepRequest, SweepResult
from emcts.experiments.executors.local import LocalExecutor
from emcts.experiments.sweeps.job import jobs
from emcts.experiments.sweeps.plan import plan
from emcts.experiments.sweeps.run_spec import RunSpec
from tests.experiments.specs import RUNNER, WALKER
from tests.runs.toy import ToyCatalogue

CATALOGUE = ToyCatalogue()


def swept(specs: list[RunSpec], out: Path, until: str | None = None) -> tuple[SweepResult, str]:
    screen = io.StringIO()
    planned = plan(jobs(specs, out, CATALOGUE, "cpu"), CATALOGUE, "an abacus")
    return LocalExecutor().run(
        SweepRequest(planned, ToyCatalogue, Console(file=screen, width=200), "emcts", until=until)
    ), screen.getvalue()


def test_a_broken_run_is_reported_now_and_later_and_stops_no_other(tmp_path: Path) -> None:
    rows = [RUNNER.with_changes({"nan_at": 300}), WALKER.with_seeds(1)]
    result, printed = swept(rows, tmp_path)
    assert (result.exit_code, list(result.problems)) == (1, [str(tmp_path / "run-seeds-0-1")])
    assert (
        "a loss was not finite or exploded: seed 1 at step 300"
        in result.problems[str(tmp_path / "run-seeds-0-1")]
    )
    assert "sweep: 2 of 2 runs over" in printed
    again, printed = swept(rows, tmp_path)
    assert again.exit_code == 1
    assert "broke in an earlier sweep" in again.problems[str(tmp_path / "run-seeds-0-1")]
    assert printed == ""


def test_other_settings_are_refused_before_the_first_run(tmp_path: Path) -> None:
    short = [WALKER.with_seeds(1).with_changes({"steps": 200})]
    swept(short, tmp_path)
    rows = [RUNNER, WALKER.with_seeds(1).with_changes({"size": 5})]
    with pytest.raises(ValueError, match="walk-seeds-0-0 was begun with other settings"):
        swept(rows, tmp_path)
    assert not (tmp_path / "run-seeds-0-1").exists()


def test_exit_codes() -> None:
    assert SweepResult().exit_code == 0
    assert SweepResult({"a": "bad"}).exit_code == 1
    assert SweepResult({"a": "bad"}, stopped=130).exit_code == 130


def test_a_run_ends_with_an_event_of_all_its_seeds(tmp_path: Path) -> None:
    """Both seeds have their first reward at step 300, and one of them is solved."""
    found = ExecutorOptions(until="found").last_event
    _, printed = swept([RUNNER], tmp_path, found)
    assert "ended and saved at step 300 of 1,000" in printed
    _, printed = swept([RUNNER], tmp_path, found)
    assert printed == "", "nothing is left to train"
    _, printed = swept([RUNNER], tmp_path, ExecutorOptions(until="solved").last_event)
    assert "resumes from step 300" in printed
    assert "finished: 1,000 steps of each seed" in printed


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="found, solved, regret"):
        _ = ExecutorOptions(until="seen").last_event
    assert ExecutorOptions().last_event is None
