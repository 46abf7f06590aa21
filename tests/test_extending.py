"""What an extension touches: each is one entry in a table, and is then used by its name.

Entries of this file are thrown away after each test.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.mcts.agent import NoveltyUpdate
from emcts.agents.mcts.planners import Planner, Puct, uniform_prior
from emcts.agents.mcts.variants import EPISTEMIC, VARIANTS, Acting, Variant
from emcts.agents.mcts.world_models import learned, simulator
from emcts.agents.novelty import ESTIMATORS, Estimator, EstimatorInputs
from emcts.agents.settings import NoveltySettings
from emcts.cli import main
from emcts.experiments.paper import EXPERIMENTS
from emcts.runs.config import override
from emcts.runs.folder import Folder
from emcts.runs.logging.loggers import LOGGERS, LoggerEntry
from emcts.runs.logging.metrics import MetricsLine
from emcts.types import Key, Replaceable, record
from tests.agents.tiny import CATALOGUE, DEEP_SEA, LEARNED_DEEP_SEA, Changes, advanced, table
from tests.experiments import toy_figure
from tests.runs.toy import ToyCatalogue

SMALL: Changes = {
    "steps": 60,
    "evaluation.every": 30,
    "search.simulations": 3,
    "replay.batch_size": 8,
    "schedule.updates": 1,
    "schedule.warmup_steps": 20,
    "novelty.reward_noise": False,
}


@record
class VisitedState(Replaceable):
    visited: Bool[Array, "N"]


@dataclasses.dataclass(frozen=True)
class Visited:
    """An estimator over the indices of a finite environment: `scale` until an index was visited, then 0."""

    num_indices: int
    scale: float

    def init(self, key: Key) -> VisitedState:
        return VisitedState(jnp.zeros(self.num_indices, bool))

    def variance(self, state: VisitedState, x: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where(state.visited[x], 0.0, self.scale)

    def update(self, state: VisitedState, xs: Int[Array, "B"], mask: Bool[Array, "B"]) -> VisitedState:
        return VisitedState(state.visited.at[xs].max(mask, mode="drop"))


def visited(settings: NoveltySettings, inputs: EstimatorInputs) -> Visited:
    assert inputs.spec.num_indices is not None
    return Visited(inputs.spec.num_indices, settings.unseen_variance)


@pytest.fixture
def estimator(monkeypatch: pytest.MonkeyPatch) -> str:
    """Registers a novelty estimator."""
    monkeypatch.setitem(ESTIMATORS, "visited", Estimator(visited, NoveltyUpdate.ACTING))
    return "visited"


def most_visited(settings: Any) -> Planner:
    """Acts by the most visited action in every episode, with a uniform prior where it explores."""
    return Puct(settings.search.simulations, uniform_prior, temperature=0.0)


@pytest.fixture
def variants(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Registers a variant for each kind of model: its own planner, and the exploration of epistemic agents."""
    acting = Acting(most_visited, EPISTEMIC.exploration, uncertainty=True)
    for name, model in {"my-az": simulator, "my-mz": learned}.items():
        monkeypatch.setitem(VARIANTS, name, Variant("a variant of a test", model, acting))
    return {"simulator": "my-az", "learned": "my-mz"}


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("simulator", DEEP_SEA),
        pytest.param("learned", LEARNED_DEEP_SEA, marks=pytest.mark.long),
    ],
)
def test_a_novelty_estimator_and_a_variant_are_one_entry_each(
    model: str, changes: Changes, estimator: str, variants: dict[str, str]
) -> None:
    agent = variants[model]
    assert CATALOGUE.agents("deep-sea")[agent] == "a variant of a test"
    assert CATALOGUE.presets("deep-sea", agent)[0] == "default"
    preset = CATALOGUE.settings("deep-sea", agent)
    settings = override(preset, {**changes, **SMALL, "novelty.kind": estimator})
    one: Any = CATALOGUE.trainer("deep-sea", agent, settings, (0,))
    assert isinstance(one.learner.world_model.novelty, Visited)
    assert isinstance(one.learner.planner, Puct)
    state, reports = advanced(one, one.init(), 2)
    assert np.isfinite([table(reports, name)[-1] for name in ("loss", "loss_ube", "uncertainty")]).all()
    pairs = state.novelty.visited[0].reshape(-1, 2).any(axis=1)
    np.testing.assert_array_equal(pairs, state.log.visits[0] > 0, err_msg="acting updates the estimator")
    assert table(reports, "states_discovered")[-1, 0] == pairs.sum()


@pytest.fixture
def commands_on_toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Gives commands an empty folder and the toy catalogue."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emcts.agents.catalogue.installed", ToyCatalogue)
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)


@pytest.mark.usefixtures("commands_on_toys")
def test_a_logger_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[MetricsLine] = []

    class InMemory:
        def __init__(self, folder: Folder, env_steps: int) -> None: ...

        def write(self, lines: Iterable[MetricsLine]) -> None:
            written.extend(lines)

        def close(self) -> None: ...

    monkeypatch.setitem(LOGGERS, "in-memory", LoggerEntry(InMemory, package="emcts"))
    main(["train", "plain", "--agent", "walker", "--seeds", "2", "--out", "run", "--loggers", "in-memory"])
    assert written == Folder.open(Path("run")).metrics.read()


@pytest.mark.usefixtures("commands_on_toys")
def test_a_figure_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "toy", toy_figure.EXPERIMENT)
    main(["reproduce", "toy"])
    assert Path("results/toy/toy.png").read_bytes().startswith(b"\x89PNG")
