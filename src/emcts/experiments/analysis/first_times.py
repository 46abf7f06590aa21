"""First times of several specs, as tables: the paper's mean over successful seeds, and censored statistics of all."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emcts.experiments.analysis.run_group import simulator_steps_column
from emcts.experiments.analysis.statistics import describe
from emcts.experiments.analysis.survival import (
    EventTimes,
    kaplan_meier,
    log_rank,
    restricted_mean,
    restricted_mean_test,
)
from emcts.experiments.analysis.tables import Cell, Table, TableRow, column, mean_of_known, unique, where

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
"""The columns of a summary to print; the file has the intervals too."""


@dataclass(frozen=True)
class Claim:
    """The claim that one spec reaches an event sooner than another."""

    sooner: str
    later: str


def event_times(seeds: Table, spec: str, event: str) -> EventTimes:
    """Returns the first times of the seeds of a spec, censored at the last step of seeds without the event."""
    rows = where(seeds, row=spec)
    first, last = np.array(column(rows, event)), np.array(column(rows, "env_steps"))
    observed = ~np.isnan(first)
    return EventTimes(np.where(observed, first, last), observed)


def summary_table(seeds: Table, event: str, extra: Mapping[str, TableRow] | None = None) -> Table:
    """Returns one row per spec; `extra` has more columns for some specs. Steps that were never reached are `inf`.

    Simulator steps are means: of the whole run, and up to the event over the seeds that reached it.
    """
    all_times = {str(spec): event_times(seeds, str(spec), event) for spec in unique(seeds, "row")}
    horizon = common_horizon(list(all_times.values()))
    rows: list[TableRow] = []
    for spec, times in all_times.items():
        of_spec = where(seeds, row=spec)
        one = describe(np.array(column(of_spec, event)))
        row: dict[str, Cell] = {
            "row": spec,
            "label": of_spec[0]["label"],
            "seeds": one.seeds,
            "found": one.succeeded,
            "steps_run": max(column(of_spec, "env_steps")),
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
            "simulator_steps_run": mean_of_known(of_spec, "simulator_steps"),
            "simulator_steps_of_found": mean_of_known(of_spec, simulator_steps_column(event)),
        }
        rows.append({**row, **(extra or {}).get(spec, {})})
    return rows


def survival_table(seeds: Table, event: str) -> Table:
    """Returns the Kaplan-Meier curve of each spec, up to the last step of its seeds."""
    rows: list[TableRow] = []
    for spec in map(str, unique(seeds, "row")):
        times = event_times(seeds, spec, event)
        curve = kaplan_meier(times)
        points = [*zip(curve.steps, curve.at_risk, curve.share, curve.low, curve.high, strict=True)]
        if times.steps.max() > curve.steps[-1]:
            points.append((times.steps.max(), *points[-1][1:]))
        rows += [
            {
                "row": spec,
                "label": where(seeds, row=spec)[0]["label"],
                "env_steps": float(step),
                "at_risk": float(at_risk),
                "not_yet": float(share),
                "low": float(low),
                "high": float(high),
            }
            for step, at_risk, share, low, high in points
        ]
    return rows


def claims_table(seeds: Table, event: str, claims: Sequence[Claim]) -> Table:
    """Tests each claim whose two specs have seeds: by log-rank, and by permutation of the restricted means."""
    specs = set(unique(seeds, "row"))
    rows: list[TableRow] = []
    for claim in claims:
        if not {claim.sooner, claim.later} <= specs:
            continue
        first, second = (event_times(seeds, spec, event) for spec in (claim.sooner, claim.later))
        horizon = common_horizon([first, second])
        rank = log_rank(first, second)
        permuted = restricted_mean_test(first, second, horizon)
        rows.append(
            {
                "sooner": claim.sooner,
                "later": claim.later,
                "what": event,
                "seeds": f"{len(first.steps)} and {len(second.steps)}",
                "log_rank_chi_square": rank.statistic,
                "log_rank_p": rank.p_value,
                "horizon": horizon,
                "difference_of_restricted_means": permuted.statistic,
                "permutation_p": permuted.p_value,
            }
        )
    return rows


def common_horizon(several: Sequence[EventTimes]) -> float:
    """Returns the last step up to which all survival curves are known."""
    known = min(times.known_to for times in several)
    return known if math.isfinite(known) else max(float(times.steps.max()) for times in several)
