"""A figure of toys: a module with an `EXPERIMENT`, registered by one entry."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from emcts.experiments.analysis.curves import curves_table, plot_curves
from emcts.experiments.analysis.first_times import summary_table
from emcts.experiments.analysis.run_group import RunGroup, all_seeds
from emcts.experiments.analysis.tables import Tables
from emcts.experiments.paper.experiment import Experiment
from tests.experiments.specs import RUNNER, WALKER


def analyse(groups: Sequence[RunGroup]) -> Tables:
    return {
        "curves": curves_table(groups, ["return"]),
        "summary": summary_table(all_seeds(groups), "solved_step"),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure()
    plot_curves(figure.subplots(), tables["curves"], "return")
    return figure


EXPERIMENT = Experiment(
    "toy", "walks", (WALKER, RUNNER), (), analyse, draw, {"summary": ("label", "seeds", "found")}
)
