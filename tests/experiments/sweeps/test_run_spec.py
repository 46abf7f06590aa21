"""Specs of runs: their settings, and which runs they describe."""

import dataclasses
from typing import Any

import pytest

from emcts.runs.config import Config, plain
from tests.experiments.specs import RUNNER, WALKER
from tests.runs.toy import ToyCatalogue, ToySettings

CATALOGUE = ToyCatalogue()


def test_changes_leave_the_original_as_it_is() -> None:
    assert WALKER.with_paper_settings().settings(CATALOGUE).steps == 5000
    small = WALKER.for_smoke_test(CATALOGUE)
    assert (small.settings(CATALOGUE).steps, small.seeds) == (200, 2)
    assert WALKER.settings(CATALOGUE).steps == 1000
    nested = WALKER.with_changes({"optimiser.learning_rate": 0.7})
    assert nested.settings(CATALOGUE).optimiser.learning_rate == 0.7
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
        ({"steps": 77}, "runner", True),
        ({"optimiser.learning_rate": 0.1}, "runner", True),
        ({"optimiser.learning_rate": 0.2}, "runner", False),
    ],
)
def test_which_runs_a_spec_describes(changes: dict[str, Any], agent: str, fits: bool) -> None:
    assert RUNNER.with_changes(changes).describes(config(ToySettings(), agent)) == fits


def test_differences_name_both_values() -> None:
    theirs = dataclasses.replace(ToySettings(), ballast=9, steps=3)
    differ = RUNNER.with_changes({"size": 7}).differences(config(theirs), CATALOGUE)
    assert differ == {"ballast": [9, 8], "optimiser.learning_rate": [0.1, 0.5], "size": [4, 7]}
