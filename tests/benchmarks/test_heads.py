"""The measurement of UBE heads: the exact solution, and heads whose lateness and noise are known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.exact_ube import World, agreement, compare

from benchmarks import heads

SIZE, DISCOUNT, UNSEEN = 12, 0.995, 3.0


def deep_sea(seeds: int) -> World:
    """Returns Deep Sea where action 1 means right everywhere, and the leaf's factor of the remaining steps."""
    rows, columns = np.tril_indices(SIZE)
    number: Any = {(row, column): at for at, (row, column) in enumerate(zip(rows, columns, strict=True))}
    after = np.array(
        [
            [number.get((row + 1, to), len(rows)) for to in (max(column - 1, 0), column + 1)]
            for row, column in zip(rows, columns, strict=True)
        ]
    )
    left = SIZE - 1 - rows
    factor = (1 - DISCOUNT ** (2 * left)) / (1 - DISCOUNT**2)
    return World(
        np.repeat(after[None], seeds, axis=0),
        np.repeat(np.repeat(factor[:, None], 2, axis=1)[None], seeds, axis=0),
        DISCOUNT,
    )


def local(counts: np.ndarray) -> np.ndarray:
    return UNSEEN * 0.01 / (counts + 0.01)


def test_the_solution_is_the_recursion_written_out() -> None:
    world = deep_sea(2)
    eta = local(np.random.default_rng(0).integers(3, size=world.after.shape))

    def variance(seed: int, state: int) -> float:
        if state == world.num_states:
            return 0.0
        return max(
            eta[seed, state, action]
            + (
                DISCOUNT**2
                * max(variance(seed, after), world.factor[seed, state, action] * eta[seed, state, action])
                if (after := int(world.after[seed, state, action])) < world.num_states
                else 0.0
            )
            for action in (0, 1)
        )

    solved = world.solve(eta, SIZE)
    for seed, state in ((0, 0), (1, 0), (0, 30), (1, 70), (0, 77)):
        assert solved[seed, state] == pytest.approx(variance(seed, state))
    np.testing.assert_allclose(world.behind(solved, eta).max(axis=-1), solved)


def history(episodes: int, seeds: int = 6) -> tuple[World, list[np.ndarray], np.ndarray]:
    """Returns the solutions after random episodes, newest first, and which states were visited."""
    world, rng = deep_sea(seeds), np.random.default_rng(1)
    counts, solutions = np.zeros(world.after.shape), list[np.ndarray]()
    for _ in range(episodes):
        state = np.zeros(seeds, int)
        for _ in range(SIZE):
            action = rng.integers(2, size=seeds)
            counts[np.arange(seeds), state, action] += 1
            state = world.after[np.arange(seeds), state, action]
        solutions.insert(0, world.solve(local(counts), SIZE))
    return world, solutions, counts.sum(axis=-1) > 0


@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_lateness_and_noise_of_a_head_are_found(late: int, noise: float) -> None:
    world, solutions, visited = history(14)
    factor = np.exp(0.05 + noise * np.random.default_rng(2).normal(size=solutions[0].shape))
    found = compare(solutions[late] * factor, solutions[:8], visited, world, unseen=UNSEEN)
    assert found.age == late
    assert found.noise == pytest.approx(noise, rel=0.15, abs=0.02)
    assert found.bias == pytest.approx(0.05, abs=0.02)
    assert found.errors[late] == min(found.errors)
    assert found.states > 50


def test_errors_that_are_shared_correlate() -> None:
    world, solutions, visited = history(14)
    rng = np.random.default_rng(3)
    rows, _ = np.tril_indices(SIZE)
    alone = np.exp(0.1 * rng.normal(size=solutions[0].shape))
    by_row = np.exp(0.1 * rng.normal(size=(len(visited), SIZE))[:, rows])
    apart, together = (
        compare(solutions[0] * factor, solutions[:3], visited, world, unseen=UNSEEN)
        for factor in (alone, by_row)
    )
    assert abs(apart.siblings) < 0.25
    assert together.siblings > 0.95


def test_a_head_that_sees_something_where_nothing_is_left_is_noticed() -> None:
    world, _, _ = history(1)
    counts = np.full(world.after.shape, 3)
    counts[:, 0, 1] = 0
    solution = world.solve(local(counts), SIZE)
    everywhere = np.full_like(solution, 30.0)
    visited = np.ones(solution.shape, bool)
    assert compare(everywhere, [solution], visited, world, unseen=UNSEEN).closed == 1
    assert compare(solution, [solution], visited, world, unseen=UNSEEN).closed == 0


def test_agreement_counts_clear_preferences_alone() -> None:
    exact = np.array([[[9.0, 1.0], [5.0, 5.1], [1.0, 9.0], [0.1, 0.2]]])
    visited = np.array([[True, True, True, True]])
    assert agreement(np.array([[0, 0, 0, 0]]), exact, visited, unseen=UNSEEN) == 0.5
    assert agreement(np.array([[0, 1, 1, 1]]), exact, visited, unseen=UNSEEN) == 1
    assert np.isnan(agreement(np.array([[0, 1, 1, 1]]), exact, ~visited, unseen=UNSEEN))


@pytest.mark.long
@pytest.mark.parametrize("row", ["e-az-counts", "e-mz-anchored"])
def test_an_agent_is_measured(row: str, tmp_path: Path) -> None:
    out = tmp_path / "heads.csv"
    heads.main(rows=[row], smoke=True, out=out)
    stored: Any = json.loads(out.with_suffix(".json").read_text())
    assert stored["rows"][0]["env_steps"] > 0
    assert stored["rows"][0]["made"]["command"].startswith(f"emcts bench heads --rows {row}")


def test_settings_are_read() -> None:
    assert heads.read_changes(["targets.ube-depth=5", "targets.ube=edge"]) == {
        "targets.ube_depth": 5,
        "targets.ube": "edge",
    }
    with pytest.raises(ValueError, match="is no setting"):
        heads.read_changes(["targets.ube_depth"])


def test_the_plan_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    heads.main(rows=["e-az-rnd"], size=40, seeds=20, steps=14_000, plan=True)
    assert capsys.readouterr().out == "e-az-rnd: 20 seeds of 40 x 40, up to 14,000 steps each\n"
