"""Figure 5: E-AZ against AZ on MinAtar, where whole observations are new or not, which suits no game."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from emcts.envs.minatar import GAMES
from emcts.experiments.curves import areas_table, curves_table, draw_curves
from emcts.experiments.evidence import Evidence, known_mean
from emcts.experiments.experiment import Experiment
from emcts.experiments.results import Line, Table, Tables, number
from emcts.experiments.statistics import summarise
from emcts.experiments.sweep import Row

SEEDS = 10
AT_ONCE = {"cpu": 2, "gpu": 5}
AGENTS = {"e-az": "E-AZ", "az": "AZ"}
ENVIRONMENTS = tuple(f"minatar-{game.replace('_', '-')}" for game in GAMES)


def _row(environment: str, agent: str) -> Row:
    return Row(
        name=f"{environment}-{agent}",
        label=f"{environment}: {AGENTS[agent]}",
        environment=environment,
        agent=agent,
        seeds=SEEDS,
        paper_preset="paper-minatar",
        at_once=AT_ONCE,
    )


def analyse(evidence: Sequence[Evidence]) -> Tables:
    pairs = [(f"{name}-e-az", f"{name}-az") for name in ENVIRONMENTS]
    return {
        "seeds": [line for one in evidence for line in one.seeds()],
        "curves": curves_table(evidence, ["return"]),
        "summary": [_summary(one) for one in evidence],
        "areas": areas_table(evidence, "return", pairs),
    }


def draw(tables: Tables) -> Figure:
    games = [name for name in ENVIRONMENTS if _of_game(tables["curves"], name)]
    figure = Figure(figsize=(4.4 * len(games), 3.6), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(games), squeeze=False)[0], games, strict=True):
        draw_curves(axis, _of_game(tables["curves"], name), "return", errors=2.0)
        axis.set(title=name, ylabel="return in evaluation, two standard errors")
        axis.legend(fontsize="x-small")
    return figure


def _summary(one: Evidence) -> Line:
    """Of the last evaluation of each seed."""
    seeds = one.seeds()
    last = summarise(np.array([number(line["final_return"]) for line in seeds]))
    return {
        "row": one.row.name,
        "label": one.row.label,
        "seeds": last.seeds,
        "steps_run": max(number(line["env_steps"]) for line in seeds),
        "simulator_steps_run": known_mean(seeds, "simulator_steps"),
        "mean": last.mean,
        "standard_error": last.standard_error,
        "median": last.median.value,
        "iqm": last.iqm.value,
        "iqm_low": last.iqm.low,
        "iqm_high": last.iqm.high,
    }


def _of_game(table: Table, environment: str) -> Table:
    return [line for line in table if str(line["label"]).startswith(f"{environment}:")]


EXPERIMENT = Experiment(
    name="figure-5",
    title="MinAtar, E-AZ and AZ",
    rows=tuple(_row(environment, agent) for environment in ENVIRONMENTS for agent in AGENTS),
    smoke=("minatar-breakout-e-az",),
    analyse=analyse,
    draw=draw,
    shown={"summary": (), "areas": ()},
)
