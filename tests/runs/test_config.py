"""Settings: stored, brought back, and compared by name."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from emcts.cli.resume import resume
from emcts.cli.train import train
from emcts.runs.config import (
    CheckpointSchedule,
    Config,
    fill,
    flat,
    override,
    plain,
    refuse_changes,
    resolve_as,
)
from emcts.runs.folder import Folder
from tests.runs.toy import ToyCatalogue, ToyNovelty, ToyOptimiser, ToySettings

SETTINGS = ToySettings(optimiser=ToyOptimiser(learning_rate=1e-4, betas=(0.5,)), nan_at=7)


@dataclasses.dataclass(frozen=True)
class Inner:
    bits: int | None = None


@dataclasses.dataclass(frozen=True)
class Nested:
    inner: Inner = dataclasses.field(default_factory=Inner)
    absent: int | None = None

    def resolved(self) -> "Nested":
        return dataclasses.replace(self, inner=Inner(3))


def test_settings_come_back_from_json() -> None:
    config = Config("plain", "walker", "long", (3, 5), plain(SETTINGS), CheckpointSchedule(chunks=2))
    again = Config.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert fill(ToySettings(), again.settings) == SETTINGS


def test_a_setting_that_one_side_lacks_is_named() -> None:
    stored: dict[str, Any] = plain(SETTINGS)
    del stored["optimiser"]["betas"]
    with pytest.raises(ValueError, match=r"setting optimiser\.betas: the run was made without it"):
        fill(ToySettings(), stored)
    with pytest.raises(ValueError, match=r"setting momentum: only the run's config\.json has it"):
        fill(ToySettings(), {**plain(SETTINGS), "momentum": 0.9})


def test_a_setting_that_is_left_open_is_resolved_once() -> None:
    begun = ToySettings(steps=500).resolved()
    assert begun.novelty.hash_bits == 500
    assert begun.resolved() == begun
    longer = ToySettings(steps=900)
    assert resolve_as(longer, longer.resolved(), plain(begun)) == dataclasses.replace(
        longer, novelty=ToyNovelty(500)
    )
    asked = dataclasses.replace(longer, novelty=ToyNovelty(7))
    assert resolve_as(asked, asked.resolved(), plain(begun)) == asked


def test_only_what_is_left_open_is_taken_from_a_run() -> None:
    begun, given = Nested(Inner(5)), Nested(Inner(7))
    assert resolve_as(Nested(), Nested().resolved(), plain(begun)) == begun
    assert resolve_as(given, given.resolved(), plain(begun)) == given
    assert resolve_as(Nested(), Nested().resolved(), {}) == Nested()


def test_an_extended_run_keeps_its_resolved_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)
    run = str(tmp_path / "run")
    toys: Any = ToyCatalogue()
    train(["plain", "--agent", "walker", "--steps", "300", "--out", run], toys)
    assert Folder.open(Path(run)).config().settings["novelty"] == {"hash_bits": 300}
    resume([run, "--steps", "600"], toys)
    settings = Folder.open(Path(run)).config().settings
    assert (settings["steps"], settings["novelty"]) == (600, {"hash_bits": 300})


def test_a_changed_setting_is_named_with_both_values() -> None:
    other = dataclasses.replace(SETTINGS, optimiser=ToyOptimiser(1e-3, (0.5,)))
    with pytest.raises(ValueError, match=r"optimiser\.learning_rate is 0\.0001 in this run, got 0\.001"):
        refuse_changes(plain(SETTINGS), plain(other))


def test_only_the_number_of_steps_may_grow() -> None:
    longer, shorter = (dataclasses.replace(SETTINGS, steps=steps) for steps in (2000, 500))
    refuse_changes(plain(SETTINGS), plain(longer))
    with pytest.raises(ValueError, match="the run has 1,000 steps, got 500"):
        refuse_changes(plain(SETTINGS), plain(shorter))


def test_flat_names_are_dotted() -> None:
    assert dict(flat({"a": 1, "b": {"c": [2], "d": {"e": None}}})) == {"a": 1, "b.c": [2], "b.d.e": None}


def test_a_setting_is_overridden_by_its_dotted_path() -> None:
    changed = override(SETTINGS, {"optimiser.learning_rate": 0.2, "size": 5})
    assert (changed.optimiser, changed.size) == (ToyOptimiser(0.2, (0.5,)), 5)
    with pytest.raises(ValueError, match="no setting 'momentum' in ToyOptimiser"):
        override(SETTINGS, {"optimiser.momentum": 0.9})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Config("plain", "walker", None, (), {}), "no seeds"),
        (lambda: Config("plain", "walker", None, (1, 1), {}), r"seeds \[1, 1\] repeat"),
        (lambda: CheckpointSchedule(seconds=0.0), "every 0.0 seconds"),
        (lambda: CheckpointSchedule(chunks=0), "every 0 chunks"),
        (lambda: CheckpointSchedule(keep=1), "keep at least 2"),
        (lambda: Config.from_json({"environment": "plain"}), "config.json lacks agent"),
    ],
)
def test_nonsense_is_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
