"""Settings out of their range are refused by name, before anything is made."""

import math

import pytest

from emcts.agents.catalogue import ENVIRONMENTS, installed
from emcts.agents.ranges import RANGES, check_ranges
from emcts.experiments.setting_values import parse_setting, setting_types
from emcts.runs.config import flat, override, plain

CATALOGUE = installed()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_preset_is_in_range(environment: str) -> None:
    for agent in CATALOGUE.agents(environment):
        for preset in CATALOGUE.presets(environment, agent):
            check_ranges(CATALOGUE.settings(environment, agent, preset))


def test_every_range_is_that_of_a_setting() -> None:
    agents = [CATALOGUE.settings("deep-sea", agent) for agent in ("e-az", "e-mz", "bdqn")]
    assert set(RANGES) <= {path for settings in agents for path, _ in flat(plain(settings))}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("search.discount", 1.5, "search.discount is 1.5: give a number from 0 to 1"),
        ("exploration.beta", math.nan, "exploration.beta is nan: give a finite number"),
        ("exploration.beta", math.inf, "exploration.beta is inf: give a finite number"),
        ("evaluation.beta", math.nan, "evaluation.beta is nan"),
        ("search.temperature", math.nan, "search.temperature is nan: give at least 0"),
        ("exploration.temperature", 0.0, "exploration.temperature is 0.0: give a finite number above 0"),
        ("optimiser.learning_rate", -1.0, "learning_rate is -1.0: give a number from 0 to 1"),
        ("optimiser.learning_rate", 1e3, "learning_rate is 1000.0: give a number from 0 to 1"),
        ("novelty.learning_rate", 1.5, "novelty.learning_rate is 1.5: give a number from 0 to 1"),
        ("replay.importance", (0.0, math.inf), "replay.importance is inf"),
        ("replay.capacity", 2**40, "replay.capacity is 1099511627776: give at most 2,147,483,647"),
        ("steps", 0, "steps is 0: give at least 1"),
    ],
)
def test_a_number_out_of_range_is_refused(path: str, value: object, message: str) -> None:
    settings = override(CATALOGUE.settings("deep-sea", "e-az"), {path: value})
    with pytest.raises(ValueError, match=message):
        CATALOGUE.resolve("deep-sea", "e-az", settings)
    with pytest.raises(ValueError, match=message):
        CATALOGUE.trainer("deep-sea", "e-az", settings, (0,))


def test_betas_of_any_sign_and_many_steps_pass() -> None:
    changes = {"exploration.beta": -3.0, "targets.beta": -1.0, "steps": 2**40}
    check_ranges(override(CATALOGUE.settings("deep-sea", "e-az"), changes))


def test_values_of_sweeps_are_finite() -> None:
    types = setting_types(CATALOGUE.settings("deep-sea", "e-az"))
    for value in ("nan", "-inf", math.nan):
        with pytest.raises(ValueError, match="expected a finite number"):
            parse_setting("exploration.beta", value, types)
