"""Figure 2, right: the effect of the exploration parameter beta on E-AZ in Deep Sea 30 x 30."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from emcts.envs.deep_sea import GOAL_REWARD, MOVE_COST
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.curves import area
from emcts.experiments.analysis.first_times import SUMMARY, summary_table
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.statistics import describe
from emcts.experiments.analysis.tables import Cell, TableRow, Tables, column, number
from emcts.experiments.paper.deep_sea import deep_sea_specs
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.sweeps.run_spec import RunSpec

SIZE, SEEDS = 30, 3
BETAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def analyse(groups: Sequence[RunGroup]) -> Tables:
    """Computes the regret in evaluation as a share of the best return: at the end, and averaged over training."""
    betas: dict[str, TableRow] = {group.spec.name: {"beta": group.setting(paths.BETA)} for group in groups}
    seeds = [{**row, **betas[group.spec.name]} for group in groups for row in group.seeds()]
    return {
        "seeds": seeds,
        "regret": [_regret(group) for group in groups],
        "summary": summary_table(seeds, "first_goal_step", betas),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axis = figure.subplots()
    rows = sorted(tables["regret"], key=lambda row: number(row["beta"]))
    betas = column(rows, "beta")
    for name, label in (("last", "at the end"), ("average", "averaged over the training")):
        mean, error = (column(rows, f"{name}_regret{part}") for part in ("", "_standard_error"))
        axis.errorbar(betas, mean, np.nan_to_num(error), label=label, capsize=2, marker="o", markersize=3)
    axis.set(
        xscale="log",
        xlabel="beta",
        ylabel="regret in evaluation, share of the best return",
        ylim=(-0.05, 1.1),
    )
    axis.legend()
    return figure


def _spec(beta: float) -> RunSpec:
    spec = deep_sea_specs(SIZE, SEEDS, {paths.BETA: beta})["true-e"]
    return replace(spec, name=f"{spec.name}-beta-{beta:g}", label=f"beta {beta:g}")


def _regret(group: RunGroup) -> TableRow:
    curve = group.curve("return")
    if curve is None:
        raise ValueError(f"the runs of {group.spec.name} have no evaluation yet: train them for longer")
    best = GOAL_REWARD - MOVE_COST
    row: dict[str, Cell] = {
        "row": group.spec.name,
        "beta": group.setting(paths.BETA),
        "seeds": len(curve.values),
    }
    last, average = curve.values[:, -1], area(curve, int(curve.env_steps[-1]))
    for name, returns in (("last", last), ("average", average)):
        regret = describe(1 - returns / best)
        row |= {f"{name}_regret": regret.mean, f"{name}_regret_standard_error": regret.standard_error}
    return row


EXPERIMENT = Experiment(
    name="figure-2-right",
    title="the exploration parameter in Deep Sea 30 x 30",
    specs=tuple(_spec(beta) for beta in BETAS),
    smoke=(_spec(0.1).name, _spec(10.0).name),
    analyse=analyse,
    draw=draw,
    shown={"regret": (), "summary": SUMMARY},
)
