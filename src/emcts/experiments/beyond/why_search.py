"""Why search, if the uncertainty is good: steps to the goal of Deep Sea 40 x 40, by UBE targets and backups.

E-AZ and AZ+UBE with the same UBE targets, so that what is left between them is the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.curves import areas_table, curves_table, draw_survival, plot_curves
from emcts.experiments.analysis.first_times import (
    SUMMARY,
    Claim,
    claims_table,
    summary_table,
    survival_table,
)
from emcts.experiments.analysis.run_group import RunGroup, all_seeds
from emcts.experiments.analysis.tables import Tables
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.sweeps.run_spec import RunSpec

SIZE, SEEDS, STEPS, EVALUATION_INTERVAL = 40, 20, 14_000, 500
DEPTH, EXPONENT = paths.UBE_DEPTH, paths.BACKUP_EXPONENT
DISCOVERED = "states_discovered"
POWER = 16.0  # the exponent that was chosen without learning, and at 15 x 15 and 20 x 20
TARGET, TARGET_STEPS = "targets.ube", "targets.ube_steps"
NOVELTIES: Mapping[str, Mapping[str, Any]] = {
    "counts": {paths.NOVELTY: "counts", paths.BETA: 1.0},
    "rnd": {paths.NOVELTY: "rnd", paths.BETA: 10.0},
}
COMMON: Mapping[str, Any] = {TARGET: "lookahead", TARGET_STEPS: 0, DEPTH: 1, "novelty.rnd_width": 1024}


@dataclass(frozen=True)
class Arm:
    """A change of the UBE targets, or of the search that acts, and the agents that have it."""

    name: str
    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    agents: tuple[str, ...] = ("e-az", "az-ube")


ARMS = (
    Arm("one-step", "one step"),
    Arm("path", "path of 5", {TARGET: "path", TARGET_STEPS: 5}),
    Arm("deep", "all steps", {DEPTH: SIZE}),
    Arm("deep-power", "all steps, power mean", {DEPTH: SIZE, EXPONENT: POWER}, ("e-az",)),
)
AGENTS = {"e-az": "E-AZ", "az-ube": "AZ+UBE"}


def analyse(groups: Sequence[RunGroup]) -> Tables:
    seeds = all_seeds(groups)
    return {
        "seeds": seeds,
        "summary": summary_table(seeds, "first_goal_step"),
        "survival": survival_table(seeds, "first_goal_step"),
        "claims": claims_table(seeds, "first_goal_step", CLAIMS),
        "curves": curves_table(groups, [DISCOVERED]),
        "areas": areas_table(groups, DISCOVERED, [(claim.sooner, claim.later) for claim in CLAIMS]),
    }


def draw(tables: Tables) -> Figure:
    """Draws a column for each novelty."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    for column, novelty in zip(figure.subplots(2, len(NOVELTIES), squeeze=False).T, NOVELTIES, strict=True):
        rows = {spec.name for spec in SPECS if f"-{novelty}-" in spec.name}
        above, below = column
        draw_survival(above, [row for row in tables["survival"] if row["row"] in rows])
        plot_curves(below, [row for row in tables["curves"] if row["row"] in rows], DISCOVERED)
        above.set_title(
            f"{_novelty(novelty)}: seeds that have not found the goal, 95% bands", fontsize="medium"
        )
        below.set_title(f"{_novelty(novelty)}: states discovered, standard error", fontsize="medium")
        below.set(ylabel="states discovered")
        above.legend(fontsize="x-small", loc="lower left")
    return figure


def _novelty(kind: str) -> str:
    return kind if kind == "counts" else "RND"


def _name(agent: str, novelty: str, arm: str) -> str:
    return f"deep-sea-{SIZE}-{agent}-{novelty}-{arm}"


def _spec(agent: str, novelty: str, arm: Arm) -> RunSpec:
    search = {} if agent == "az-ube" else {EXPONENT: 1.0}
    length = {paths.SIZE: SIZE, paths.STEPS: STEPS, paths.EVALUATION_INTERVAL: EVALUATION_INTERVAL}
    return RunSpec(
        name=_name(agent, novelty, arm.name),
        label=f"{AGENTS[agent]}, {_novelty(novelty)}, {arm.label}",
        environment="deep-sea",
        agent=agent,
        seeds=SEEDS,
        paper_preset="paper-deep-sea",
        changes={**length, **NOVELTIES[novelty], **COMMON, **search, **arm.changes},
    )


SPECS = tuple(_spec(agent, novelty, arm) for novelty in NOVELTIES for arm in ARMS for agent in arm.agents)
CLAIMS = tuple(
    Claim(_name("e-az", novelty, arm.name), _name("az-ube", novelty, other))
    for novelty in NOVELTIES
    for arm in ARMS
    for other in dict.fromkeys(("one-step", arm.name if "az-ube" in arm.agents else "deep"))
)
"""That E-AZ reaches the goal sooner than AZ+UBE as it is, and than AZ+UBE with the same targets."""

EXPERIMENT = Experiment(
    name="why-search",
    title="steps to the first goal in Deep Sea 40 x 40, by UBE targets and backups",
    specs=SPECS,
    smoke=(_name("e-az", "counts", "deep-power"), _name("az-ube", "counts", "deep")),
    analyse=analyse,
    draw=draw,
    shown={"summary": SUMMARY, "claims": ()},
)
