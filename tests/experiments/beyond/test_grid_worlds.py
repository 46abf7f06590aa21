"""Rooms with keys: the sweep, what it says without xminigrid, and its tables of made-up runs."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from emcts.agents.catalogue import installed
from emcts.agents.task import observation_anchor
from emcts.cli import main
from emcts.envs.references import make, parse_reference
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.tables import where
from emcts.experiments.beyond import EXPERIMENTS, grid_worlds
from emcts.experiments.beyond.grid_worlds import EXPERIMENT, analyse, draw
from emcts.runs.config import Config, plain
from tests.experiments.paper.test_smoke import smoke
from tests.experiments.specs import made_up_run

CATALOGUE = installed()
SPECS = {spec.name: spec for spec in EXPERIMENT.specs}
VIEW = f"{paths.ENV_ARGUMENTS}.view"


def test_every_agent_is_in_every_world() -> None:
    assert EXPERIMENTS["grid-worlds"] is EXPERIMENT
    assert len(SPECS) == len(EXPERIMENT.specs) == 7 * 6
    assert set(Counter(spec.environment for spec in EXPERIMENT.specs).values()) == {6}
    for spec in EXPERIMENT.specs:
        settings = spec.settings(CATALOGUE)
        assert settings.steps == spec.changes[paths.STEPS]
        views = {"e-mz": "egocentric", "mz": "egocentric", "bdqn": "egocentric"}
        assert settings.env.arguments.get("view") == views.get(spec.agent), "the whole grid to simulators"
        assert spec.describes(made_up_config(spec.name)), (
            "arguments of an environment are settings as any other"
        )
    assert not SPECS["unlock-mz"].describes(made_up_config("unlock-az"))
    assert set(EXPERIMENT.smoke) <= set(SPECS)


def test_the_worlds_exist() -> None:
    xminigrid = pytest.importorskip("xminigrid")
    known = xminigrid.registered_environments()
    assert {world.reference.partition(":")[2] for world in grid_worlds.WORLDS} <= set(known)


def test_what_the_agent_sees_is_small_enough_to_be_predicted() -> None:
    """Otherwise a learned model would be abstracted by default, which learned nothing in rooms before a reward."""
    pytest.importorskip("xminigrid")
    spec = SPECS["door-key-16-e-mz"]
    made = make(parse_reference(spec.environment), spec.settings(CATALOGUE).env.arguments)
    anchor = observation_anchor(made.env)
    assert anchor is not None
    assert anchor.size == 7 * 7 * 16


def test_without_xminigrid_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "xminigrid", None)
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "grid-worlds", "--plan", "--rows", "unlock-az"])
    assert caught.value.code == 2
    assert 'pip install "emcts[xminigrid]"' in capsys.readouterr().err


def made_up_config(name: str) -> Config:
    spec = SPECS[name]
    return Config(spec.environment, spec.agent, None, (0,), plain(spec.settings(CATALOGUE)))


def made_up_group(tmp_path: Path, name: str, solved: dict[int, list[float]]) -> RunGroup:
    """Seeds whose evaluations after 100, 200, ... steps solve these shares of the episodes."""
    spec = SPECS[name]
    lines = [
        {"seed": seed, "env_steps": 100 * place, "solved": share}
        for place in range(1, 1 + max(map(len, solved.values())))
        for seed, shares in solved.items()
        for share in [shares[place - 1]]
    ]
    ends = [
        {"seed": seed, "env_steps": 100 * len(shares), "first_reward_step": 50 if max(shares) else None}
        for seed, shares in solved.items()
    ]
    run = made_up_run(
        tmp_path / name,
        lines,
        ends,
        environment=spec.environment,
        agent=spec.agent,
        settings=plain(spec.settings(CATALOGUE)),
    )
    return RunGroup(spec, (run,))


def test_tables_count_evaluations_of_nine_in_ten(tmp_path: Path) -> None:
    found = made_up_group(
        tmp_path, "unlock-e-az", {1000: [0.0, 0.9, 0.5], 1001: [0.25, 0.89, 1.0], 1002: [1.0, 0.0, 0.0]}
    )
    missed = made_up_group(tmp_path, "unlock-az", {seed: [0.0, 0.0, 0.8] for seed in range(1000, 1003)})
    tables = analyse([found, missed])
    steps = {row["seed"]: row["success_step"] for row in where(tables["seeds"], row="unlock-e-az")}
    assert steps == {1000: 200, 1001: 300, 1002: 100}
    ours, plain_az = tables["successes"]
    assert (ours["found"], ours["mean_of_found"], plain_az["found"]) == (3, 200, 0)
    assert plain_az["restricted_mean"] == 300
    assert [(row["sooner"], row["later"], row["what"]) for row in tables["claims"]] == [
        ("unlock-e-az", "unlock-az", "first_goal_step"),
        ("unlock-e-az", "unlock-az", "success_step"),
    ]
    (target,) = tables["targets"]
    assert (target["e_az_succeeded"], target["az_failed"]) == (3, 3)
    assert (target["counts"], target["met"]) == ("yes", "yes")
    figure = draw(tables)
    assert [axis.get_title() for axis in figure.axes] == ["Unlock"]
    assert [line.get_label() for line in figure.axes[0].lines] == ["E-AZ", "AZ"]


def test_a_seed_that_fails_misses_the_target(tmp_path: Path) -> None:
    groups = [
        made_up_group(tmp_path, "four-rooms-e-az", {1000: [1.0], 1001: [0.8]}),
        made_up_group(tmp_path, "four-rooms-az", {1000: [1.0], 1001: [0.8]}),
    ]
    (target,) = analyse(groups)["targets"]
    assert (target["counts"], target["met"]) == ("no", "no")


@pytest.mark.long
def test_the_smoke_test(tmp_path: Path) -> None:
    pytest.importorskip("xminigrid")
    results = smoke("grid-worlds", tmp_path)
    seeds = (results / "seeds.csv").read_text()
    assert "unlock-e-az," in seeds
    assert "unlock-e-mz," in seeds
