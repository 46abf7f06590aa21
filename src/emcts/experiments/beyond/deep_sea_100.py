"""Deep Sea of 70 x 70 and 100 x 100, and the episodes that explore at every size, beside published figures."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.curves import curves_table, plot_curves
from emcts.experiments.analysis.first_times import SUMMARY, Claim, claims_table, summary_table
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.tables import (
    Results,
    Table,
    TableRow,
    Tables,
    column,
    number,
    stored_results,
    unique,
    where,
)
from emcts.experiments.paper import exact_novelty, figure_2_left, table_1
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.paper.published import published
from emcts.experiments.sweeps.run_spec import RunSpec

NAME = "deep-sea-100"
SIZES = (70, 100)
SEEDS = 5
STEPS = {70: 40_000, 100: 80_000}
"""Of E-AZ with counts: twice the steps of the planner with exact novelty, 19,376 and 39,320."""
FEWER_STEPS = {70: 30_000, 100: 40_000}
"""Of the others, which cost more and are not expected to arrive."""
EVALUATION_INTERVAL = 2_000
UNSEEN_VARIANCE = 1.5
"""Half of the preset's: over 100 steps, new ones add up to 95, and with 3 to 190. The UBE head ends at 117."""
EXPONENT = 16.0
"""Of the power mean by which the searches that act back up stds."""
WITHIN = 1.5  # times the steps of the planner: the target of E-AZ with counts
EXPLORING_SHARE = {"e-az": 0.5, "az-ube": 0.5, "e-mz": 0.5, "mz-ube": 0.5, "bdqn": 1.0}
"""Of the episodes of the paper's protocol, by agent; the others explore by noise alone, in all episodes."""
PLANNER, OTHERS = "perfect novelty", "published, the best of several tabular learners"
FIRST, REGRET, DISCOVERED = "first_goal_step", "regret_step", "states_discovered"


@dataclass(frozen=True)
class AgentRow:
    """An agent of the sweep."""

    name: str
    agent: str
    label: str
    novelty: str
    steps: Mapping[int, int]
    beta: float = 1.0


ROWS = (
    AgentRow("e-az-counts", "e-az", "E-AZ, counts", "counts", STEPS),
    AgentRow("e-az", "e-az", "E-AZ, RND", "rnd", FEWER_STEPS, beta=10.0),
    AgentRow("e-mz-abstracted", "e-mz", "E-MZ, counts", "counts", FEWER_STEPS),
)
CLAIMS = tuple(
    Claim(f"deep-sea-{size}-e-az-counts", f"deep-sea-{size}-{later.name}")
    for size in SIZES
    for later in ROWS[1:]
)


def analyse(groups: Sequence[RunGroup]) -> Tables:
    seeds = [{**row, "size": group.setting(paths.SIZE)} for group in groups for row in group.seeds()]
    sizes = [int(number(size)) for size in unique(seeds, "size")]
    return {
        "seeds": seeds,
        "summary": [row for size in sizes for row in _summary(where(seeds, size=size), size, groups)],
        "claims": claims_table(seeds, FIRST, CLAIMS),
        "curves": [row for group in groups for row in _curves(group)],
        "episodes": sorted(
            [*episodes_of_stored_results(), *map(_episodes_of_runs, groups), *_floor(sizes)],
            key=lambda row: (number(row["size"]), str(row["source"]) != "published"),
        ),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_episodes(left, tables["episodes"])
    plot_curves(right, tables["curves"], DISCOVERED)
    for order, row in enumerate(where(tables["summary"], label=PLANNER)):
        name = f"{PLANNER}, {number(row['size']):.0f}: mean first goal"
        right.axvline(
            number(row["mean_of_found"]), color="grey", linestyle=(":", "--")[order % 2], label=name
        )
    right.set(ylabel="cells discovered", title="cells discovered, standard error", ylim=(0, None))
    for axis in (left, right):
        axis.title.set_fontsize("small")
        axis.legend(fontsize="x-small")
    return figure


def episodes_of_stored_results() -> Table:
    """Returns the exploring episodes of agents in the stored results of the paper's sizes, beside published ones."""
    specs: dict[str, RunSpec] = {}
    seeds: list[TableRow] = []
    for experiment in (figure_2_left.EXPERIMENT, table_1.EXPERIMENT):
        stored = Results(stored_results() / experiment.name).read()["seeds"]
        seeds += [row for row in stored if row["row"] not in specs]
        specs |= {spec.name: spec for spec in experiment.specs}
    ours = [
        _episodes(
            where(seeds, row=name), spec.changes[paths.SIZE], EXPLORING_SHARE[spec.agent], "stored results"
        )
        for name, spec in specs.items()
        if spec.agent in EXPLORING_SHARE and where(seeds, row=name)
    ]
    return [*_published(), *ours, *_floor(sorted({int(number(row["size"])) for row in ours}))]


def _published() -> Table:
    return [
        {
            "size": int(number(row["row"])),
            "row": f"published-{number(row['row']):.0f}",
            "label": OTHERS,
            "source": "published",
            "episodes": row["value"],
        }
        for row in published(NAME)
    ]


def _episodes_of_runs(group: RunGroup) -> TableRow:
    exploiting, parallel = group.setting(paths.NUM_EXPLOITING), group.setting(paths.NUM_ENVS)
    return _episodes(group.seeds(), group.setting(paths.SIZE), 1 - exploiting / parallel, "these runs")


def _episodes(seeds: Table, size: int, share: float, source: str) -> TableRow:
    """Returns the means over the seeds that got there; all episodes last `size` steps, and a `share` explores."""
    first, regret = (np.array(column(seeds, event)) for event in (FIRST, REGRET))
    return {
        "size": size,
        "row": seeds[0]["row"],
        "label": seeds[0]["label"],
        "source": source,
        "seeds": len(seeds),
        "found": int(np.isfinite(first).sum()),
        "episodes": _mean(first * share / size),
        "slowest": _mean([np.nanmax(first) * share / size]) if np.isfinite(first).any() else None,
        "episodes_to_90_percent_regret": _mean(regret * share / size),
    }


def _floor(sizes: Iterable[int]) -> Table:
    """Returns the episodes of the planner with exact novelty."""
    return [
        {
            "size": size,
            "row": f"perfect-novelty-{size}",
            "label": PLANNER,
            "source": "simulated",
            "seeds": SEEDS,
            "found": SEEDS,
            "episodes": float(planner_steps(size).mean()) / (2 * size),
        }
        for size in sizes
    ]


def _curves(group: RunGroup) -> Table:
    """Returns the cells discovered, under a label of each agent and size."""
    size = group.setting(paths.SIZE)
    rows = curves_table([group], [DISCOVERED])
    return [{**row, "label": f"{row['label']}, {size} x {size}"} for row in rows]


def _summary(seeds: Table, size: int, groups: Sequence[RunGroup]) -> Table:
    """Returns the rows of one size, with how many seeds found the goal within the target."""
    planner = planner_steps(size)
    exact = [
        {"row": f"perfect-novelty-{size}", "label": PLANNER, "seed": seed, "env_steps": steps, FIRST: steps}
        for seed, steps in enumerate(planner.tolist())
    ]
    limit = WITHIN * float(planner.mean())
    extra: dict[str, TableRow] = {}
    for name in map(str, unique([*seeds, *exact], "row")):
        first = np.array(column(where([*seeds, *exact], row=name), FIRST))
        extra[name] = {
            "size": size,
            "target_steps": limit,
            "within_target": int(np.sum(first <= limit)),
            "mean_over_planner": _mean(first / float(planner.mean())),
            "states_discovered": _last(groups, name, DISCOVERED),
        }
    return summary_table([*seeds, *exact], FIRST, extra)


def _last(groups: Sequence[RunGroup], name: str, metric: str) -> float | None:
    """Returns the mean of the last values that the runs of a spec reported."""
    curves = [group.curve(metric) for group in groups if group.spec.name == name]
    return next((float(one.mean[-1]) for one in curves if one is not None), None)


@functools.cache
def planner_steps(size: int) -> Float[np.ndarray, "S"]:
    """Returns the steps of the planner with exact novelty if half of the episodes explore."""
    return exact_novelty.steps_of_seeds(size, SEEDS, exact_novelty.HALF)


def _mean(values: Any) -> float | None:
    values = np.array(values, float)
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _draw_episodes(axis: Axes, table: Table) -> None:
    for label in unique(table, "label"):
        rows = sorted(where(table, label=label), key=lambda row: number(row["size"]))
        known = [row for row in rows if row["episodes"] is not None]
        style = {OTHERS: "k--s", PLANNER: ":"}.get(str(label), "-o")
        axis.plot(column(known, "size"), column(known, "episodes"), style, markersize=3, label=str(label))
    axis.set(xlabel="rows and columns", ylabel="episodes that explore", xscale="log", yscale="log")
    axis.set(title="exploring episodes to the first goal, mean of the seeds that found it")
    ticks = [int(number(size)) for size in unique(table, "size")]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()


def _spec(row: AgentRow, size: int) -> RunSpec:
    return RunSpec(
        name=f"deep-sea-{size}-{row.name}",
        label=row.label,
        environment="deep-sea",
        agent=row.agent,
        seeds=SEEDS,
        paper_preset="paper-deep-sea-abstracted" if row.agent == "e-mz" else "paper-deep-sea",
        changes={
            paths.SIZE: size,
            paths.STEPS: row.steps[size],
            paths.EVALUATION_INTERVAL: EVALUATION_INTERVAL,
            paths.NOVELTY: row.novelty,
            paths.BETA: row.beta,
            paths.UNSEEN_VARIANCE: UNSEEN_VARIANCE,
            **({paths.UBE_DEPTH: size, paths.BACKUP_EXPONENT: EXPONENT} if row.agent == "e-az" else {}),
        },
        seeds_per_run={"cpu": SEEDS, "gpu": SEEDS},
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Deep Sea from 70 x 70 to 100 x 100",
    specs=tuple(_spec(row, size) for row in ROWS for size in SIZES),
    smoke=("deep-sea-100-e-az-counts", "deep-sea-100-e-mz-abstracted"),
    analyse=analyse,
    draw=draw,
    shown={
        "summary": ("size", *SUMMARY, "within_target", "mean_over_planner", "states_discovered"),
        "claims": (),
        "episodes": (
            "size",
            "label",
            "source",
            "seeds",
            "found",
            "episodes",
            "episodes_to_90_percent_regret",
        ),
    },
)
