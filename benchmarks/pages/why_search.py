"""Tables on search with good uncertainty: UBE heads, backups without learning, and steps to the goal with learning."""

import math
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import figure, file, record, row_of
from benchmarks.pages.texts import count, decimal, found, mean_and_std, probability
from emcts.experiments.analysis.tables import column, number, where
from emcts.experiments.beyond import why_search
from emcts.experiments.paper import exact_novelty

HEADS, FAULTS = "heads-15.json", "faults-40.csv"
TARGETS = {"rnd": 8_000, "counts": 7_200}
DISCOVERED_AT = (1_000, 2_000, 4_000, 6_000)
SIZE, PLANNED_SEEDS = 15, 20
AGENTS = {"e-az": "E-AZ", "az-ube": "AZ+UBE", "e-mz": "E-MZ"}
WAYS = {
    "one-step lookahead": "one step",
    "50 simulations": "search, mean",
    "power 4": "power mean 4",
    "power 16": "power mean 16",
    "max": "max",
}


def heads() -> TextTable:
    rows = []
    agents = list(AGENTS)
    stored = sorted(record(HEADS)["rows"], key=lambda row: (agents.index(row["agent"]), len(row["settings"])))
    for row in stored:
        first = row["mean_first_goal"]
        rows.append(
            [
                ("anchored " if "anchored" in row["row"] else "") + AGENTS[row["agent"]],
                _change(row["settings"]),
                f"{row['found']} of {len(row['seeds'])}",
                "none" if first is None else count(first),
                "" if row is stored[0] else probability(_rank_sum(row, stored[0])),
                decimal(row["age"], 1),
                decimal(row["noise"], 2),
                decimal(row["bias"], 2),
                f"{row['closed']:.0%}",
                f"{row['ahead_agrees']:.1%}",
                f"{row['planner_agrees']:.1%}",
            ]
        )
    floor = exact_novelty.steps_of_seeds(SIZE, PLANNED_SEEDS, exact_novelty.HALF)
    planner = ["planner with exact novelty", "", f"{len(floor)} of {len(floor)}", count(floor.mean())]
    rows.append([*planner, *[""] * (len(rows[0]) - len(planner))])
    header = ["agent", "change", "found", "first goal", "rank-sum p", "late", "noise", "bias", "false alarms"]
    return TextTable([*header, "lookahead agrees", "agent agrees"], rows)


def _rank_sum(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Returns the p-value of a difference of first goals; a seed without one counts as the latest."""
    steps = [[math.inf if step is None else step for step in row["first_goal"]] for row in (one, other)]
    return float(mannwhitneyu(*steps).pvalue)


def _change(settings: dict[str, Any]) -> str:
    parts = []
    if "targets.ube_depth" in settings:
        parts.append(f"depth {settings['targets.ube_depth']}")
    if settings.get("targets.ube") == "path":
        parts.append(f"path of {settings['targets.ube_steps']}")
    if "search.backup_exponent" in settings:
        parts.append(f"power mean {settings['search.backup_exponent']:g}")
    return ", ".join(parts) or "one step"


def faults() -> TextTable:
    table = file(FAULTS)
    kinds = list(
        dict.fromkeys(tuple(row[name] for name in ("late", "noise", "lasting", "width")) for row in table)
    )
    rows = []
    for late, noise, lasting, width in kinds:
        cells = [_fault(number(late), number(noise), number(lasting), number(width))]
        for way in WAYS:
            found = where(table, late=late, noise=noise, lasting=lasting, width=width, acting=way)
            cells.append(
                f"{count(number(found[0]['mean']))} ± {count(number(found[0]['std']))}" if found else ""
            )
        rows.append(cells)
    return TextTable(["uncertainty", *WAYS.values()], rows)


def _fault(late: float, noise: float, lasting: float, width: float) -> str:
    parts = [f"{late:g} episodes late"] if late else []
    parts += [f"noise {noise:g}"] if noise else []
    parts += ["that lasts"] if lasting else []
    parts += ["shared by neighbours"] if width else []
    return ", ".join(parts) or "exact"


def goals() -> TextTable:
    """Steps to the first goal at 40 x 40, by UBE targets and backups."""
    rows = [
        [
            str(row["label"]),
            found(row),
            mean_and_std(row),
            count(row["median"]),
            f"{count(row['median_low'])} to {count(row['median_high'])}",
            f"{number(row['simulator_steps_of_found']) / 1e6:,.0f}",
        ]
        for row in figure("why-search")["summary"]
    ]
    header = ["agent", "found", "first goal, mean ± std", "median", "95%"]
    return TextTable([*header, "million simulator steps to it"], rows)


def targets() -> TextTable:
    """The mean first goals to reach, and those that were reached with the same UBE targets."""
    rows = []
    for novelty, target in TARGETS.items():
        means = [
            number(row_of(figure("why-search")["summary"], row=f"deep-sea-40-{name}")["mean_of_found"])
            for name in (f"e-az-{novelty}-deep-power", f"az-ube-{novelty}-deep", f"az-ube-{novelty}-one-step")
        ]
        rows.append([novelty if novelty == "counts" else "RND", count(target), *map(count, means)])
    header = ["novelty", "at most", "E-AZ", "AZ+UBE, the same targets"]
    return TextTable([*header, "AZ+UBE, targets of one step"], rows)


def claims() -> TextTable:
    labels = {spec.name: spec.label for spec in why_search.SPECS}
    rows = [
        [
            labels[str(row["sooner"])],
            labels[str(row["later"])],
            count(-number(row["difference_of_restricted_means"])),
            probability(row["permutation_p"]),
            probability(row["log_rank_p"]),
        ]
        for row in figure("why-search")["claims"]
    ]
    header = ["E-AZ", "AZ+UBE", "steps sooner on average", "permutation p", "log-rank p"]
    return TextTable(header, rows)


def discovered() -> TextTable:
    """States that were discovered, and a test of their mean over time against AZ+UBE with the same targets."""
    curves, areas = figure("why-search")["curves"], figure("why-search")["areas"]
    rows = []
    for spec in why_search.SPECS:
        states = [row_of(curves, row=spec.name, env_steps=float(steps)) for steps in DISCOVERED_AT]
        same = spec.name.replace("e-az", "az-ube").removesuffix("-power")
        test = where(areas, first=spec.name, second=same)
        rows.append(
            [
                spec.label,
                *(f"{count(row['mean'])} ± {decimal(row['standard_error'], 0)}" for row in states),
                probability(test[0]["permutation_p"]) if test else "",
            ]
        )
    header = ["agent", *(f"{steps:,} steps" for steps in DISCOVERED_AT)]
    return TextTable([*header, "permutation p, AZ+UBE"], rows)


def choosing() -> TextTable:
    """The seeds that the preset was chosen on."""
    table = file("deep-sea-40-choosing.csv")
    labels = {spec.name: spec.label for spec in why_search.SPECS}
    rows = []
    for name in labels:
        if first := column(where(table, row=name), "first_goal_step"):
            rows.append(
                [labels[name], count(len(first)), f"{np.mean(first):,.0f} ± {np.std(first, ddof=1):,.0f}"]
            )
    return TextTable(["agent", "seeds", "first goal, mean ± std"], rows)


TABLES = {
    "why-search-heads": heads,
    "why-search-faults": faults,
    "why-search-target": targets,
    "why-search-goals": goals,
    "why-search-claims": claims,
    "why-search-discovered": discovered,
    "why-search-choosing": choosing,
}
