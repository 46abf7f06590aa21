"""The experiment on careful agents: its rows, and what it counts in a dataset."""

from pathlib import Path

import jax
import numpy as np
import pytest

from emcts.agents.catalogue import installed
from emcts.agents.mcts.offline import OfflineLearner
from emcts.cli.reproduce import _loader
from emcts.envs import DeepSea
from emcts.experiments import setting_paths as paths
from emcts.experiments.beyond import EXPERIMENTS, careful
from emcts.experiments.beyond.careful import BETAS, EXPERIMENT, LAKE, WORLDS
from emcts.experiments.beyond.frozen_lake import FrozenLake
from emcts.experiments.beyond.offline_episodes import best_within, pair_counts
from emcts.experiments.sweeps.job import jobs
from tests.agents.chain import LENGTH, ON
from tests.agents.mcts.test_offline import ALL, filled, trainer
from tests.experiments.paper.test_smoke import smoke

SPECS = {spec.name: spec for spec in EXPERIMENT.specs}


def test_every_dataset_has_every_beta_and_a_run_that_acts() -> None:
    assert EXPERIMENTS["careful"] is EXPERIMENT
    assert len(SPECS) == len(EXPERIMENT.specs)
    offline = [spec for spec in EXPERIMENT.specs if spec.offline is not None]
    for world in WORLDS:
        for size in world.sizes:
            of_data = [
                spec
                for spec in offline
                if spec.name.startswith(f"{world.name}-") and spec.changes[paths.OFFLINE_STEPS] == size
            ]
            plain = [
                spec.changes[paths.TARGET_BETA]
                for spec in of_data
                if spec.changes[paths.UNCERTAINTY_WEIGHT] == 0
            ]
            assert plain == list(BETAS) * len(world.agents)
            assert all(SPECS[spec.offline].agent == "e-az" for spec in of_data if spec.offline)
            assert size <= world.kept
    assert set(EXPERIMENT.smoke) <= set(SPECS)


def test_a_run_learns_from_the_run_of_the_same_seeds(tmp_path: Path) -> None:
    catalogue = _loader("careful")()
    spec = SPECS["slippery-e-az-100-beta--1-weight-0"]
    (job,) = jobs([spec], tmp_path, catalogue, "cpu")
    folder = job.folder(catalogue, "emcts")
    assert folder.config().settings["offline"] == str(tmp_path / "slippery-data-seeds-0-9")
    assert job.folder(catalogue, "emcts").path == folder.path  # begun: nothing has changed
    learner = job.trainer(catalogue, folder).learner  # type: ignore[attr-defined]
    assert isinstance(learner, OfflineLearner)
    assert spec.describes(folder.config())
    assert spec.differences(folder.config(), catalogue) == {}


def test_an_environment_of_the_experiment_is_made_for_it_alone() -> None:
    with pytest.raises(ValueError, match="is code, which is not run because a folder names it"):
        installed().resolve(LAKE, "az", installed().settings(LAKE, "az"))


def test_pairs_are_counted() -> None:
    one = trainer()
    state = jax.tree.map(lambda leaf: leaf[0], filled(one, ALL))
    counts = np.asarray(pair_counts(one.learner, state))  # type: ignore[arg-type]
    assert counts.sum() == len(ALL)
    np.testing.assert_array_equal(counts[:, ON], [12, 9, 6, 3][:LENGTH])


def test_the_best_return_within_a_dataset() -> None:
    sea = DeepSea(4, seed=None)  # the second action means right everywhere
    assert best_within(sea, np.ones((sea.num_states, 2), bool), 4) == pytest.approx(0.99)
    only_left = np.tile([True, False], (sea.num_states, 1))
    assert best_within(sea, only_left, 4) == pytest.approx(0.0)
    lake = FrozenLake(4)
    assert best_within(lake, np.ones((lake.num_states, 4), bool), 1000) == pytest.approx(14 / 17, abs=0.03)


@pytest.mark.long
def test_smoke(tmp_path: Path) -> None:
    results = smoke("careful", tmp_path)
    learned = (results / "learned.csv").read_text().splitlines()
    assert len(learned) == 1 + 2 * len(careful.BETAS)
    assert "lake," in (results / "data.csv").read_text()
