"""The sweeps as the paper describes them: agents, seeds and sizes; and that all of their settings exist."""

from collections import Counter
from importlib.util import find_spec

import pytest

from emcts.agents.catalogue import installed
from emcts.experiments import setting_paths as paths
from emcts.experiments.paper import EXPERIMENTS, figure_2_right, table_1
from emcts.experiments.paper.deep_sea import claim
from emcts.experiments.paper.published import published, quantities
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.config import flat, plain

CATALOGUE = installed()


def specs_of(name: str) -> tuple[RunSpec, ...]:
    return EXPERIMENTS[name].specs


def test_the_names() -> None:
    assert set(EXPERIMENTS) == {
        "table-1",
        *(f"figure-{number}" for number in (1, 3, 4, 5)),
        *(f"figure-2-{part}" for part in ("left", "middle", "right")),
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_specs_can_be_trained_and_differ_by_name(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert max(Counter(spec.name for spec in experiment.specs).values()) == 1
    for spec in experiment.specs:
        for one in (spec, spec.with_paper_settings()):
            assert getattr(one.settings(CATALOGUE), paths.STEPS) > 0
    assert set(experiment.smoke) <= {spec.name for spec in experiment.specs}
    small = experiment.for_smoke_test(CATALOGUE, ()).specs
    assert len(small) == len(experiment.smoke) > 0
    if "minatar" not in small[0].environment or find_spec("pgx"):
        for spec in small:
            assert CATALOGUE.trainer(
                spec.environment, spec.agent, spec.settings(CATALOGUE), (0, 1)
            ).seeds == (0, 1)


def test_smoke_tests_have_the_names_of_what_they_run() -> None:
    small = {name: one.for_smoke_test(CATALOGUE, ()) for name, one in EXPERIMENTS.items()}
    assert small["figure-2-left"].title == "smoke test, Deep Sea 4 x 4"
    assert small["figure-2-right"].title == "smoke test, the exploration parameter in Deep Sea 4 x 4"
    assert small["figure-5"].title == "smoke test, MinAtar, E-AZ and AZ"
    assert [spec.name for spec in small["figure-2-middle"].specs] == ["stochastic-sea-4-e-az"]
    assert [spec.name for spec in small["figure-2-left"].specs] == ["deep-sea-4-e-az", "deep-sea-4-bdqn"]
    (every_size,) = EXPERIMENTS["figure-2-left"].for_smoke_test(CATALOGUE, ("bdqn",)).specs
    assert every_size.name == "deep-sea-4-bdqn", "the five sizes are one"


def test_the_paper_s_numbers_of_seeds() -> None:
    assert {name: {spec.seeds for spec in specs_of(name)} for name in EXPERIMENTS} == {
        "figure-1": {15},
        "figure-2-left": {5},
        "figure-2-middle": {10},
        "figure-2-right": {3},
        "figure-3": {20},
        "figure-4": {20},
        "table-1": {20},
        "figure-5": {10},
    }


def test_what_each_sweep_varies() -> None:
    left = specs_of("figure-2-left")
    assert {spec.changes[paths.SIZE] for spec in left} == {10, 20, 30, 40, 50}
    assert {spec.agent for spec in left} == {"e-az", "az-ube", "az", "e-mz", "mz-ube", "bdqn"}
    for spec in specs_of("figure-2-middle"):
        assert (spec.changes[paths.STOCHASTIC], spec.changes[paths.SIZE]) == (True, 50)
    betas = tuple(spec.changes[paths.BETA] for spec in specs_of("figure-2-right"))
    assert betas == figure_2_right.BETAS
    assert {spec.changes[paths.TASK] for spec in specs_of("figure-1")} == {"negate-positives", "identity"}
    assert {spec.environment for spec in specs_of("figure-5")} >= {"minatar-breakout", "minatar-asterix"}


def test_table_1_has_the_paper_s_nine_rows() -> None:
    assert len(table_1.SPECS) == 9
    assert {row["row"] for row in published("table-1")} == {spec.name for spec in table_1.SPECS.values()}
    assert table_1.SPECS["anchored-ube"].changes[paths.MODEL] == "anchored"
    names = {spec.name for spec in specs_of("table-1")}
    assert {spec.name for spec in specs_of("figure-4")} < names, "whose runs it shares"
    assert {claim(40, model).later for model in ("true", "abstracted", "anchored")} < names


def test_smoke_changes_are_settings_of_the_agent() -> None:
    """Every change of the catalogue's smoke sizes names a setting of the agent, and makes the training short."""
    pairs = {(spec.environment, spec.agent) for name in EXPERIMENTS for spec in specs_of(name)}
    for environment, agent in sorted(pairs):
        changes = CATALOGUE.smoke_changes(environment, agent)
        settings = dict(flat(plain(CATALOGUE.settings(environment, agent))))
        assert set(changes) <= set(settings)
        assert changes[paths.STEPS] < settings[paths.STEPS]


def test_published_numbers_are_of_rows_that_exist() -> None:
    shared = {"all", "identity", "negate-positives"}
    for name in ("figure-1", "figure-2-left", "table-1"):
        rows = {str(row["row"]) for row in published(name)}
        assert rows - shared <= {spec.name for spec in specs_of(name)}
    assert quantities("table-1", "deep-sea-40-e-az")["mean"] == 10_539
    with pytest.raises(ValueError, match="no numbers of 'figure-9'"):
        published("figure-9")
