"""Figure 1: returns on two SUBLEQ tasks, E-AZ with two hashes against AZ, beside plain enumeration."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from emcts.experiments.curves import curves_table, draw_curves, levels_table
from emcts.experiments.enumeration import Enumeration, enumerate_task
from emcts.experiments.evidence import Evidence
from emcts.experiments.experiment import Experiment
from emcts.experiments.first_times import SUMMARY, Claim, claims_table, summary_table
from emcts.experiments.results import Line, Table, Tables, lines_of
from emcts.experiments.sweep import Row

SEEDS = 15
AT_ONCE = {"cpu": 5, "gpu": 15}
STEPS = {"negate-positives": 204_800, "identity": 4_096_000}
BETWEEN_EVALUATIONS = {"negate-positives": 4_096, "identity": 20_480}
ENUMERATED_WORDS = {"negate-positives": 4, "identity": 6}
FIRSTS = {"first_programs": "first_goal_step", "solved": "solved_step"}  # tables, and what they tell of
LEVELS = (0.5, 0.6, 0.9, 0.93, 0.99)
READ_OFF = {
    "identity-e-az-io": "0.6 at 0.7M, 0.93 at 1.3M, 1.0 at 2.7M",
    "identity-e-az-full": "0.6 at 2M, 0.8 at 4M, 0.98 at 13M",
    "identity-az": "0.2 to 8M, 0.43 at 13M",
    "negate-positives-e-az-io": "solved by 40,000 to 130,000",
    "negate-positives-e-az-full": "solved by 40,000 to 130,000",
    "negate-positives-az": "solved by 40,000 to 130,000",
}
"""Of the paper's curves, by eye."""
CLAIMS = tuple(
    Claim(f"{task}-{first}", f"{task}-{second}")
    for task in STEPS
    for first, second in (("e-az-io", "az"), ("e-az-full", "az"), ("e-az-io", "e-az-full"))
)


def _rows(task: str) -> tuple[Row, ...]:
    agents: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("e-az-io", "e-az", "E-AZ, IO hash", {"hash_of": "io"}),
        ("e-az-full", "e-az", "E-AZ, full hash", {"hash_of": "full"}),
        ("az", "az", "AZ", {}),
    )
    pace = {"total_env_steps": STEPS[task], "steps_between_evaluations": BETWEEN_EVALUATIONS[task]}
    return tuple(
        Row(
            name=f"{task}-{name}",
            label=f"{task}: {label}",
            environment="subleq",
            agent=agent,
            seeds=SEEDS,
            paper_preset="paper-subleq",
            changes={"task": task, **pace, **changes},
            at_once=AT_ONCE,
        )
        for name, agent, label, changes in agents
    )


def analyse(evidence: Sequence[Evidence]) -> Tables:
    seeds = [line for one in evidence for line in one.seeds()]
    levels = [
        {**line, "paper": READ_OFF[str(line["row"])]} for line in levels_table(evidence, "return", LEVELS)
    ]
    return {
        "seeds": seeds,
        "curves": curves_table(evidence, ["return"]),
        "levels": levels,
        **{table: _by_task(seeds, name) for table, name in FIRSTS.items()},
        "claims": [line for name in FIRSTS.values() for line in claims_table(seeds, name, CLAIMS)],
        "enumeration": [_enumerated(one) for one in _one_of_each_task(evidence)],
    }


def draw(tables: Tables) -> Figure:
    tasks = [task for task in STEPS if _of_task(tables["curves"], task)]
    figure = Figure(figsize=(5.2 * len(tasks), 3.8), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axis, task in zip(axes, tasks, strict=True):
        draw_curves(axis, _of_task(tables["curves"], task), "return", errors=2.0)
        for line in lines_of(tables["enumeration"], task=task):
            if isinstance(line["first_in_order"], float):
                axis.axvline(line["first_in_order"], color="grey", linestyle=":", label="enumeration")
        axis.set(
            title=f"SUBLEQ {task}", ylabel="return in evaluation, two standard errors", ylim=(-0.05, 1.05)
        )
        axis.legend(fontsize="x-small")
    return figure


def _by_task(seeds: Table, name: str) -> Table:
    """Each task has its own horizon."""
    tables = [[line for line in seeds if str(line["row"]).startswith(task)] for task in STEPS]
    return [line for table in tables if table for line in summary_table(table, name)]


def _one_of_each_task(evidence: Sequence[Evidence]) -> list[Evidence]:
    return list({one.setting("task"): one for one in evidence}.values())


def _enumerated(one: Evidence) -> Line:
    """Programs that are run. An agent runs one for each environment step and one for each simulator step."""
    task = one.setting("task")
    words = min(ENUMERATED_WORDS[task], one.setting("max_words"))
    tried: Enumeration = enumerate_task(
        task, words, word_size=one.setting("word_size"), signed=one.setting("signed")
    )
    return {
        "task": task,
        "words": words,
        "programs": tried.programs,
        "solutions": len(tried.solutions),
        "shortest": " ".join(map(str, tried.solutions[0])) if tried.solutions else None,
        "first_in_order": tried.first_in_order,
        "first_at_random": tried.first_at_random,
    }


def _of_task(table: Table, task: str) -> Table:
    return [line for line in table if str(line["label"]).startswith(f"{task}:")]


EXPERIMENT = Experiment(
    name="figure-1",
    title="SUBLEQ: negate-positives and identity",
    rows=(*_rows("negate-positives"), *_rows("identity")),
    smoke=("negate-positives-e-az-io",),
    analyse=analyse,
    draw=draw,
    shown={"levels": (), "first_programs": SUMMARY, "solved": SUMMARY, "claims": (), "enumeration": ()},
)
