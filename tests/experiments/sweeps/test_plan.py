"""The plan of a sweep: steps, time and disk."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from emcts.experiments.sweeps.job import jobs
from emcts.experiments.sweeps.plan import measure_speed, plan
from tests.experiments.specs import RUNNER, WALKER
from tests.experiments.sweeps.test_job import trained
from tests.runs.toy import CHUNK, ToyCatalogue, ToySettings, ToyTrainer

CATALOGUE = ToyCatalogue()


def test_the_plan(tmp_path: Path) -> None:
    found = jobs([RUNNER, WALKER], tmp_path, CATALOGUE, "cpu")
    trained(found[0])
    (folder,) = RUNNER.folders(tmp_path)
    device = folder.summary()["device"]
    planned = plan(
        jobs([RUNNER.with_changes({"steps": 3000}), WALKER], tmp_path, CATALOGUE, "cpu"),
        CATALOGUE,
        device,
    )
    first, second = planned[0], planned[1]
    assert first.steps_left == 2 * 2000
    seconds = max(seed["seconds"] for seed in folder.summary()["seeds"])
    assert first.seconds == pytest.approx(2 * seconds)
    assert (second.steps_left, second.seconds) == (2000, None)
    assert first.disk_bytes == 2 * 4 * _bytes_of_a_seed()
    elsewhere = plan([found[0]], CATALOGUE, "another machine")[0]
    assert elsewhere.steps_per_second is None
    assert elsewhere.seconds == 0


def test_the_measured_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses a clock that advances only while a chunk sleeps: compilation is not counted."""
    now = [0.0]
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr("emcts.experiments.sweeps.plan.perf_counter", lambda: now[0])
    job = jobs([WALKER.with_changes({"chunk_seconds": 0.25})], tmp_path, CATALOGUE, "cpu")[0]
    assert measure_speed(job, CATALOGUE) == pytest.approx(2 * CHUNK / 0.25)


@dataclass(frozen=True)
class Evaluation:
    every: int = 200


@dataclass(frozen=True)
class Spaced(ToySettings):
    evaluation: Evaluation = field(default_factory=Evaluation)


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


def test_what_is_measured_is_short(tmp_path: Path) -> None:
    catalogue = SpacedCatalogue()
    measure_speed(jobs([WALKER], tmp_path, catalogue, "cpu")[0], catalogue)
    assert catalogue.asked == [Spaced(evaluation=Evaluation(50)).resolved()]


def _bytes_of_a_seed() -> int:
    key, weights, visits, env_steps = 8, 8 * 4, 16 * 4, 4
    return key + weights + visits + env_steps
