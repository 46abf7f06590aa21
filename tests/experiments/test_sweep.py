"""Sweeps as data: which runs a row needs, what is left of them, and that no run is trained over."""

import dataclasses
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emcts.experiments.plan import plan_of
from emcts.experiments.progress import SweepDisplay, Tally
from emcts.experiments.rates import timed
from emcts.experiments.sweep import Job, folders_of, jobs
from emcts.runs.config import Config, plain
from emcts.runs.drive import drive
from emcts.runs.logging.display import LineDisplay, RunProgress, display_for
from tests.experiments.toys import RUNNER, WALKER
from tests.runs.toy import CHUNK, ToyCatalogue, ToySettings, ToyTrainer

CATALOGUE = ToyCatalogue()


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)


def trained(job: Job) -> None:
    folder = job.folder(CATALOGUE, "emcts reproduce toy")
    drive(job.trainer(CATALOGUE, folder), folder, LineDisplay(lambda text: None), "emcts reproduce toy")


def test_seeds_are_cut_into_runs_that_fit(tmp_path: Path) -> None:
    found = jobs([WALKER, RUNNER], tmp_path, CATALOGUE, "cpu")
    assert [(job.path.name, job.seeds) for job in found] == [
        ("walk-seeds-0-1", (0, 1)),
        ("walk-seeds-2-3", (2, 3)),
        ("walk-seeds-4-4", (4,)),
        ("run-seeds-0-1", (0, 1)),
    ]
    assert [job.seeds for job in jobs([WALKER], tmp_path, CATALOGUE, "gpu")] == [(0, 1, 2, 3), (4,)]
    assert [job.work for job in found] == [2000, 2000, 1000, 2000]


def test_what_is_there_is_not_repeated(tmp_path: Path) -> None:
    first = jobs([WALKER], tmp_path, CATALOGUE, "gpu")[0]
    trained(first)
    assert first.is_over
    again = jobs([WALKER], tmp_path, CATALOGUE, "cpu")
    assert [(job.seeds, job.is_over) for job in again] == [((0, 1, 2, 3), True), ((4,), False)]
    assert [len(job.seeds) for job in jobs([WALKER.with_seeds(3)], tmp_path, CATALOGUE, "cpu")] == [4]
    assert folders_of(RUNNER, tmp_path) == []


def test_a_run_is_lengthened_when_more_steps_are_wanted(tmp_path: Path) -> None:
    trained(jobs([RUNNER], tmp_path, CATALOGUE, "cpu")[0])
    (longer,) = jobs([RUNNER.changed(total_env_steps=1400)], tmp_path, CATALOGUE, "cpu")
    assert (longer.env_steps, longer.is_over) == (1000, False)
    trained(longer)
    (folder,) = folders_of(RUNNER, tmp_path)
    assert folder.config().total_env_steps == longer.env_steps == 1400
    assert folder.config().settings["hash_bits"] == 1000, "sizes stay those that it began with"
    assert RUNNER.differences(folder.config(), CATALOGUE) == {}
    (shorter,) = jobs([RUNNER.changed(total_env_steps=600)], tmp_path, CATALOGUE, "cpu")
    assert shorter.is_over


def test_a_run_of_other_settings_is_refused(tmp_path: Path) -> None:
    trained(jobs([RUNNER], tmp_path, CATALOGUE, "cpu")[0])
    (other,) = jobs([RUNNER.changed(size=5, total_env_steps=2000)], tmp_path, CATALOGUE, "cpu")
    with pytest.raises(ValueError, match="begun with other settings .*size is 4.*got 5.*another --out"):
        other.folder(CATALOGUE, "")


def test_a_broken_run_is_over(tmp_path: Path) -> None:
    (job,) = jobs([RUNNER.changed(nan_at=300)], tmp_path, CATALOGUE, "cpu")
    trained(job)
    assert job.is_broken
    assert job.is_over
    assert Tally.of([job], [None]).share == 1


def test_rows_are_changed_without_touching_the_original() -> None:
    assert WALKER.with_paper_settings().settings(CATALOGUE).total_env_steps == 5000
    small = WALKER.made_small(CATALOGUE, {"size": 3, "unknown_here": 1})
    assert (small.settings(CATALOGUE).size, small.seeds) == (3, 2)
    assert WALKER.settings(CATALOGUE).size == 4
    with pytest.raises(ValueError, match="--seeds 0: give at least 1"):
        WALKER.with_seeds(0)


def config(settings: ToySettings, agent: str = "runner") -> Config:
    return Config("plain", agent, None, (0,), plain(settings))


@pytest.mark.parametrize(
    ("changes", "agent", "fits"),
    [
        ({}, "runner", True),
        ({"size": 4}, "runner", True),
        ({"size": 5}, "runner", False),
        ({}, "walker", False),
        ({"total_env_steps": 77}, "runner", True),
    ],
)
def test_which_runs_a_row_describes(changes: dict[str, Any], agent: str, fits: bool) -> None:
    assert RUNNER.changed(**changes).describes(config(ToySettings(), agent)) == fits


def test_differences_name_both_values() -> None:
    theirs = dataclasses.replace(ToySettings(), ballast=9, total_env_steps=3)
    differ = RUNNER.changed(size=7).differences(config(theirs), CATALOGUE)
    assert differ == {"ballast": [9, 8], "optimiser.learning_rate": [0.1, 0.5], "size": [4, 7]}


def test_the_plan(tmp_path: Path) -> None:
    found = jobs([RUNNER, WALKER], tmp_path, CATALOGUE, "cpu")
    trained(found[0])
    (folder,) = folders_of(RUNNER, tmp_path)
    device = folder.summary()["device"]
    planned = plan_of(
        jobs([RUNNER.changed(total_env_steps=3000), WALKER], tmp_path, CATALOGUE, "cpu"), CATALOGUE, device
    )
    first, second = planned[0], planned[1]
    assert first.steps_left == 2 * 2000
    seconds = max(seed["seconds"] for seed in folder.summary()["seeds"])
    assert first.seconds == pytest.approx(2 * seconds)
    assert (second.steps_left, second.seconds) == (2000, None)
    assert first.disk_bytes == 2 * 4 * _bytes_of_a_seed()
    elsewhere = plan_of([found[0]], CATALOGUE, "another machine")[0]
    assert elsewhere.steps_per_second is None
    assert elsewhere.seconds == 0


def test_how_fast_a_row_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on only while a chunk sleeps: compiling is not counted."""
    now = [0.0]
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr("emcts.experiments.rates.perf_counter", lambda: now[0])
    job = jobs([WALKER.changed(chunk_seconds=0.25)], tmp_path, CATALOGUE, "cpu")[0]
    assert timed(job, CATALOGUE) == pytest.approx(2 * CHUNK / 0.25)


@dataclass(frozen=True)
class Spaced(ToySettings):
    steps_between_evaluations: int = 200


class SpacedCatalogue(ToyCatalogue):
    def __init__(self) -> None:
        self.asked: list[ToySettings] = []

    def settings(self, environment: str, agent: str, preset: str | None = None) -> ToySettings:
        return Spaced()

    def trainer(
        self, environment: str, agent: str, settings: ToySettings, seeds: tuple[int, ...]
    ) -> ToyTrainer:
        self.asked.append(settings)
        return super().trainer(environment, agent, settings, seeds)


def test_what_is_timed_is_short(tmp_path: Path) -> None:
    catalogue = SpacedCatalogue()
    timed(jobs([WALKER], tmp_path, catalogue, "cpu")[0], catalogue)
    assert catalogue.asked == [Spaced(steps_between_evaluations=50)]


def _bytes_of_a_seed() -> int:
    key, weights, visits, env_steps = 8, 8 * 4, 16 * 4, 4
    return key + weights + visits + env_steps


def test_time_left() -> None:
    tally = Tally([1000, 3000, 2000], [1000, 1000, 0], [50.0, 100.0, None])
    assert tally.share == pytest.approx(1 / 3)
    assert tally.seconds_left == 2000 / 100 + 2000 / 75
    assert Tally([5], [0], [None]).seconds_left is None
    assert Tally([5], [5], [None]).seconds_left == 0
    assert tally.line == "sweep: 1 of 3 runs over, 33% of the steps, 0:00:47 left"
    assert Tally([5], [0], [None]).line.endswith(" unknown time left")


@pytest.mark.parametrize("live", [True, False])
def test_the_whole_sweep_is_shown_beside_each_run(tmp_path: Path, live: bool) -> None:
    todo = jobs([WALKER], tmp_path, CATALOGUE, "cpu")
    tally = Tally.of(todo, [None, None, None])
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=live, width=120)
    display = SweepDisplay(
        tally, 0, todo, "the first run", display_for(console, "the first run"), seconds=0.0
    )
    with display:
        display.show(RunProgress(500, 1000, {0: {}, 1: {}}, 50.0, 10.0))
    shown = " ".join(screen.getvalue().split())
    assert "the first run" in shown
    assert "500 of 1,000" in shown
    assert "sweep: 0 of 3 runs over, 20% of the steps, 0:01:20 left" in shown
    assert tally.rates == [50.0, None, None]
