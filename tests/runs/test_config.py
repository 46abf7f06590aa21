"""Settings: stored, brought back, and compared by name."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from emcts.cli.resume import resume
from emcts.cli.train import train
from emcts.runs.config import Config, Schedule, fill, flat, plain, refuse_changes, sized, sized_as, word_size
from emcts.runs.folder import Folder
from tests.runs.toy import ToyCatalogue, ToyOptimiser, ToySettings

SETTINGS = ToySettings(optimiser=ToyOptimiser(learning_rate=1e-4, betas=(0.5,)), nan_at=7)


def test_settings_come_back_from_json() -> None:
    config = Config("plain", "walker", "long", (3, 5), plain(SETTINGS), Schedule(chunks=2))
    again = Config.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert fill(ToySettings(), again.settings) == SETTINGS


def test_a_setting_that_one_side_lacks_is_named() -> None:
    stored = plain(SETTINGS)
    del stored["optimiser"]["betas"]
    with pytest.raises(ValueError, match=r"setting optimiser\.betas: the run was made without it"):
        fill(ToySettings(), stored)
    with pytest.raises(ValueError, match=r"setting momentum: only the run's config\.json has it"):
        fill(ToySettings(), {**plain(SETTINGS), "momentum": 0.9})


def test_a_size_that_is_left_open_is_decided_once() -> None:
    begun = sized(ToySettings(total_env_steps=500))
    assert begun.hash_bits == 500
    assert sized(begun) == begun
    longer = ToySettings(total_env_steps=900)
    assert sized_as(longer, plain(begun)) == dataclasses.replace(longer, hash_bits=500)
    asked = dataclasses.replace(longer, hash_bits=7)
    assert sized_as(asked, plain(begun)) == asked


def test_a_longer_run_keeps_its_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emcts.runs.journal.draw_run", lambda folder, out: out)
    run = str(tmp_path / "run")
    toys: Any = ToyCatalogue()
    train(["plain", "--agent", "walker", "--total-env-steps", "300", "--out", run], toys)
    assert Folder.open(Path(run)).config().settings["hash_bits"] == 300
    resume([run, "--steps", "600"], toys)
    settings = Folder.open(Path(run)).config().settings
    assert (settings["total_env_steps"], settings["hash_bits"]) == (600, 300)


def test_a_changed_setting_is_named_with_both_values() -> None:
    other = dataclasses.replace(SETTINGS, optimiser=ToyOptimiser(1e-3, (0.5,)))
    with pytest.raises(ValueError, match=r"optimiser\.learning_rate is 0\.0001 in this run, got 0\.001"):
        refuse_changes(plain(SETTINGS), plain(other))


def test_only_the_number_of_steps_may_grow() -> None:
    longer, shorter = (dataclasses.replace(SETTINGS, total_env_steps=steps) for steps in (2000, 500))
    refuse_changes(plain(SETTINGS), plain(longer))
    with pytest.raises(ValueError, match="the run goes to 1,000 steps, got 500"):
        refuse_changes(plain(SETTINGS), plain(shorter))


def test_flat_names_are_dotted() -> None:
    assert dict(flat({"a": 1, "b": {"c": [2], "d": {"e": None}}})) == {"a": 1, "b.c": [2], "b.d.e": None}


def test_the_word_size_is_found_wherever_it_is() -> None:
    assert word_size({"world": {"word_size": 32}}) == 32
    assert word_size({"world": {"size": 32}}) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Config("plain", "walker", None, (), {}), "no seeds"),
        (lambda: Config("plain", "walker", None, (1, 1), {}), r"seeds \[1, 1\] repeat"),
        (lambda: Schedule(seconds=0.0), "every 0.0 seconds"),
        (lambda: Schedule(chunks=0), "every 0 chunks"),
        (lambda: Schedule(keep=1), "keep at least 2"),
        (lambda: Config.from_json({"environment": "plain"}), "config.json lacks agent"),
    ],
)
def test_nonsense_is_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
