"""Figure 2, right: what the exploration parameter beta does to E-AZ in Deep Sea 30 x 30."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from emcts.envs.deep_sea import GOAL_REWARD, MOVE_COST
from emcts.experiments.curves import area
from emcts.experiments.deep_sea_rows import sea_rows
from emcts.experiments.evidence import Evidence
from emcts.experiments.experiment import Experiment
from emcts.experiments.first_times import SUMMARY, summary_table
from emcts.experiments.results import Line, Tables, number
from emcts.experiments.statistics import summarise
from emcts.experiments.sweep import Row

SIZE, SEEDS = 30, 3
BETAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def _row(beta: float) -> Row:
    row = sea_rows(SIZE, SEEDS, beta=beta)["true-e"]
    return replace(row, name=f"{row.name}-beta-{beta:g}", label=f"beta {beta:g}")


def analyse(evidence: Sequence[Evidence]) -> Tables:
    """Regret in evaluation, as a share of the best return: at the end, and on average over the training."""
    betas: dict[str, Line] = {one.row.name: {"beta": one.setting("beta")} for one in evidence}
    seeds = [{**line, **betas[one.row.name]} for one in evidence for line in one.seeds()]
    return {
        "seeds": seeds,
        "regret": [_regret(one) for one in evidence],
        "summary": summary_table(seeds, "first_goal_step", betas),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axis = figure.subplots()
    lines = sorted(tables["regret"], key=lambda line: number(line["beta"]))
    betas = [number(line["beta"]) for line in lines]
    for name, label in (("last", "at the end"), ("average", "averaged over the training")):
        mean, error = (
            [number(line[f"{name}_regret{part}"]) for line in lines] for part in ("", "_standard_error")
        )
        axis.errorbar(betas, mean, np.nan_to_num(error), label=label, capsize=2, marker="o", markersize=3)
    axis.set(
        xscale="log",
        xlabel="beta",
        ylabel="regret in evaluation, share of the best return",
        ylim=(-0.05, 1.1),
    )
    axis.legend()
    return figure


def _regret(one: Evidence) -> Line:
    curve = one.curve("return")
    if curve is None:
        raise ValueError(f"the runs of {one.row.name} have no evaluation yet: train them for longer")
    best = GOAL_REWARD - MOVE_COST
    line: dict[str, str | float] = {
        "row": one.row.name,
        "beta": one.setting("beta"),
        "seeds": len(curve.values),
    }
    of_end, of_all = curve.values[:, -1], area(curve, int(curve.env_steps[-1]))
    for name, returns in (("last", of_end), ("average", of_all)):
        regret = summarise(1 - returns / best)
        line |= {f"{name}_regret": regret.mean, f"{name}_regret_standard_error": regret.standard_error}
    return line


EXPERIMENT = Experiment(
    name="figure-2-right",
    title="the exploration parameter in Deep Sea 30 x 30",
    rows=tuple(_row(beta) for beta in BETAS),
    smoke=(_row(10.0).name,),
    analyse=analyse,
    draw=draw,
    shown={"regret": (), "summary": SUMMARY},
)
