"""Rooms with keys: XLand-MiniGrid's ports of MiniGrid, by agents with and without uncertainty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.curves import curves_table, plot_curves
from emcts.experiments.analysis.first_times import SUMMARY, Claim, claims_table, summary_table
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.tables import Table, TableRow, Tables, number, starting_with, where
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.curves import curve

SEEDS = 5
SEEDS_PER_RUN = {"cpu": SEEDS, "gpu": SEEDS}
STEPS = 204_800
BDQN_STEPS = 102_400
"""Half: it updates after each step, and so takes several times as long."""
EVALUATION_INTERVAL, EVALUATION_EPISODES = 10_240, 32
SUCCESS = 0.9  # of the episodes of an evaluation
FIRST, SUCCEEDED = "first_goal_step", "success_step"
EVENTS = {"first_goals": FIRST, "successes": SUCCEEDED}  # by the table that summarises them
FAILING = 3  # seeds of AZ that do not get there, where E-AZ has to


@dataclass(frozen=True)
class GridWorld:
    """An environment, and the steps after which an episode of an evaluation has failed.

    The environments themselves cut episodes off later: DoorKey 16x16 after 2,560 steps.
    """

    name: str
    reference: str
    label: str
    evaluation_steps: int = 256


WORLDS = (
    GridWorld("door-key-8", "xminigrid:MiniGrid-DoorKey-8x8", "DoorKey 8x8"),
    GridWorld("door-key-16", "xminigrid:MiniGrid-DoorKey-16x16", "DoorKey 16x16", evaluation_steps=512),
    GridWorld("unlock", "xminigrid:MiniGrid-Unlock", "Unlock"),
    GridWorld("unlock-pick-up", "xminigrid:MiniGrid-UnlockPickUp", "UnlockPickUp"),
    GridWorld("blocked-unlock-pick-up", "xminigrid:MiniGrid-BlockedUnlockPickUp", "BlockedUnlockPickUp"),
    GridWorld("locked-room", "xminigrid:MiniGrid-LockedRoom", "LockedRoom"),
    GridWorld("four-rooms", "xminigrid:MiniGrid-FourRooms", "FourRooms"),
)
SIMULATOR_AGENTS = {"e-az": "E-AZ", "az-ube": "AZ+UBE", "az": "AZ"}
"""They plan with the environment itself, and observe all of it."""
OTHER_AGENTS = {"e-mz": "E-MZ", "mz": "MZ", "bdqn": "BDQN"}
"""They observe what the agent sees: the cells in front of it, and what it carries."""
AGENTS = {**SIMULATOR_AGENTS, **OTHER_AGENTS}
CLAIMS = tuple(
    Claim(f"{world.name}-{sooner}", f"{world.name}-{later}")
    for world in WORLDS
    for sooner, later in (("e-az", "az"), ("e-az", "az-ube"), ("e-mz", "mz"), ("e-mz", "bdqn"))
)


def analyse(groups: Sequence[RunGroup]) -> Tables:
    seeds = [row for group in groups for row in _seeds(group)]
    return {
        "seeds": seeds,
        "curves": curves_table(groups, ["solved"]),
        **{table: _summary_by_world(seeds, event) for table, event in EVENTS.items()},
        "claims": [row for event in EVENTS.values() for row in claims_table(seeds, event, CLAIMS)],
        "targets": _targets(seeds),
    }


def draw(tables: Tables) -> Figure:
    """Draws the share of solved episodes of evaluations, a panel for each environment."""
    curves = {world: starting_with(tables["curves"], "label", f"{world.label}:") for world in WORLDS}
    curves = {world: table for world, table in curves.items() if table}
    columns = min(4, len(curves))
    rows = math.ceil(len(curves) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, (world, table) in zip(axes, curves.items(), strict=False):
        plot_curves(axis, [{**row, "label": _agent(row)} for row in table], "solved")
        axis.set(title=world.label, ylabel="episodes solved, standard error", ylim=(-0.05, 1.05))
        axis.legend(fontsize="x-small")
    for axis in axes[len(curves) :]:
        axis.set_visible(False)
    return figure


def _agent(row: TableRow) -> str:
    """Returns the part of a label that names the agent."""
    return str(row["label"]).partition(": ")[2]


def _seeds(group: RunGroup) -> Table:
    """The seeds of a group, with the first evaluation of each in which enough episodes were solved."""
    succeeded = _success_steps(group)
    return [{**row, SUCCEEDED: succeeded.get(int(number(row["seed"])))} for row in group.seeds()]


def _success_steps(group: RunGroup) -> dict[int, int]:
    steps: dict[int, int] = {}
    for folder in group.folders:
        solved = curve(folder, "solved")
        if solved is None:
            continue
        for seed, values in zip(folder.config().seeds, solved.values, strict=True):
            (reached,) = np.nonzero(values >= SUCCESS)
            if len(reached):
                steps[seed] = int(solved.env_steps[reached[0]])
    return steps


def _summary_by_world(seeds: Table, event: str) -> Table:
    """Each environment has its own horizon."""
    tables = [_of_world(seeds, world) for world in WORLDS]
    return [row for table in tables if table for row in summary_table(table, event)]


def _of_world(seeds: Table, world: GridWorld) -> list[TableRow]:
    return starting_with(seeds, "label", f"{world.label}:")


def _targets(seeds: Table) -> Table:
    """Tells where E-AZ succeeds on all seeds, of the environments in which AZ fails on some."""
    rows: list[TableRow] = []
    for world in WORLDS:
        ours, plain = (where(seeds, row=f"{world.name}-{agent}") for agent in ("e-az", "az"))
        if not (ours and plain):
            continue
        missing = [sum(row[SUCCEEDED] is None for row in table) for table in (ours, plain)]
        rows.append(
            {
                "environment": world.label,
                "e_az_seeds": len(ours),
                "e_az_succeeded": len(ours) - missing[0],
                "az_seeds": len(plain),
                "az_failed": missing[1],
                "counts": "yes" if missing[1] >= FAILING else "no",
                "met": "yes" if missing[0] == 0 else "no",
            }
        )
    return rows


def _spec(world: GridWorld, agent: str) -> RunSpec:
    view = {} if agent in SIMULATOR_AGENTS else {f"{paths.ENV_ARGUMENTS}.view": "egocentric"}
    return RunSpec(
        name=f"{world.name}-{agent}",
        label=f"{world.label}: {AGENTS[agent]}",
        environment=world.reference,
        agent=agent,
        seeds=SEEDS,
        paper_preset="default",
        changes={
            **view,
            paths.STEPS: BDQN_STEPS if agent == "bdqn" else STEPS,
            paths.EVALUATION_INTERVAL: EVALUATION_INTERVAL,
            paths.EVALUATION_EPISODES: EVALUATION_EPISODES,
            paths.EVALUATION_STEPS: world.evaluation_steps,
        },
        seeds_per_run=SEEDS_PER_RUN,
    )


EXPERIMENT = Experiment(
    name="grid-worlds",
    title="rooms with keys",
    specs=tuple(_spec(world, agent) for world in WORLDS for agent in AGENTS),
    smoke=("unlock-e-az", "unlock-e-mz"),
    analyse=analyse,
    draw=draw,
    shown={"first_goals": SUMMARY, "successes": SUMMARY, "claims": (), "targets": ()},
)
