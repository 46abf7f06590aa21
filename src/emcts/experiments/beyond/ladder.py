"""The SUBLEQ ladder: programs for all tasks, by agents with and without uncertainty, beside plain enumeration."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from emcts.envs import subleq
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.first_times import Claim, claims_table, summary_table
from emcts.experiments.analysis.run_group import RunGroup, simulator_steps_column
from emcts.experiments.analysis.tables import Cell, Table, TableRow, Tables, column, number, unique, where
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.paper.figure_1 import enumerate_task
from emcts.experiments.sweeps.run_spec import RunSpec

SEEDS = 16
SEEDS_PER_RUN = {"cpu": 4, "gpu": 16}
STEPS = 5_242_880
EVALUATION_INTERVAL = 20_480
FURTHER_EXAMPLES, KEY = 1_000, 1

SHORT = ("negate-positives", "negate", "identity", "add", "copy")
"""Tasks with a known program of up to 9 words at N = 16: their programs have up to 10 words."""
MAX_WORDS = {16: 13, 32: 24}
"""Of the other tasks: at N = 16 all that there is room for."""
TASKS = [(task, 16) for task in subleq.TASKS] + [(task, 32) for task in subleq.TASKS if task not in SHORT]


@dataclass(frozen=True)
class Row:
    """An agent of the ladder, and the novelty input of its hash."""

    name: str
    agent: str
    label: str
    novelty_input: str | None = None


ROWS = (
    Row("e-az-io", "e-az", "E-AZ, IO hash", "io"),
    Row("e-az-full", "e-az", "E-AZ, full hash", "full"),
    Row("e-az-trace", "e-az", "E-AZ, trace", "trace"),
    Row("e-az-examples", "e-az", "E-AZ, four examples", "examples"),
    Row("e-az-io-length", "e-az", "E-AZ, IO hash and length", "io+length"),
    Row("az-ube", "az-ube", "AZ+UBE, IO hash", "io"),
    Row("az", "az", "AZ"),
)
EVENTS = ("first_goal_step", "solved_step")
ENUMERATED_WORDS: Mapping[str, Mapping[int, int]] = {"cpu": {16: 6, 32: 4}, "gpu": {16: 8, 32: 6}}
"""Words that enumeration reaches in seconds, by the kind of device and the word size."""


def analyse(groups: Sequence[RunGroup]) -> Tables:
    seeds = [row for group in groups for row in _seeds(group)]
    claims = [
        Claim(f"{task}-{n}-{sooner}", f"{task}-{n}-{later}")
        for task, n in TASKS
        for sooner, later in (("e-az-io", "az"), ("e-az-io", "az-ube"), ("e-az-trace", "e-az-io"))
    ]
    return {
        "seeds": seeds,
        "ladder": [_summary(where(seeds, row=name)) for name in unique(seeds, "row")],
        "claims": [row for event in EVENTS for row in claims_table(seeds, event, claims)],
        "enumeration": [_enumeration(group) for group in _one_of_each_task(groups)],
    }


def draw(tables: Tables) -> Figure:
    """Draws the first step of each seed by task and agent; seeds that found nothing are hollow, at their last step."""
    rungs = list(dict.fromkeys((row["task"], row["word_size"]) for row in tables["seeds"]))
    labels = unique(tables["seeds"], "label")
    figure = Figure(figsize=(9, 1.6 + 0.35 * len(rungs)), layout="constrained")
    axis = figure.subplots()
    for order, label in enumerate(labels):
        rows = where(tables["seeds"], label=label)
        height = [rungs.index((row["task"], row["word_size"])) for row in rows]
        y = np.array(height) + 0.8 * ((order + 0.5) / len(labels) - 0.5)
        first = np.array(column(rows, "first_goal_step"))
        found = ~np.isnan(first)
        x = np.where(found, first, column(rows, "env_steps"))
        color = f"C{order}"
        axis.scatter(x[found], y[found], s=9, color=color, label=str(label))
        axis.scatter(x[~found], y[~found], s=9, facecolors="none", edgecolors=color, linewidths=0.4)
    axis.set(
        xscale="log",
        xlabel="environment steps to the first program; hollow: none by this step",
        title="SUBLEQ ladder",
        ylim=(len(rungs) - 0.5, -0.5),
    )
    axis.set_yticks(range(len(rungs)), [f"{task}, N = {int(number(n))}" for task, n in rungs])
    axis.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _seeds(group: RunGroup) -> Table:
    """The seeds of a group, with the programs that each found, and a check of the shortest."""
    task, word_size, signed = (group.setting(path) for path in (paths.TASK, paths.WORD_SIZE, paths.SIGNED))
    programs = _programs(group)
    rows: list[TableRow] = []
    for row in group.seeds():
        found = programs.get(int(number(row["seed"])), [])
        extra: dict[str, Cell] = {
            "task": task,
            "word_size": word_size,
            "programs": len(found),
            "shortest": None,
            "shortest_words": None,
            "shortest_step": None,
            "further_passed": None,
        }
        if found:
            words, step = min(found, key=lambda one: (len(one[0]), one[1]))
            checked = subleq.check(
                words, task, further=FURTHER_EXAMPLES, seed=KEY, word_size=word_size, signed=signed
            )
            extra |= {"shortest": " ".join(map(str, words)), "shortest_words": len(words)}
            extra |= {"shortest_step": step, "further_passed": checked.passed}
        rows.append({**row, **extra})
    return rows


def _programs(group: RunGroup) -> dict[int, list[tuple[tuple[int, ...], int]]]:
    """The programs that each seed found, with their steps."""
    found: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for folder in group.folders:
        for line in folder.artifacts.read():
            words: Any = line["data"]["words"]
            found.setdefault(line["seed"], []).append((tuple(words), line["env_steps"]))
    return found


def _summary(seeds: Table) -> TableRow:
    """The row of one spec: means are over the seeds that found a program, or solved the task."""
    found = [row for row in seeds if row["first_goal_step"] is not None]
    solved = [row for row in found if row["solved_step"] is not None]
    (first,), (last,) = (summary_table(seeds, event) for event in EVENTS)
    best = min(found, key=lambda row: number(row["shortest_words"]), default=None)
    waits = [number(row["solved_step"]) - number(row["first_goal_step"]) for row in solved]
    shown = seeds[0]
    return {
        **{name: shown[name] for name in ("row", "label", "task", "word_size")},
        "seeds": len(seeds),
        "steps_run": first["steps_run"],
        "found": len(found),
        "first_step_mean": first["mean_of_found"],
        "first_step_median": first["median"],
        "first_step_restricted_mean": first["restricted_mean"],
        "programs_run_to_first": _mean([_programs_run(row, "first_goal_step") for row in found]),
        "solved": len(solved),
        "solved_step_mean": last["mean_of_found"],
        "wait_mean": _mean(waits),
        "wait_longest": max(waits, default=None),
        "programs_run": _mean([number(row["env_steps"]) + number(row["simulator_steps"]) for row in seeds]),
        "shortest": None if best is None else best["shortest"],
        "shortest_words": None if best is None else best["shortest_words"],
        "further_passed": None if best is None else best["further_passed"],
        "seeds_passing_all_further": sum(row["further_passed"] == FURTHER_EXAMPLES for row in found),
    }


def _programs_run(row: TableRow, event: str) -> float:
    """The program executions up to an event: one for each environment step and each simulator step."""
    return number(row[event]) + number(row.get(simulator_steps_column(event)))


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _one_of_each_task(groups: Sequence[RunGroup]) -> list[RunGroup]:
    return list(
        {(group.setting(paths.TASK), group.setting(paths.WORD_SIZE)): group for group in groups}.values()
    )


def _enumeration(group: RunGroup) -> TableRow:
    """Tries all programs of as many words as enumeration reaches in seconds on this machine."""
    task, word_size = group.setting(paths.TASK), group.setting(paths.WORD_SIZE)
    reach = ENUMERATED_WORDS.get(jax.default_backend(), ENUMERATED_WORDS["cpu"])[word_size]
    words = min(reach, group.setting(paths.MAX_WORDS))
    started = time.perf_counter()
    found = enumerate_task(task, words, word_size=word_size, signed=group.setting(paths.SIGNED))
    return {
        "task": task,
        "word_size": word_size,
        "words": words,
        "programs": found.programs,
        "seconds": time.perf_counter() - started,
        "solutions": len(found.solutions),
        "shortest": " ".join(map(str, found.solutions[0])) if found.solutions else None,
        "first_in_order": found.first_in_order,
    }


def _specs(task: str, word_size: int) -> list[RunSpec]:
    shared: dict[str, Any] = {
        paths.TASK: task,
        paths.WORD_SIZE: word_size,
        paths.MAX_WORDS: 10 if task in SHORT else MAX_WORDS[word_size],
        paths.STEPS: STEPS,
        paths.EVALUATION_INTERVAL: EVALUATION_INTERVAL,
    }
    return [
        RunSpec(
            name=f"{task}-{word_size}-{row.name}",
            label=row.label,
            environment="subleq",
            agent=row.agent,
            seeds=SEEDS,
            paper_preset="paper-subleq",
            changes=shared
            if row.novelty_input is None
            else {**shared, paths.NOVELTY_INPUT: row.novelty_input},
            seeds_per_run=SEEDS_PER_RUN,
        )
        for row in ROWS
    ]


EXPERIMENT = Experiment(
    name="ladder",
    title="SUBLEQ ladder: programs for all tasks",
    specs=tuple(spec for task, word_size in TASKS for spec in _specs(task, word_size)),
    smoke=("negate-positives-16-e-az-io", "negate-positives-16-e-az-trace"),
    analyse=analyse,
    draw=draw,
    shown={
        "ladder": (
            "row",
            "seeds",
            "steps_run",
            "found",
            "first_step_mean",
            "programs_run_to_first",
            "solved",
            "solved_step_mean",
            "wait_longest",
            "shortest",
            "further_passed",
        ),
        "claims": (),
        "enumeration": (),
    },
)
