"""Figure 1: returns on two SUBLEQ tasks, E-AZ with two hashes against AZ, beside plain enumeration of programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from emcts.envs import subleq
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.curves import curves_table, levels_table, plot_curves
from emcts.experiments.analysis.first_times import SUMMARY, Claim, claims_table, summary_table
from emcts.experiments.analysis.run_group import RunGroup, all_seeds
from emcts.experiments.analysis.tables import Table, TableRow, Tables, starting_with, where
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.paper.published import curve, quantities
from emcts.experiments.sweeps.run_spec import RunSpec

SEEDS = 15
SEEDS_PER_RUN = {"cpu": 5, "gpu": 15}
STEPS = {"negate-positives": 204_800, "identity": 4_096_000}
EVALUATION_INTERVAL = {"negate-positives": 4_096, "identity": 20_480}
ENUMERATED_WORDS = {"negate-positives": 4, "identity": 6}
EVENTS = {"first_programs": "first_goal_step", "solved": "solved_step"}  # by the table that summarises them
LEVELS = (0.5, 0.6, 0.9, 0.93, 0.99)
CLAIMS = tuple(
    Claim(f"{task}-{first}", f"{task}-{second}")
    for task in STEPS
    for first, second in (("e-az-io", "az"), ("e-az-full", "az"), ("e-az-io", "e-az-full"))
)


@dataclass(frozen=True)
class Enumeration:
    """All programs of up to `words` words, tried on a task. Programs that differ by zeros at the end are one."""

    task: str
    words: int
    word_size: int
    solutions: tuple[tuple[int, ...], ...]

    @property
    def programs(self) -> int:
        return self.word_size**self.words

    @property
    def first_in_order(self) -> int | None:
        """The number of programs up to the first solution, shortest first and then by their words."""
        return 1 + self._before(self.solutions[0]) if self.solutions else None

    @property
    def first_at_random(self) -> float | None:
        """The mean number of programs up to the first solution in random order without replacement."""
        return (self.programs + 1) / (len(self.solutions) + 1) if self.solutions else None

    def _before(self, program: tuple[int, ...]) -> int:
        if not program:
            return 0
        base = self.word_size
        number = 0
        for word in program:
            number = number * base + word
        # All programs with fewer words, then those as long whose last word is not 0, as a 0 there is a shorter one.
        return base ** (len(program) - 1) + number // base * (base - 1) + number % base - 1


def enumerate_task(task: str, words: int, *, word_size: int, signed: bool) -> Enumeration:
    found = subleq.enumerate_solutions(task, words, word_size=word_size, signed=signed)
    return Enumeration(task, words, word_size, tuple(found))


def analyse(groups: Sequence[RunGroup]) -> Tables:
    seeds = all_seeds(groups)
    levels = [{**row, "paper": _published(str(row["row"]))} for row in levels_table(groups, "return", LEVELS)]
    return {
        "seeds": seeds,
        "curves": curves_table(groups, ["return"]),
        "levels": levels,
        **{table: _summary_by_task(seeds, event) for table, event in EVENTS.items()},
        "claims": [row for event in EVENTS.values() for row in claims_table(seeds, event, CLAIMS)],
        "enumeration": [_enumerate(group) for group in _one_of_each_task(groups)],
    }


def draw(tables: Tables) -> Figure:
    curves = {task: starting_with(tables["curves"], "label", f"{task}:") for task in STEPS}
    curves = {task: table for task, table in curves.items() if table}
    figure = Figure(figsize=(5.2 * len(curves), 3.8), layout="constrained")
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    for axis, (task, table) in zip(axes, curves.items(), strict=True):
        plot_curves(axis, table, "return", errors=2.0)
        for row in where(tables["enumeration"], task=task):
            if isinstance(row["first_in_order"], float):
                axis.axvline(row["first_in_order"], color="grey", linestyle=":", label="enumeration")
        axis.set(
            title=f"SUBLEQ {task}", ylabel="return in evaluation, two standard errors", ylim=(-0.05, 1.05)
        )
        axis.legend(fontsize="x-small")
    return figure


def _specs(task: str) -> tuple[RunSpec, ...]:
    agents: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("e-az-io", "e-az", "E-AZ, IO hash", {paths.NOVELTY_INPUT: "io"}),
        ("e-az-full", "e-az", "E-AZ, full hash", {paths.NOVELTY_INPUT: "full"}),
        ("az", "az", "AZ", {}),
    )
    shared = {
        paths.TASK: task,
        paths.STEPS: STEPS[task],
        paths.EVALUATION_INTERVAL: EVALUATION_INTERVAL[task],
    }
    return tuple(
        RunSpec(
            name=f"{task}-{name}",
            label=f"{task}: {label}",
            environment="subleq",
            agent=agent,
            seeds=SEEDS,
            paper_preset="paper-subleq",
            changes={**shared, **changes},
            seeds_per_run=SEEDS_PER_RUN,
        )
        for name, agent, label, changes in agents
    )


def _published(row: str) -> str:
    """Returns what the paper's curve shows, read off by eye."""
    task = "negate-positives"
    if row.startswith(task):
        paper = quantities("figure-1", task)
        first, last = (paper[f"solved by the {place} agent"] for place in ("first", "last"))
        return f"solved by {first:,.0f} to {last:,.0f}"
    return ", ".join(f"{value:g} at {steps / 1e6:g}M" for steps, value in curve("figure-1", row).items())


def _summary_by_task(seeds: Table, event: str) -> Table:
    """Each task has its own horizon."""
    tables = [starting_with(seeds, "row", task) for task in STEPS]
    return [row for table in tables if table for row in summary_table(table, event)]


def _one_of_each_task(groups: Sequence[RunGroup]) -> list[RunGroup]:
    return list({group.setting(paths.TASK): group for group in groups}.values())


def _enumerate(group: RunGroup) -> TableRow:
    """Counts program executions. An agent executes one per environment step and one per simulator step."""
    task = group.setting(paths.TASK)
    words = min(ENUMERATED_WORDS[task], group.setting(paths.MAX_WORDS))
    found = enumerate_task(
        task, words, word_size=group.setting(paths.WORD_SIZE), signed=group.setting(paths.SIGNED)
    )
    return {
        "task": task,
        "words": words,
        "programs": found.programs,
        "solutions": len(found.solutions),
        "shortest": " ".join(map(str, found.solutions[0])) if found.solutions else None,
        "first_in_order": found.first_in_order,
        "first_at_random": found.first_at_random,
    }


EXPERIMENT = Experiment(
    name="figure-1",
    title="SUBLEQ: negate-positives and identity",
    specs=(*_specs("negate-positives"), *_specs("identity")),
    smoke=("negate-positives-e-az-io",),
    analyse=analyse,
    draw=draw,
    shown={"levels": (), "first_programs": SUMMARY, "solved": SUMMARY, "claims": (), "enumeration": ()},
)
