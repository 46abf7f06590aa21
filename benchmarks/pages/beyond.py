"""The tables of experiments that the paper does not have. Rows that were never run say so."""

from collections.abc import Callable

from benchmarks.pages.page import ROOT, TextTable
from benchmarks.pages.stored import figure, file
from benchmarks.pages.texts import count, decimal, found, mean_and_std, probability
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.tables import Table, TableRow, Tables, number, where
from emcts.experiments.beyond import deep_sea_100, grid_worlds
from emcts.experiments.beyond.deep_sea_100 import OTHERS, PLANNER
from emcts.experiments.sweeps.run_spec import RunSpec

NOT_RUN = "not run"
COMPARED = (10, 20, 30, 40)  # sizes with published episodes


def deep_sea_100_goals() -> TextTable:
    """Steps to the first goal, beside those of the planner with exact novelty."""
    summary = _stored("deep-sea-100").get("summary", [])
    rows = []
    for spec in deep_sea_100.EXPERIMENT.specs:
        size = spec.changes[paths.SIZE]
        planner = deep_sea_100.planner_steps(size).mean()
        cells = _cells(
            where(summary, row=spec.name),
            lambda row: [
                found(row),
                mean_and_std(row),
                f"{count(row['within_target'])} of {count(row['seeds'])}",
                count(row["states_discovered"]),
            ],
            4,
        )
        steps, target = count(spec.changes[paths.STEPS]), count(deep_sea_100.WITHIN * planner)
        rows.append([f"{spec.label}, {size} x {size}", steps, count(planner), target, *cells])
    header = ["agent", "steps", "planner, mean first goal", "1.5 times", "found the goal"]
    return TextTable([*header, "first goal, mean ± std", "within 1.5 times", "cells discovered"], rows)


def deep_sea_one_step() -> TextTable:
    """The same with the preset before: runs that were cut short, as they were late."""
    table, rows = file("deep-sea-100-one-step.csv"), []
    for spec in deep_sea_100.EXPERIMENT.specs:
        if seeds := where(table, row=spec.name):
            size, first = spec.changes[paths.SIZE], [row["first_goal_step"] for row in seeds]
            planner = deep_sea_100.planner_steps(size).mean()
            goals = [
                f"{seed['seed']:.0f}: {count(step)}" for seed, step in zip(seeds, first, strict=True) if step
            ]
            rows.append(
                [
                    f"{size} x {size}",
                    count(seeds[0]["env_steps"]),
                    count(deep_sea_100.WITHIN * planner),
                    f"{len(goals)} of {len(seeds)}",
                    ", ".join(goals),
                ]
            )
    return TextTable(
        ["", "cut short at", "1.5 times the planner", "found the goal", "seed: first goal"], rows
    )


def deep_sea_episodes() -> TextTable:
    """Episodes that explore up to the first goal, by size."""
    table = deep_sea_100.episodes_of_stored_results()
    labels = dict.fromkeys(str(row["label"]) for row in table)
    rows = []
    for label in [OTHERS, *(one for one in labels if one not in (OTHERS, PLANNER)), PLANNER]:
        of_sizes = {int(number(row["size"])): row for row in where(table, label=label)}
        rows.append([label, *(_episodes(of_sizes.get(size)) for size in COMPARED)])
    return TextTable(["", *(f"{size} x {size}" for size in COMPARED)], rows)


def deep_sea_regret_episodes() -> TextTable:
    """The same up to an average regret of 90%."""
    table = [row for row in deep_sea_100.episodes_of_stored_results() if row["source"] == "stored results"]
    rows = []
    for label in dict.fromkeys(str(row["label"]) for row in table):
        of_sizes = {int(number(row["size"])): row for row in where(table, label=label)}
        cells = [_decimal(of_sizes.get(size, {}).get("episodes_to_90_percent_regret")) for size in COMPARED]
        rows.append([label, *cells])
    return TextTable(["", *(f"{size} x {size}" for size in COMPARED)], rows)


def grid_worlds_seeds() -> TextTable:
    """Seeds that succeed, and the mean steps of these."""
    tables = _stored("grid-worlds")
    rows = []
    for world in grid_worlds.WORLDS:
        for agent, label in grid_worlds.AGENTS.items():
            name = f"{world.name}-{agent}"
            first, success = (where(tables.get(table, []), row=name) for table in grid_worlds.EVENTS)
            goals = _cells(first, lambda row: [found(row), count(row["mean_of_found"]) or "none"], 2)
            rows.append([world.label, label, *goals, *_cells(success, _success, 2)])
    header = ["environment", "agent", "found the goal", "first goal, mean"]
    return TextTable([*header, "90% of an evaluation", "steps to it, mean ± std"], rows)


def grid_worlds_claims() -> TextTable:
    claims = _stored("grid-worlds").get("claims", [])
    specs = {spec.name: spec for spec in grid_worlds.EXPERIMENT.specs}
    rows = []
    for claim in grid_worlds.CLAIMS:
        tested = where(claims, sooner=claim.sooner, later=claim.later)
        of_events = [where(tested, what=event) for event in grid_worlds.EVENTS.values()]
        cells = [cell for rows in of_events for cell in _cells(rows, _p, 1)]
        rows.append(
            [_world(specs[claim.sooner]), *map(_agent, (specs[claim.sooner], specs[claim.later])), *cells]
        )
    return TextTable(["environment", "agent", "against", "first goal, log-rank p", "90%, log-rank p"], rows)


def _success(row: TableRow) -> list[str]:
    return [found(row), mean_and_std(row)]


def _p(row: TableRow) -> list[str]:
    return [probability(row["log_rank_p"])]


def _world(spec: RunSpec) -> str:
    return spec.label.partition(": ")[0]


def _agent(spec: RunSpec) -> str:
    return spec.label.partition(": ")[2]


def _stored(name: str) -> Tables:
    """Returns the stored tables of an experiment; none before it was run."""
    return figure(name) if (ROOT / "results" / name).is_dir() else {}


def _cells(rows: Table, texts: Callable[[TableRow], list[str]], size: int) -> list[str]:
    """Returns the texts of a row, or that it was not run."""
    return texts(rows[0]) if rows else [NOT_RUN] * size


def _episodes(row: TableRow | None) -> str:
    """Returns the mean, with the seeds that found the goal unless all did."""
    if row is None:
        return ""
    text = decimal(row["episodes"], 0)
    some = row.get("seeds") is not None and row["found"] != row["seeds"]
    return f"{text} ({found(row)})" if some else text


def _decimal(cell: str | float | int | None) -> str:
    return "" if cell is None else decimal(cell, 0)


TABLES = {
    "deep-sea-100": deep_sea_100_goals,
    "deep-sea-100-one-step": deep_sea_one_step,
    "deep-sea-episodes": deep_sea_episodes,
    "deep-sea-episodes-to-regret": deep_sea_regret_episodes,
    "grid-worlds": grid_worlds_seeds,
    "grid-worlds-claims": grid_worlds_claims,
}
