"""Tables on search with good uncertainty: UBE heads, backups without learning, and what is left to run."""

import json
import math
from typing import Any

from scipy.stats import mannwhitneyu

from benchmarks.pages.page import ROOT, TextTable
from benchmarks.pages.stored import file, record
from benchmarks.pages.texts import count, decimal, probability
from emcts.experiments.analysis.tables import number, where
from emcts.experiments.beyond import why_search
from emcts.experiments.paper import exact_novelty

HEADS, FAULTS = "heads-15.json", "faults-40.csv"
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
                AGENTS[row["agent"]],
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
    return ", ".join(parts) or "default"


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


def remaining() -> TextTable:
    """The rows of the experiment, with their cost by the speed of stored runs of the same agents on one H200."""
    stored = {"counts": "deep-sea-40-e-az-counts.json", "rnd": "deep-sea-40-e-az-rnd.json"}
    rows = []
    for spec in why_search.SPECS:
        novelty = spec.changes["novelty.kind"]
        run = json.loads((ROOT / "docs" / "results" / stored[novelty]).read_text(encoding="utf-8"))
        seconds = run["seeds"][0]["seconds"] / run["total_env_steps"] * why_search.STEPS
        rows.append([spec.label, count(spec.seeds), count(why_search.STEPS), count(seconds)])
    return TextTable(["row", "seeds", "steps", "seconds on one H200, about"], rows)


TABLES = {"why-search-heads": heads, "why-search-faults": faults, "why-search-runs": remaining}
