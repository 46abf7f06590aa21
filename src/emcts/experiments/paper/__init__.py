"""The figures and tables of the paper: a module with an `EXPERIMENT` for each, and one line here."""

import importlib

from emcts.experiments.paper.experiment import Experiment
from emcts.registry import lookup

EXPERIMENTS: dict[str, str] = {
    "figure-1": "emcts.experiments.paper.figure_1",
    "figure-2-left": "emcts.experiments.paper.figure_2_left",
    "figure-2-middle": "emcts.experiments.paper.figure_2_middle",
    "figure-2-right": "emcts.experiments.paper.figure_2_right",
    "figure-3": "emcts.experiments.paper.figure_3",
    "figure-4": "emcts.experiments.paper.figure_4",
    "table-1": "emcts.experiments.paper.table_1",
    "figure-5": "emcts.experiments.paper.figure_5",
}


def load_experiment(name: str) -> Experiment:
    """Imports the module of a figure or table and returns its experiment."""
    return importlib.import_module(lookup(EXPERIMENTS, name, "figure or table")).EXPERIMENT
