"""The ladder's rows, and its tables of made-up runs."""

from collections import Counter
from pathlib import Path

import pytest

from emcts.agents.catalogue import installed
from emcts.envs import subleq
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.beyond import EXPERIMENTS, ladder
from emcts.experiments.beyond.ladder import EXPERIMENT, FURTHER_EXAMPLES, analyse
from emcts.runs.config import plain
from tests.experiments.paper.test_smoke import smoke
from tests.experiments.specs import made_up_run

CATALOGUE = installed()
SPECS = {spec.name: spec for spec in EXPERIMENT.specs}


def test_the_ladder_has_every_task_and_its_rows_can_be_trained() -> None:
    assert EXPERIMENTS["ladder"] is EXPERIMENT
    assert len(SPECS) == len(EXPERIMENT.specs)
    at_16 = [spec for spec in EXPERIMENT.specs if spec.changes[paths.WORD_SIZE] == 16]
    assert Counter(spec.changes[paths.TASK] for spec in at_16) == dict.fromkeys(subleq.TASKS, 7)
    for spec in EXPERIMENT.specs:
        settings = spec.settings(CATALOGUE)
        assert settings.steps == ladder.STEPS
    for name in ("add-16-e-az-io-length", "sort-2-32-az-ube"):
        trainer = CATALOGUE.trainer("subleq", SPECS[name].agent, SPECS[name].settings(CATALOGUE), (0, 1))
        assert trainer.seeds == (0, 1)
    assert set(EXPERIMENT.smoke) <= set(SPECS)


def made_up_group(tmp_path: Path, name: str) -> RunGroup:
    """Four seeds: one finds two programs and solves the task, one a program that is right by luck, two find none."""
    spec = SPECS[name]
    folder = made_up_run(
        tmp_path / f"{name}-seeds-1000-1003",
        [
            {
                "seed": seed,
                "env_steps": steps,
                "train_steps": 0,
                "seconds": 1.0,
                "simulator_steps": 160 * steps,
            }
            for seed in range(1000, 1004)
            for steps in (1000, 4000)
        ],
        [
            {"seed": 1000, "env_steps": 4000, "first_reward_step": 500, "solved_step": 2000},
            {"seed": 1001, "env_steps": 4000, "first_reward_step": 1500},
            {"seed": 1002, "env_steps": 4000},
            {"seed": 1003, "env_steps": 4000},
        ],
        environment="subleq",
        agent=spec.agent,
        settings=plain(spec.settings(CATALOGUE)),
    )
    found = [
        (1000, 500, [0, 13, 3, 14, 0, 6, 0]),
        (1000, 900, [0, 13, 3, 14, 0, 7]),
        (1001, 1500, [0, 13, 3, 14, 0, 6, 1, 1]),
    ]
    folder.artifacts.append(
        [
            {"seed": seed, "env_steps": step, "data": {"words": words}, "text": "", "suffix": ".asm"}
            for seed, step, words in found
        ]
    )
    return RunGroup(spec, (folder,))


def test_the_table_counts_programs_and_checks_the_shortest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "ENUMERATED_WORDS", {"cpu": {16: 2}})
    tables = analyse([made_up_group(tmp_path, "identity-16-e-az-io")])
    (row,) = tables["ladder"]
    assert (row["seeds"], row["found"], row["solved"]) == (4, 2, 1)
    assert row["first_step_mean"] == 1000
    assert row["programs_run_to_first"] == pytest.approx(161 * 1000), "one for each step of either kind"
    assert row["wait_longest"] == 1500
    assert row["shortest"] == "0 13 3 14 0 7"
    assert row["further_passed"] == FURTHER_EXAMPLES
    lucky = subleq.check((0, 13, 3, 14, 0, 6, 1, 1), "identity", further=FURTHER_EXAMPLES, seed=ladder.KEY)
    by_seed = {seed["seed"]: seed for seed in tables["seeds"]}
    assert by_seed[1000]["programs"] == 2
    assert by_seed[1000]["shortest_step"] == 900
    assert by_seed[1001]["further_passed"] == lucky.passed
    assert by_seed[1002]["shortest"] is None
    (enumerated,) = tables["enumeration"]
    assert (enumerated["programs"], enumerated["solutions"]) == (256, 0)


@pytest.mark.long
def test_the_smoke_test(tmp_path: Path) -> None:
    results = smoke("ladder", tmp_path, "--rows", "*-e-az-trace")
    assert "negate-positives-16-e-az-trace," in (results / "ladder.csv").read_text()
    assert ",14 13,239" in (results / "enumeration.csv").read_text()
