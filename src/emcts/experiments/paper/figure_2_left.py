"""Figure 2, left: steps to solve Deep Sea by its size."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.first_times import SUMMARY, claims_table, summary_table
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.tables import TableRow, Tables, column, number, unique, where
from emcts.experiments.paper import exact_novelty
from emcts.experiments.paper.deep_sea import STEPS, bdqn, claim, deep_sea_specs
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.sweeps.run_spec import RunSpec

SIZES = tuple(STEPS)
SEEDS = 5
KEYS = ("true-e", "true-ube", "true-plain", "abstracted-e", "abstracted-ube")


def analyse(groups: Sequence[RunGroup]) -> Tables:
    """Compares the steps to an average regret of the training episodes below 90%, which is solved by bsuite's score."""
    sizes: dict[str, TableRow] = {group.spec.name: {"size": group.setting(paths.SIZE)} for group in groups}
    seeds = [{**row, **sizes[group.spec.name]} for group in groups for row in group.seeds()]
    by_size = [where(seeds, size=size) for size in unique(seeds, "size")]
    claims = [claim(size, model) for size in SIZES for model in ("true", "abstracted")]
    return {
        "seeds": seeds,
        # Each size has its own horizon, hence a table of its own before they are joined.
        "summary": [row for table in by_size for row in summary_table(table, "regret_step", sizes)],
        "claims": claims_table(seeds, "regret_step", claims),
        "floor": [_exact_novelty(int(number(size))) for size in unique(seeds, "size")],
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for label in unique(tables["summary"], "label"):
        rows = where(tables["summary"], label=label)
        size, mean, error, seeds, found = (
            np.array(column(rows, name))
            for name in ("size", "mean_of_found", "standard_error", "seeds", "found")
        )
        bars = axis.errorbar(
            size, mean, np.nan_to_num(error), label=str(label), capsize=2, marker="o", markersize=3
        )
        some = found < seeds
        axis.plot(size[some], mean[some], "x", color=bars[0].get_color(), markersize=9)
    exact = column(tables["floor"], "size"), column(tables["floor"], "mean_steps")
    marker = "." if len(tables["floor"]) == 1 else None  # a line of one point is invisible
    axis.plot(*exact, color="grey", linestyle=":", marker=marker, label="perfect novelty, first goal")
    axis.set(xlabel="rows and columns", ylabel="steps to an average regret of 90%", yscale="log")
    axis.set(title="mean of the solved seeds, standard error; x: some seeds are not solved")
    axis.title.set_fontsize("small")
    axis.legend(fontsize="x-small")
    return figure


def _specs(size: int) -> tuple[RunSpec, ...]:
    specs = deep_sea_specs(size, SEEDS)
    return (*(specs[key] for key in KEYS), bdqn(size, SEEDS))


def _exact_novelty(size: int) -> TableRow:
    steps = exact_novelty.steps_of_seeds(size, SEEDS, exact_novelty.HALF)
    return {"size": size, "seeds": SEEDS, "mean_steps": float(steps.mean())}


EXPERIMENT = Experiment(
    name="figure-2-left",
    title="Deep Sea from 10 x 10 to 50 x 50",
    specs=tuple(spec for size in SIZES for spec in _specs(size)),
    smoke=tuple(f"deep-sea-10-{agent}" for agent in ("e-az", "bdqn")),
    analyse=analyse,
    draw=draw,
    shown={"summary": ("size", *SUMMARY), "claims": (), "floor": ()},
)
