"""Experiments that the paper does not have: a module with an `EXPERIMENT` for each, and one line here."""

from emcts.experiments.beyond import careful, deep_sea_100, grid_worlds, ladder, why_search
from emcts.experiments.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    "ladder": ladder.EXPERIMENT,
    "grid-worlds": grid_worlds.EXPERIMENT,
    "deep-sea-100": deep_sea_100.EXPERIMENT,
    "why-search": why_search.EXPERIMENT,
    "careful": careful.EXPERIMENT,
}
