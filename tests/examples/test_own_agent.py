"""The example that trains in a world of one's own."""

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emcts.agents import own
from emcts.envs import MinAtar

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("own_agent")


def test_it_opens_the_door(example: Any) -> None:
    settings = dataclasses.replace(example.SETTINGS, total_env_steps=1280)
    steps = example.first_reward(example.train("e_az", settings, length=13, seeds=(0,)))
    assert np.all(steps < 1280)


def test_images_need_networks_of_their_own() -> None:
    with pytest.raises(ValueError, match="flatten them"):
        own.problem(MinAtar("breakout"), longest_episode=10)
