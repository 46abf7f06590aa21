"""Learning curves of several rows, as a table and drawn from it, and tests of where they differ."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from emcts.experiments.evidence import Evidence, known_mean
from emcts.experiments.results import Line, Table, lines_of, number, values
from emcts.experiments.statistics import estimate, interquartile_mean, permutation_test
from emcts.runs.curves import Curve

POINTS = 120  # of each curve, at most: enough for a picture, few enough for a small file
RESAMPLES = 200


def curves_table(evidence: Sequence[Evidence], metrics: Sequence[str]) -> Table:
    """Mean and standard error over seeds, and the interquartile mean with its bootstrap interval."""
    lines: list[Line] = []
    for one in evidence:
        for metric in metrics:
            whole = one.curve(metric)
            if whole is not None:
                lines += _lines(one, metric, whole)
    return lines


def levels_table(evidence: Sequence[Evidence], metric: str, levels: Sequence[float]) -> Table:
    """When the mean over seeds first reached each level; empty if it never did."""
    lines: list[Line] = []
    for one in evidence:
        whole = one.curve(metric)
        if whole is None:
            continue
        line: dict[str, str | float | None] = {
            "row": one.row.name,
            "label": one.row.label,
            "seeds": len(whole.values),
            "steps_run": float(whole.env_steps[-1]),
            "simulator_steps_run": known_mean(one.seeds(), "simulator_steps"),
            "last_mean": float(whole.mean[-1]),
        }
        for level in levels:
            (reached,) = np.nonzero(whole.mean >= level)
            line[f"reaches_{level}"] = float(whole.env_steps[reached[0]]) if len(reached) else None
        lines.append(line)
    return lines


def areas_table(evidence: Sequence[Evidence], metric: str, pairs: Sequence[tuple[str, str]]) -> Table:
    """For pairs of rows: the means of a metric over time, up to the step both have come to, and whether they differ."""
    by_name = {one.row.name: one for one in evidence}
    lines: list[Line] = []
    for first, second in pairs:
        if first not in by_name or second not in by_name:
            continue
        both = [by_name[name].curve(metric) for name in (first, second)]
        if both[0] is None or both[1] is None:
            continue
        last = min(int(one.env_steps[-1]) for one in both if one is not None)
        a, b = area(both[0], last), area(both[1], last)
        test = permutation_test(a, b)
        lines.append(
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
    return lines


def area(curve: Curve, last: int) -> Float[np.ndarray, "S"]:
    """The mean of each seed's values up to a step."""
    return np.nanmean(curve.values[:, curve.env_steps <= last], axis=1)


def draw_curves(axis: Axes, table: Table, metric: str, *, errors: float = 1.0) -> None:
    """A line for each row, with a band of so many standard errors."""
    for label in values(lines_of(table, metric=metric), "label"):
        lines = lines_of(table, metric=metric, label=label)
        steps, mean, error = (
            np.array([number(line[name]) for line in lines])
            for name in ("env_steps", "mean", "standard_error")
        )
        (drawn,) = axis.plot(steps, mean, label=str(label), linewidth=1.6)
        low, high = mean - errors * error, mean + errors * error
        axis.fill_between(steps, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
    axis.set(xlabel="environment steps of each seed")
    axis.ticklabel_format(axis="x", style="sci", scilimits=(-4, 5))


def draw_survival(axis: Axes, table: Table) -> None:
    """A staircase for each row: the share of seeds that have not got there yet."""
    for label in values(table, "label"):
        lines = lines_of(table, label=label)
        steps, share, low, high = (
            np.array([number(line[name]) for line in lines])
            for name in ("env_steps", "not_yet", "low", "high")
        )
        (drawn,) = axis.step(steps, share, where="post", label=str(label), linewidth=1.6)
        axis.fill_between(steps, low, high, step="post", color=drawn.get_color(), alpha=0.1, linewidth=0)
    axis.set(xlabel="environment steps of each seed", ylabel="seeds still without", ylim=(-0.02, 1.02))


def _lines(one: Evidence, metric: str, whole: Curve) -> list[Line]:
    count = len(whole.env_steps)
    shown = np.unique(np.linspace(0, count - 1, min(POINTS, count)).round().astype(int))
    lines: list[Line] = []
    for point in shown:
        spoke = whole.values[:, point]
        spoke = spoke[np.isfinite(spoke)]
        middle = estimate(spoke, interquartile_mean, resamples=RESAMPLES)
        lines.append(
            {
                "row": one.row.name,
                "label": one.row.label,
                "metric": metric,
                "env_steps": int(whole.env_steps[point]),
                "seeds": len(spoke),
                "mean": float(whole.mean[point]),
                "standard_error": float(whole.standard_error[point]),
                "median": float(np.median(spoke)),
                "iqm": middle.value,
                "iqm_low": middle.low,
                "iqm_high": middle.high,
            }
        )
    return lines
