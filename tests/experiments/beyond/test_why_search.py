"""The rows of the experiment on search with good uncertainty, and its tables of made-up runs."""

from pathlib import Path
from typing import Any

import pytest

from emcts.agents.catalogue import installed
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.beyond import EXPERIMENTS
from emcts.experiments.beyond.why_search import CLAIMS, EXPERIMENT, analyse
from emcts.runs.config import Config, plain
from tests.experiments.paper.test_smoke import smoke
from tests.experiments.specs import made_up_run

CATALOGUE: Any = installed()
SPECS = {spec.name: spec for spec in EXPERIMENT.specs}


def test_every_row_can_be_trained_and_fits_no_other() -> None:
    assert EXPERIMENTS["why-search"] is EXPERIMENT
    assert len(SPECS) == len(EXPERIMENT.specs) == 14
    for spec in EXPERIMENT.specs:
        settings = spec.settings(CATALOGUE)
        CATALOGUE.compose(spec.environment, spec.agent, settings)
        config = Config(spec.environment, spec.agent, None, (1000,), plain(settings))
        assert [other.name for other in EXPERIMENT.specs if other.describes(config)] == [spec.name]
    assert {name for claim in CLAIMS for name in (claim.sooner, claim.later)} == set(SPECS)
    assert set(EXPERIMENT.smoke) <= set(SPECS)


def made_up_group(tmp_path: Path, name: str, first: list[int]) -> RunGroup:
    spec = SPECS[name]
    seeds = range(1000, 1000 + len(first))
    folder = made_up_run(
        tmp_path / f"{name}-seeds-1000-{seeds[-1]}",
        [{"seed": seed, "env_steps": 14_000, "train_steps": 0, "seconds": 1.0} for seed in seeds],
        [
            {"seed": seed, "env_steps": 14_000, "first_reward_step": step}
            for seed, step in zip(seeds, first, strict=True)
        ],
        environment="deep-sea",
        agent=spec.agent,
        settings=plain(spec.settings(CATALOGUE)),
    )
    return RunGroup(spec, (folder,))


def test_the_agents_are_compared(tmp_path: Path) -> None:
    sooner, later = "deep-sea-40-e-az-counts-deep", "deep-sea-40-az-ube-counts-deep"
    groups = [
        made_up_group(tmp_path, sooner, [6000 + 10 * number for number in range(8)]),
        made_up_group(tmp_path, later, [9000 + 10 * number for number in range(8)]),
    ]
    tables = analyse(groups)
    assert {row["row"]: row["mean_of_found"] for row in tables["summary"]} == {sooner: 6035, later: 9035}
    (claim,) = tables["claims"]
    assert (claim["sooner"], claim["later"]) == (sooner, later)
    assert float(str(claim["log_rank_p"])) < 0.01


@pytest.mark.long
def test_the_smoke_test(tmp_path: Path) -> None:
    results = smoke("why-search", tmp_path)
    assert "deep-sea-4-az-ube-counts-deep" in (results / "summary.csv").read_text()
