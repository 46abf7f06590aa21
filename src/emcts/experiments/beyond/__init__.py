"""Experiments that the paper does not have: a module with an `EXPERIMENT` for each, and one line here."""

from emcts.experiments.beyond import careful, ladder
from emcts.experiments.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {"ladder": ladder.EXPERIMENT, "careful": careful.EXPERIMENT}
