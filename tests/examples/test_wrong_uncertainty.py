"""The example in which an agent's uncertainty is wrong."""

import importlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.experiments.paper import exact_novelty

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE, SEEDS = 8, 8


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("wrong_uncertainty")


def test_the_equation_is_solved(example: Any) -> None:
    """Against the recursion, written out from a cell downwards."""
    counts = np.random.default_rng(0).integers(3, size=(5, 5, 2)).astype(float)
    squared = example.DISCOUNT**2

    def variance(row: int, column: int) -> float:
        if row == 5:
            return 0.0
        variances = []
        for action, after in enumerate((max(column - 1, 0), min(column + 1, 4))):
            local = example.UNSEEN * example.EPSILON / (counts[row, column, action] + example.EPSILON)
            farther = local * sum(squared**step for step in range(4 - row))
            variances.append(local + squared * max(variance(row + 1, after), farther))
        return max(variances)

    solved = example.solve(jnp.asarray(counts)[None])[0]
    wanted = [[variance(row, column) for column in range(5)] for row in range(6)]
    np.testing.assert_allclose(solved, wanted, rtol=1e-5)


def test_one_step_lookahead_is_enough_if_uncertainty_is_exact(example: Any) -> None:
    steps = example.steps_to_goal(SIZE, 0, example.Fault(), seeds=SEEDS)
    planner = exact_novelty.steps_of_seeds(SIZE, SEEDS, exact_novelty.HALF)
    assert steps.mean() <= planner.mean() + 3 * 2 * SIZE


def test_late_uncertainty_hurts_one_step_lookahead_more(example: Any) -> None:
    late = example.Fault(late=5)
    ahead, searching = (example.steps_to_goal(SIZE, n, late, seeds=SEEDS).mean() for n in (0, 30))
    exact = example.steps_to_goal(SIZE, 0, example.Fault(), seeds=SEEDS).mean()
    assert ahead > 1.3 * exact
    assert searching < 0.8 * ahead


def test_faults_have_names(example: Any) -> None:
    assert [str(fault) for fault in example.FAULTS[:4]] == [
        "exact",
        "2 episodes late",
        "5 episodes late",
        "noise 0.1",
    ]


@pytest.mark.parametrize("width", [0, 2])
def test_noise_has_a_unit_std_and_is_shared_or_lasts_as_asked(example: Any, width: int) -> None:
    fault = example.Fault(noise=0.1, lasting=0.9, width=width)
    noise = example.next_noise(jnp.zeros((64, 13, 12)), jax.random.key(0), example.Fault(width=width))
    course = [noise]
    for key in jax.random.split(jax.random.key(1), 30):
        course.append(example.next_noise(course[-1], key, fault))
    cells = np.stack(course)
    np.testing.assert_allclose(cells.std(axis=(1, 2, 3)), 1.0, atol=0.1)
    after = np.mean(cells[1:] * cells[:-1])
    beside = np.mean(cells[..., 1:] * cells[..., :-1])
    np.testing.assert_allclose(after, 0.9, atol=0.05)
    np.testing.assert_allclose(beside, 0.8 if width else 0.0, atol=0.05)


def test_a_backup_near_the_max_is_at_least_as_fast_if_uncertainty_is_exact(example: Any) -> None:
    mean, greedy = (
        example.steps_to_goal(SIZE, 30, example.Fault(), seeds=SEEDS, backup=example.BACKUPS[name]).mean()
        for name in ("mean", "power 16")
    )
    assert greedy <= mean


def test_faults_are_named_in_full(example: Any) -> None:
    assert str(example.Fault(late=2, noise=0.2, lasting=0.9, width=1)) == (
        "2 episodes late, noise 0.2, lasting 0.9, width 1"
    )
