"""Hash tables: as large as a run needs, and how full they are."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from emcts.agents.gumbel_family import novelty_of, table_bits

from emcts.agents import catalogue
from tests.agents.tiny import advanced, table, trainer


@pytest.mark.parametrize("environment", ["subleq", "minatar-breakout"])
@pytest.mark.parametrize("novelty", ["set", "counts"])
def test_a_table_is_a_tenth_full_at_most_if_every_step_is_new(environment: str, novelty: str) -> None:
    for steps in (2_000_000, 4_096_000, 13_000_000):
        settings: Any = dataclasses.replace(
            catalogue.settings(environment, "e-az"), novelty=novelty, total_env_steps=steps
        )
        bits = table_bits(settings)
        assert steps <= 2**bits / 10
        assert settings.resolved().hash_bits == bits == novelty_of(settings).bits  # type: ignore[attr-defined]
        state = jax.eval_shape(novelty_of(settings).init, jax.random.key(0))
        assert sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) <= 2**28


def test_a_table_that_was_asked_for_is_taken() -> None:
    settings: Any = dataclasses.replace(catalogue.settings("subleq", "e-az"), hash_bits=20)
    assert table_bits(settings) == 20
    assert settings.resolved() == settings


@pytest.mark.parametrize(
    ("environment", "preset"), [("subleq", "paper-subleq"), ("minatar-asterix", "paper-minatar")]
)
def test_the_paper_has_its_own_table(environment: str, preset: str) -> None:
    assert catalogue.settings(environment, "e-az", preset).hash_bits == 24


def test_an_agent_without_a_table_has_no_size() -> None:
    settings = catalogue.settings("minatar-breakout", "e-mz")
    assert settings.novelty == "ensemble"
    assert settings.resolved().hash_bits is None


def test_occupancy_is_a_metric() -> None:
    programs = trainer("subleq", "e-az")
    _, reports = advanced(programs, programs.init(), 2)
    occupied = table(reports, "table_occupancy")
    np.testing.assert_allclose(occupied, table(reports, "states_discovered") / 2**12)
    assert np.all(occupied[1] >= occupied[0])
    assert np.all(occupied > 0)


def test_an_agent_without_a_table_has_no_occupancy() -> None:
    sea = trainer("deep-sea", "bdqn")
    _, (report,) = advanced(sea, sea.init(), 1)
    assert "table_occupancy" not in report.metrics
