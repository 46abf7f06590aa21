"""Figure 4: returns and discovered states in Deep Sea 40 x 40, for three models with three kinds of exploration."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from emcts.experiments.analysis.curves import areas_table, curves_table, plot_curves
from emcts.experiments.analysis.run_group import RunGroup, all_seeds
from emcts.experiments.analysis.tables import Table, Tables
from emcts.experiments.paper.deep_sea import SEARCHES, deep_sea_specs, pair
from emcts.experiments.paper.experiment import Experiment

SIZE, SEEDS = 40, 20
SPECS = deep_sea_specs(SIZE, SEEDS)
METRICS = {"return": "return in evaluation", "states_discovered": "states discovered"}


def analyse(groups: Sequence[RunGroup]) -> Tables:
    pairs = [pair(SPECS, model) for model in SEARCHES]
    return {
        "seeds": all_seeds(groups),
        "curves": curves_table(groups, list(METRICS)),
        "areas": [row for metric in METRICS for row in areas_table(groups, metric, pairs)],
    }


def draw(tables: Tables) -> Figure:
    curves = {model: _of_model(tables["curves"], model) for model in SEARCHES}
    curves = {model: table for model, table in curves.items() if table}
    figure = Figure(figsize=(10.4, 3.2 * len(curves)), layout="constrained")
    axes = figure.subplots(len(curves), len(METRICS), squeeze=False)
    for row, (model, table) in zip(axes, curves.items(), strict=True):
        for axis, (metric, label) in zip(row, METRICS.items(), strict=True):
            plot_curves(axis, table, metric)
            axis.set(ylabel=label)
        row[0].set_title(f"{model} model", fontsize="medium")
        row[0].legend(fontsize="x-small")
    return figure


def _of_model(curves: Table, model: str) -> Table:
    labels = {SPECS[key].label for key in SPECS if key.startswith(f"{model}-")}
    return [row for row in curves if row["label"] in labels]


EXPERIMENT = Experiment(
    name="figure-4",
    title="curves in Deep Sea 40 x 40 with three models",
    specs=tuple(SPECS.values()),
    smoke=tuple(SPECS[key].name for key in ("true-e", "abstracted-e")),
    analyse=analyse,
    draw=draw,
    shown={"areas": ()},
)
