"""Learning curves of several groups of runs: as tables, drawn from the tables, and compared by area."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.statistics import estimate, interquartile_mean, permutation_test
from emcts.experiments.analysis.tables import Cell, Table, TableRow, column, mean_of_known, unique, where
from emcts.runs.curves import Curve

POINTS = 120  # of each curve, at most: enough for a figure, few enough for a small file
RESAMPLES = 200


def curves_table(groups: Sequence[RunGroup], metrics: Sequence[str]) -> Table:
    """Returns mean and standard error over seeds, and the interquartile mean with its bootstrap interval."""
    rows: list[TableRow] = []
    for group in groups:
        for metric in metrics:
            curve = group.curve(metric)
            if curve is not None:
                rows += _curve_rows(group, metric, curve)
    return rows


def levels_table(groups: Sequence[RunGroup], metric: str, levels: Sequence[float]) -> Table:
    """Returns the step at which the mean over seeds first reaches each level; empty if it never does."""
    rows: list[TableRow] = []
    for group in groups:
        curve = group.curve(metric)
        if curve is None:
            continue
        row: dict[str, Cell] = {
            "row": group.spec.name,
            "label": group.spec.label,
            "seeds": len(curve.values),
            "steps_run": float(curve.env_steps[-1]),
            "simulator_steps_run": mean_of_known(group.seeds(), "simulator_steps"),
            "last_mean": float(curve.mean[-1]),
        }
        for level in levels:
            (reached,) = np.nonzero(curve.mean >= level)
            row[f"reaches_{level}"] = float(curve.env_steps[reached[0]]) if len(reached) else None
        rows.append(row)
    return rows


def areas_table(groups: Sequence[RunGroup], metric: str, pairs: Sequence[tuple[str, str]]) -> Table:
    """Compares the mean of a metric over time for pairs of specs, up to the last step that both have."""
    curves = {group.spec.name: curve for group in groups if (curve := group.curve(metric)) is not None}
    rows: list[TableRow] = []
    for first, second in pairs:
        if first not in curves or second not in curves:
            continue
        last = min(int(curves[name].env_steps[-1]) for name in (first, second))
        a, b = area(curves[first], last), area(curves[second], last)
        test = permutation_test(a, b)
        rows.append(
            {
                "first": first,
                "second": second,
                "metric": metric,
                "up_to": last,
                "seeds": f"{len(a)} and {len(b)}",
                "first_mean": float(a.mean()),
                "second_mean": float(b.mean()),
                "difference": test.statistic,
                "permutation_p": test.p_value,
            }
        )
    return rows


def area(curve: Curve, last: int) -> Float[np.ndarray, "S"]:
    """Returns the mean of each seed's values up to a step."""
    return np.nanmean(curve.values[:, curve.env_steps <= last], axis=1)


def plot_curves(axis: Axes, table: Table, metric: str, *, errors: float = 1.0) -> None:
    """Draws a line per spec, with a band of so many standard errors."""
    for label in unique(where(table, metric=metric), "label"):
        rows = where(table, metric=metric, label=label)
        steps, mean, error = (
            np.array(column(rows, name)) for name in ("env_steps", "mean", "standard_error")
        )
        (line,) = axis.plot(steps, mean, label=str(label), linewidth=1.6)
        low, high = mean - errors * error, mean + errors * error
        axis.fill_between(steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axis.set(xlabel="environment steps of each seed")
    axis.ticklabel_format(axis="x", style="sci", scilimits=(-4, 5))


def draw_survival(axis: Axes, table: Table) -> None:
    """Draws a step function per spec: the share of seeds for which the event has not happened yet."""
    for label in unique(table, "label"):
        rows = where(table, label=label)
        steps, share, low, high = (column(rows, name) for name in ("env_steps", "not_yet", "low", "high"))
        (line,) = axis.step(steps, share, where="post", label=str(label), linewidth=1.6)
        axis.fill_between(steps, low, high, step="post", color=line.get_color(), alpha=0.1, linewidth=0)
    axis.set(xlabel="environment steps of each seed", ylabel="share of seeds", ylim=(-0.02, 1.02))


def _curve_rows(group: RunGroup, metric: str, curve: Curve) -> list[TableRow]:
    count = len(curve.env_steps)
    shown = np.unique(np.linspace(0, count - 1, min(POINTS, count)).round().astype(int))
    rows: list[TableRow] = []
    for point in shown:
        reported = curve.values[:, point]
        reported = reported[np.isfinite(reported)]
        iqm = estimate(reported, interquartile_mean, resamples=RESAMPLES)
        rows.append(
            {
                "row": group.spec.name,
                "label": group.spec.label,
                "metric": metric,
                "env_steps": int(curve.env_steps[point]),
                "seeds": len(reported),
                "mean": float(curve.mean[point]),
                "standard_error": float(curve.standard_error[point]),
                "median": float(np.median(reported)),
                "iqm": iqm.value,
                "iqm_low": iqm.low,
                "iqm_high": iqm.high,
            }
        )
    return rows
