"""Figure 5: E-AZ against AZ on MinAtar, with novelty of whole observations."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from emcts.envs.minatar import GAMES
from emcts.experiments.analysis.curves import areas_table, curves_table, plot_curves
from emcts.experiments.analysis.run_group import RunGroup, all_seeds
from emcts.experiments.analysis.statistics import describe
from emcts.experiments.analysis.tables import TableRow, Tables, column, mean_of_known, starting_with
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.sweeps.run_spec import RunSpec

SEEDS = 10
SEEDS_PER_RUN = {"cpu": 2, "gpu": 5}
AGENTS = {"e-az": "E-AZ", "az": "AZ"}
ENVIRONMENTS = tuple(f"minatar-{game.replace('_', '-')}" for game in GAMES)


def analyse(groups: Sequence[RunGroup]) -> Tables:
    pairs = [(f"{name}-e-az", f"{name}-az") for name in ENVIRONMENTS]
    return {
        "seeds": all_seeds(groups),
        "curves": curves_table(groups, ["return"]),
        "summary": [_summary(group) for group in groups],
        "areas": areas_table(groups, "return", pairs),
    }


def draw(tables: Tables) -> Figure:
    curves = {name: starting_with(tables["curves"], "label", f"{name}:") for name in ENVIRONMENTS}
    curves = {name: table for name, table in curves.items() if table}
    figure = Figure(figsize=(4.4 * len(curves), 3.6), layout="constrained")
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    for axis, (name, table) in zip(axes, curves.items(), strict=True):
        plot_curves(axis, table, "return", errors=2.0)
        axis.set(title=name, ylabel="return in evaluation, two standard errors")
        axis.legend(fontsize="x-small")
    return figure


def _spec(environment: str, agent: str) -> RunSpec:
    return RunSpec(
        name=f"{environment}-{agent}",
        label=f"{environment}: {AGENTS[agent]}",
        environment=environment,
        agent=agent,
        seeds=SEEDS,
        paper_preset="paper-minatar",
        seeds_per_run=SEEDS_PER_RUN,
    )


def _summary(group: RunGroup) -> TableRow:
    """Summarises the last evaluation of each seed."""
    seeds = group.seeds()
    last = describe(np.array(column(seeds, "final_return")))
    return {
        "row": group.spec.name,
        "label": group.spec.label,
        "seeds": last.seeds,
        "steps_run": max(column(seeds, "env_steps")),
        "simulator_steps_run": mean_of_known(seeds, "simulator_steps"),
        "mean": last.mean,
        "standard_error": last.standard_error,
        "median": last.median.value,
        "iqm": last.iqm.value,
        "iqm_low": last.iqm.low,
        "iqm_high": last.iqm.high,
    }


EXPERIMENT = Experiment(
    name="figure-5",
    title="MinAtar, E-AZ and AZ",
    specs=tuple(_spec(environment, agent) for environment in ENVIRONMENTS for agent in AGENTS),
    smoke=("minatar-breakout-e-az",),
    analyse=analyse,
    draw=draw,
    shown={"summary": (), "areas": ()},
)
