"""Experiments that the paper does not have: a module with an `EXPERIMENT` for each, and one line here."""

from emcts.experiments.beyond import ladder, why_search
from emcts.experiments.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {"ladder": ladder.EXPERIMENT, "why-search": why_search.EXPERIMENT}
