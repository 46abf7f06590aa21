"""Training on an environment of one's own: the example, and the default settings."""

import dataclasses
import importlib
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import pytest
from jaxtyping import Array, Float, PyTree

from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.presets.default import default_settings
from emcts.agents.task import Task
from emcts.envs import DeepSea, time_limit
from emcts.models.encoders import InputSpec
from emcts.training.env_factory import SharedEnv

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("own_agent")


@pytest.mark.long
def test_it_opens_the_door(example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = {"evaluation.every": 640, "evaluation.episodes": 1, "evaluation.max_steps": 3}
    (step,) = example.first_success("e-az", length=13, steps=640, seeds=(0,), settings=small, quiet=True)
    assert 0 < step < 640


@pytest.mark.parametrize("agent", ["az", "az-ube", "e-az"])
def test_default_settings_suit_every_agent_with_a_simulator(agent: str, example: ModuleType) -> None:
    for env in (DeepSea(5, seed=0), time_limit(example.KeyCorridor(7), 21)):
        task = Task(SharedEnv(env), max_steps=21)
        learner = compose(VARIANTS[agent], task, default_settings(task, 10_000))
        assert learner.num_envs == 8


def test_a_matrix_can_be_observed(example: ModuleType) -> None:
    @dataclasses.dataclass(frozen=True)
    class Columns(example.KeyCorridor):
        """Observed as a matrix."""

        def observe(self, state: PyTree) -> Float[Array, "1 P"]:
            return jnp.expand_dims(super().observe(state), 0)

    task = Task(SharedEnv(Columns(7)), max_steps=10)
    assert task.input_spec == InputSpec((1, 9))
    compose(VARIANTS["e-az"], task, default_settings(task, 1000))
