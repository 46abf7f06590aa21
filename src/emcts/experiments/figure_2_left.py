"""Figure 2, left: how the steps that a solution takes grow with the size of Deep Sea."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from emcts.experiments import perfect_novelty
from emcts.experiments.deep_sea_rows import STEPS, bootstrapped, sea_rows, sooner
from emcts.experiments.evidence import Evidence
from emcts.experiments.experiment import Experiment
from emcts.experiments.first_times import SUMMARY, claims_table, summary_table
from emcts.experiments.results import Line, Table, Tables, lines_of, number, values
from emcts.experiments.sweep import Row

SIZES = tuple(STEPS)
SEEDS = 5
KEYS = ("true-e", "true-ube", "true-plain", "abstracted-e", "abstracted-ube")


def _rows(size: int) -> tuple[Row, ...]:
    rows = sea_rows(size, SEEDS)
    return (*(rows[key] for key in KEYS), bootstrapped(size, SEEDS))


def analyse(evidence: Sequence[Evidence]) -> Tables:
    """Solved is an average regret of the training episodes below 90%, as bsuite scores it."""
    sizes: dict[str, Line] = {one.row.name: {"size": one.setting("size")} for one in evidence}
    seeds = [{**line, **sizes[one.row.name]} for one in evidence for line in one.seeds()]
    by_size = [lines_of(seeds, size=size) for size in values(seeds, "size")]
    claims = [sooner(size, model) for size in SIZES for model in ("true", "abstracted")]
    return {
        "seeds": seeds,
        # Each size has its own horizon, hence a table of its own before they are joined.
        "summary": [line for table in by_size for line in summary_table(table, "regret_step", sizes)],
        "claims": claims_table(seeds, "regret_step", claims),
        "floor": [_floor(int(number(size))) for size in values(seeds, "size")],
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for label in values(tables["summary"], "label"):
        lines = lines_of(tables["summary"], label=label)
        size, mean, error, seeds, found = (
            np.array([number(line[name]) for line in lines])
            for name in ("size", "mean_of_found", "standard_error", "seeds", "found")
        )
        bars = axis.errorbar(
            size, mean, np.nan_to_num(error), label=str(label), capsize=2, marker="o", markersize=3
        )
        some = found < seeds
        axis.plot(size[some], mean[some], "x", color=bars[0].get_color(), markersize=9)
    floor = _numbers(tables["floor"], "size"), _numbers(tables["floor"], "mean_steps")
    axis.plot(*floor, color="grey", linestyle=":", label="perfect novelty, first treasure")
    axis.set(xlabel="rows and columns", ylabel="steps to an average regret of 90%", yscale="log")
    axis.set(title="mean of the seeds that got there, standard error; x: some seeds did not")
    axis.title.set_fontsize("small")
    axis.legend(fontsize="x-small")
    return figure


def _floor(size: int) -> Line:
    steps = perfect_novelty.steps_of_seeds(size, SEEDS, perfect_novelty.HALF)
    return {"size": size, "seeds": SEEDS, "mean_steps": float(steps.mean())}


def _numbers(table: Table, name: str) -> list[float]:
    return [number(line[name]) for line in table]


EXPERIMENT = Experiment(
    name="figure-2-left",
    title="Deep Sea from 10 x 10 to 50 x 50",
    rows=tuple(row for size in SIZES for row in _rows(size)),
    smoke=tuple(f"deep-sea-10-{agent}" for agent in ("e-az", "bdqn")),
    analyse=analyse,
    draw=draw,
    shown={"summary": ("size", *SUMMARY), "claims": (), "floor": ()},
)
