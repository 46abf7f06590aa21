"""Table 1: steps to the first goal in Deep Sea 40 x 40, for three models with three kinds of exploration."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.curves import draw_survival
from emcts.experiments.analysis.first_times import SUMMARY, claims_table, summary_table, survival_table
from emcts.experiments.analysis.run_group import RunGroup, all_seeds
from emcts.experiments.analysis.tables import Table, TableRow, Tables, column, where
from emcts.experiments.paper import exact_novelty
from emcts.experiments.paper.deep_sea import SEARCHES, claim, deep_sea_specs, e_az_with_counts
from emcts.experiments.paper.exact_novelty import Protocol
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.paper.published import quantities

SIZE, SEEDS = 40, 20
SPECS = deep_sea_specs(SIZE, SEEDS)
CLAIMS = tuple(claim(SIZE, model) for model in SEARCHES)
EXACT_NOVELTY = {
    "perfect novelty": exact_novelty.HALF,
    "perfect novelty, 300 random steps first": exact_novelty.PAPER,
    "perfect novelty, all episodes explore": exact_novelty.ALL,
}
"""The planner with exact novelty, by the labels that stored tables have."""


PUBLISHED = {
    "mean": "paper_mean",
    "std": "paper_std",
    "found percent": "paper_found_percent",
    "seeds": "paper_seeds",
}
"""Columns of the paper's numbers, by quantity: mean and deviation are over the seeds that found the goal."""


def analyse(groups: Sequence[RunGroup]) -> Tables:
    seeds = all_seeds(groups)
    size = groups[0].setting(paths.SIZE)
    count = max(len({row["seed"] for row in group.seeds()}) for group in groups)
    exact = [
        row for name, protocol in EXACT_NOVELTY.items() for row in _exact_novelty(name, protocol, size, count)
    ]
    return {
        "seeds": [*seeds, *exact],
        "summary": summary_table([*seeds, *exact], "first_goal_step", _published()),
        "survival": survival_table([*seeds, *exact], "first_goal_step"),
        "claims": claims_table(seeds, "first_goal_step", CLAIMS),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(8.5, 4.8), layout="constrained")
    axis = figure.subplots()
    draw_survival(axis, [row for row in tables["survival"] if row["label"] not in EXACT_NOVELTY])
    for style, label in zip((":", "-.", "--"), EXACT_NOVELTY, strict=True):
        rows = where(tables["survival"], label=label)
        steps, share = (column(rows, name) for name in ("env_steps", "not_yet"))
        axis.step(steps, share, where="post", color="grey", linestyle=style, linewidth=1, label=label)
    axis.set(title="Deep Sea: seeds that have not found the goal, with 95% bands")
    axis.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _published() -> Mapping[str, TableRow]:
    rows: dict[str, TableRow] = {}
    for spec in SPECS.values():
        paper = quantities("table-1", spec.name)
        rows[spec.name] = {column: paper.get(quantity) for quantity, column in PUBLISHED.items()}
    return rows


def _exact_novelty(name: str, protocol: Protocol, size: int, seeds: int) -> Table:
    steps = exact_novelty.steps_of_seeds(size, seeds, protocol)
    return [
        {
            "row": name.replace(",", "").replace(" ", "-"),
            "label": name,
            "seed": seed,
            "env_steps": float(step),
            "first_goal_step": float(step),
            "solved_step": None,
            "regret_step": None,
            "final_return": None,
        }
        for seed, step in enumerate(steps)
    ]


EXPERIMENT = Experiment(
    name="table-1",
    title="steps to the first goal in Deep Sea 40 x 40",
    specs=(*SPECS.values(), e_az_with_counts(SIZE, SEEDS)),
    smoke=tuple(SPECS[key].name for key in ("true-e", "true-ube")),
    analyse=analyse,
    draw=draw,
    shown={"summary": (*SUMMARY, "paper_mean", "paper_std", "paper_found_percent"), "claims": ()},
)
