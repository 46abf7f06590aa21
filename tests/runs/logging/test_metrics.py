"""Metrics: what a line has, the latest values, and warnings."""

import numpy as np
import pytest

from emcts.cli import evaluate, reproduce
from emcts.runs.logging.metrics import (
    LatestMetrics,
    MetricWarning,
    largest,
    mean,
    readable,
    to_lines,
    with_lines,
)
from emcts.training.progress import Progress


def test_lines_leave_out_what_is_not_finite() -> None:
    metrics = {"return": np.array([1.5, np.nan]), "loss": np.array([np.inf, 2.0])}
    progress = Progress(100, 10, metrics, simulator_steps=2**60 + 1)
    steps = {"env_steps": 100, "train_steps": 10, "simulator_steps": 2**60 + 1, "seconds": 1.235}
    assert to_lines((3, 5), progress, 1.23456) == [
        {"seed": 3, **steps, "return": 1.5},
        {"seed": 5, **steps, "loss": 2.0},
    ]


def test_the_latest_value_of_a_metric_stays_until_the_next() -> None:
    latest = with_lines({}, [{"seed": 3, "return": 1.0, "loss": 5.0}, {"seed": 5, "return": 2.0}])
    later = with_lines(latest, [{"seed": 3, "return": 4.0}])
    assert later == {3: {"seed": 3, "return": 4.0, "loss": 5.0}, 5: {"seed": 5, "return": 2.0}}
    assert latest[3]["return"] == 1.0
    assert (mean(later, "return"), mean(later, "loss"), mean(later, "length")) == (3.0, 5.0, None)
    assert (largest(later, "return"), largest(later, "length")) == (4.0, None)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-9.63e-09, "0"), (-0.0, "0"), (0.0, "0"), (-2e-06, "-2e-06"), (1.55e-07, "1.55e-07"), (-1.5, "-1.5")],
)
def test_a_tiny_negative_number_is_shown_as_0(value: float, shown: str) -> None:
    """A positive one may be a probability."""
    assert f"{readable(value):.3g}" == shown
    assert reproduce._text(value) == shown
    assert evaluate._mean_and_error(np.full(3, value, np.float32)).startswith(f"{shown} ± ")


def test_a_warning_comes_when_the_limit_is_passed_and_names_the_option() -> None:
    warning = MetricWarning("share", 0.1, "table.num_bits", "{value:.0%} used: raise {setting}")
    low: LatestMetrics = {3: {"share": 0.05}, 5: {"share": 0.1}}
    high: LatestMetrics = {3: {"share": 0.05}, 5: {"share": 0.2}}
    assert (
        warning.check(low, high, {"table.num_bits": 8}) == "warning: 20% used: raise --table.num-bits (now 8)"
    )
    assert warning.check({}, high, {}) == "warning: 20% used: raise --table.num-bits"
    assert warning.check({}, low, {}) is None
    assert warning.check(high, high, {}) is None
