"""Grids of settings: specs, their names, and refused values."""

from typing import Any

import pytest

from emcts.agents.catalogue import installed
from emcts.experiments.sweeps.grid import Grid, run_specs
from tests.runs.toy import ToyCatalogue

CATALOGUE = installed()


def test_settings_of_real_agents() -> None:
    values: dict[str, list[Any]] = {"ensemble.hidden": [[64, 64], [32]], "env.stochastic": [True]}
    specs = run_specs([Grid("", "deep-sea", "bdqn", values=values)], CATALOGUE)
    assert [spec.name for spec in specs] == [
        "bdqn-ensemble-hidden-64x64-env-stochastic-true",
        "bdqn-ensemble-hidden-32-env-stochastic-true",
    ]
    assert specs[0].settings(CATALOGUE).ensemble.hidden == (64, 64)
    changes: dict[str, Any] = {"exploration.beta": 2, "replay.importance": [0, 1]}
    (spec,) = run_specs([Grid("", "deep-sea", "e-az", settings=changes)], CATALOGUE)
    assert spec.settings(CATALOGUE).replay.importance == (0.0, 1.0)
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"novelty.kind": "cuonts"}, "e-az: unknown novelty.kind.*did you mean 'counts'"),
        (
            {"replay.importance": [0.4]},
            r"settings.replay.importance: expected tuple\[float, float\], got \[0.4\]",
        ),
        ({"novelty.saturation": "much"}, r"settings.novelty.saturation: expected float \| None, got 'much'"),
        ({"env.stochastic": 1}, "settings.env.stochastic: expected bool, got 1"),
    ]
    for settings, message in mistakes:
        with pytest.raises(ValueError, match=message):
            run_specs([Grid("", "deep-sea", "e-az", settings=settings)], CATALOGUE)


def test_nested_settings_by_dotted_path() -> None:
    values: dict[str, list[Any]] = {"optimiser.learning_rate": [0.5, 1], "optimiser.betas": [[0.5, 0.9]]}
    specs = run_specs([Grid("", "plain", "walker", values=values)], ToyCatalogue())
    assert [spec.name for spec in specs] == [
        "walker-optimiser-learning-rate-0.5-optimiser-betas-0.5x0.9",
        "walker-optimiser-learning-rate-1-optimiser-betas-0.5x0.9",
    ]
    optimiser = specs[1].settings(ToyCatalogue()).optimiser
    assert (optimiser.learning_rate, optimiser.betas) == (1.0, (0.5, 0.9))
    with pytest.raises(ValueError, match="unknown setting 'optimiser.rate': did you mean"):
        run_specs([Grid("", "plain", "walker", settings={"optimiser.rate": 1})], ToyCatalogue())
