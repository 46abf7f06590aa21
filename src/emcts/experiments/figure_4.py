"""Figure 4: returns and discovered states in Deep Sea 40 x 40, for three models and three ways to explore each."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from emcts.experiments.curves import areas_table, curves_table, draw_curves
from emcts.experiments.deep_sea_rows import SEARCHES, sea_rows
from emcts.experiments.evidence import Evidence
from emcts.experiments.experiment import Experiment
from emcts.experiments.results import Table, Tables

SIZE, SEEDS = 40, 20
ROWS = sea_rows(SIZE, SEEDS)
METRICS = {"return": "return in evaluation", "states_discovered": "states discovered"}


def analyse(evidence: Sequence[Evidence]) -> Tables:
    pairs = [(ROWS[f"{model}-e"].name, ROWS[f"{model}-ube"].name) for model in SEARCHES]
    return {
        "seeds": [line for one in evidence for line in one.seeds()],
        "curves": curves_table(evidence, list(METRICS)),
        "areas": [line for metric in METRICS for line in areas_table(evidence, metric, pairs)],
    }


def draw(tables: Tables) -> Figure:
    models = [model for model in SEARCHES if _of_model(tables["curves"], model)]
    figure = Figure(figsize=(10.4, 3.2 * len(models)), layout="constrained")
    axes = figure.subplots(len(models), len(METRICS), squeeze=False)
    for row, model in zip(axes, models, strict=True):
        for axis, (metric, label) in zip(row, METRICS.items(), strict=True):
            draw_curves(axis, _of_model(tables["curves"], model), metric)
            axis.set(ylabel=label)
        row[0].set_title(f"{model} model", fontsize="medium")
        row[0].legend(fontsize="x-small")
    return figure


def _of_model(curves: Table, model: str) -> Table:
    labels = {ROWS[key].label for key in ROWS if key.startswith(f"{model}-")}
    return [line for line in curves if line["label"] in labels]


EXPERIMENT = Experiment(
    name="figure-4",
    title="curves in Deep Sea 40 x 40 with three models",
    rows=tuple(ROWS.values()),
    smoke=tuple(ROWS[key].name for key in ("true-e", "abstracted-e")),
    analyse=analyse,
    draw=draw,
    shown={"areas": ()},
)
