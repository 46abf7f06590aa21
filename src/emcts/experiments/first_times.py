"""First times of several rows, as tables: the paper's mean over the seeds that got there, and what leaves none out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emcts.experiments.evidence import known_mean, simulated, steps_per_seed
from emcts.experiments.results import Cell, Line, Table, values
from emcts.experiments.statistics import summarise
from emcts.experiments.survival import Times, kaplan_meier, log_rank, restricted_mean, restricted_mean_test

SUMMARY = (
    "label",
    "seeds",
    "found",
    "mean_of_found",
    "std_of_found",
    "median",
    "iqm",
    "restricted_mean",
    "horizon",
    "simulator_steps_of_found",
)
"""The columns to print of a summary: the intervals are in the file."""


@dataclass(frozen=True)
class Claim:
    """That the first of two rows is sooner than the second."""

    sooner: str
    later: str


def times_of(seeds: Table, row: str, name: str) -> Times:
    when, followed = steps_per_seed(seeds, row, name)
    happened = ~np.isnan(when)
    return Times(np.where(happened, when, followed), happened)


def summary_table(seeds: Table, name: str, beside: Mapping[str, Line] | None = None) -> Table:
    """A line for each row; `beside` has what else is known of some rows. Steps that never came are `inf`.

    Simulator steps are means: of the whole run, and up to the first time of the seeds that got there.
    """
    all_times = {str(row): times_of(seeds, str(row), name) for row in values(seeds, "row")}
    horizon = common_horizon(list(all_times.values()))
    lines: list[Line] = []
    for row, times in all_times.items():
        when, followed = steps_per_seed(seeds, row, name)
        of_row = [line for line in seeds if line["row"] == row]
        one = summarise(when)
        line: dict[str, Cell] = {
            "row": row,
            "label": of_row[0]["label"],
            "seeds": one.seeds,
            "found": one.succeeded,
            "steps_run": float(followed.max()),
            "mean_of_found": one.mean,
            "std_of_found": one.std,
            "standard_error": one.standard_error,
            "median": one.median.value,
            "median_low": one.median.low,
            "median_high": one.median.high,
            "iqm": one.iqm.value,
            "iqm_low": one.iqm.low,
            "iqm_high": one.iqm.high,
            "restricted_mean": restricted_mean(times, horizon),
            "horizon": horizon,
            "simulator_steps_run": known_mean(of_row, "simulator_steps"),
            "simulator_steps_of_found": known_mean(of_row, simulated(name)),
        }
        lines.append({**line, **(beside or {}).get(row, {})})
    return lines


def survival_table(seeds: Table, name: str) -> Table:
    """Kaplan and Meier's curve of each row, up to the last step that was looked at."""
    lines: list[Line] = []
    for row in map(str, values(seeds, "row")):
        times = times_of(seeds, row, name)
        curve = kaplan_meier(times)
        label = next(line["label"] for line in seeds if line["row"] == row)
        points = [*zip(curve.steps, curve.at_risk, curve.share, curve.low, curve.high, strict=True)]
        if times.steps.max() > curve.steps[-1]:
            points.append((times.steps.max(), *points[-1][1:]))
        lines += [
            {
                "row": row,
                "label": label,
                "env_steps": float(step),
                "at_risk": float(at_risk),
                "not_yet": float(share),
                "low": float(low),
                "high": float(high),
            }
            for step, at_risk, share, low, high in points
        ]
    return lines


def claims_table(seeds: Table, name: str, claims: Sequence[Claim]) -> Table:
    """Each claim whose two rows are there: log-rank test, and permutation test of the restricted means."""
    there = set(values(seeds, "row"))
    lines: list[Line] = []
    for claim in claims:
        if not {claim.sooner, claim.later} <= there:
            continue
        first, second = (times_of(seeds, row, name) for row in (claim.sooner, claim.later))
        horizon = common_horizon([first, second])
        rank = log_rank(first, second)
        shuffled = restricted_mean_test(first, second, horizon)
        lines.append(
            {
                "sooner": claim.sooner,
                "later": claim.later,
                "what": name,
                "seeds": f"{len(first.steps)} and {len(second.steps)}",
                "log_rank_chi_square": rank.statistic,
                "log_rank_p": rank.p_value,
                "horizon": horizon,
                "difference_of_restricted_means": shuffled.statistic,
                "permutation_p": shuffled.p_value,
            }
        )
    return lines


def common_horizon(several: Sequence[Times]) -> float:
    """The last step up to which all curves are known."""
    known = min(times.known_to for times in several)
    return known if math.isfinite(known) else max(float(times.steps.max()) for times in several)
