"""The figures and tables of the paper: a module with an `EXPERIMENT` for each, and one line here."""

from emcts.experiments.paper import (
    figure_1,
    figure_2_left,
    figure_2_middle,
    figure_2_right,
    figure_3,
    figure_4,
    figure_5,
    table_1,
)
from emcts.experiments.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    "figure-1": figure_1.EXPERIMENT,
    "figure-2-left": figure_2_left.EXPERIMENT,
    "figure-2-middle": figure_2_middle.EXPERIMENT,
    "figure-2-right": figure_2_right.EXPERIMENT,
    "figure-3": figure_3.EXPERIMENT,
    "figure-4": figure_4.EXPERIMENT,
    "table-1": table_1.EXPERIMENT,
    "figure-5": figure_5.EXPERIMENT,
}
