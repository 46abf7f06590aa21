"""The rows of the benchmark of worlds, and when a seed is done."""

import numpy as np
import pytest
from benchmarks.worlds import WORLDS, _chosen

from emcts.envs.references import parse_reference


def test_every_row_names_an_environment_and_agents() -> None:
    for world in WORLDS.values():
        parse_reference(world.reference)
        assert world.agents
        assert not set(world.agents) & set(world.baselines)


def test_rows_are_chosen_by_world_or_by_agent() -> None:
    assert _chosen(["rooms"]) == [("rooms", "e-az"), ("rooms", "az")]
    assert _chosen(["cart-pole:e-mz"]) == [("cart-pole", "e-mz")]
    assert len(_chosen([])) == sum(len(world.agents) + len(world.baselines) for world in WORLDS.values())
    with pytest.raises(ValueError, match="there is no row 'rome'"):
        _chosen(["rome"])


def test_a_seed_is_done_at_its_target() -> None:
    metrics = {"return": np.array([-140.0, -125.0, 500.0]), "solved": np.array([1.0, 0.5, np.nan])}
    assert WORLDS["mountain-car"].done(metrics, 0).tolist() == [False, True, True]
    assert WORLDS["door-key"].done(metrics, 0).tolist() == [True, False, False]
    assert WORLDS["2048"].done(metrics, 100.0).tolist() == [False, False, True]
