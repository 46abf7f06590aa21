"""The replay against plain counting: what is drawn, how often, and what comes after it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.training import replay as replays
from emcts.training.replay import Replay, Sample, StoredTransition

ROWS, NUM_ENVS = 5, 3
KEY = jax.random.key(0)


def move(number: int) -> StoredTransition:
    """A transition whose fields tell which it is: episode 2 of step 7 is 7.2."""
    names = number + jnp.arange(NUM_ENVS) / 10
    flags = jnp.full(NUM_ENVS, number % 2 == 0)
    return StoredTransition(
        state={"name": names},
        action=jnp.full(NUM_ENVS, number, jnp.int32),
        reward=-names,
        terminated=flags,
        truncated=~flags,
        policy=jnp.stack([names, 1 - names], axis=-1),
    )


@functools.cache
def empty() -> Replay:
    return replays.init(move(0), ROWS)


add = jax.jit(replays.add)
draw = jax.jit(replays.sample, static_argnames=("count", "exponent", "lookahead"))
window = jax.jit(replays.window, static_argnames="length")
set_priorities = jax.jit(replays.set_priorities)


@functools.cache
def filled(moves: int) -> Replay:
    ring = empty()
    for number in range(moves):
        ring = add(ring, move(number))
    return ring


def counts(ring: Replay, at: Sample) -> np.ndarray:
    table = np.zeros(ring.priorities.shape)
    np.add.at(table, (np.asarray(at.row), np.asarray(at.env)), 1)
    return table


def names(steps: Any) -> np.ndarray:
    return np.asarray(steps.state["name"])


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_steps_are_drawn_in_proportion_to_their_priorities(exponent: float) -> None:
    priorities = np.random.default_rng(0).uniform(0.1, 4.0, (ROWS, NUM_ENVS))
    ring = filled(ROWS).replace(priorities=jnp.asarray(priorities, jnp.float32))
    number = 30_000
    at = draw(ring, KEY, number, exponent=exponent, lookahead=0)
    wanted = priorities**exponent / np.sum(priorities**exponent)
    # Of a chi-square of 14 degrees of freedom, 40 is passed once in 4,000 times.
    assert np.sum((counts(ring, at) - number * wanted) ** 2 / (number * wanted)) < 40
    np.testing.assert_allclose(at.probability, wanted[at.row, at.env], rtol=1e-5)


@pytest.mark.parametrize("ahead", [0, 1, 3])
@pytest.mark.parametrize("moves", [4, 5, 6, 7, 13])
def test_only_steps_that_were_followed_are_drawn(moves: int, ahead: int) -> None:
    ring = filled(moves)
    at = draw(ring, KEY, 500, exponent=0.0, lookahead=ahead)
    drawn = {round(float(name), 1) for name in names(window(ring, at, 1))[:, 0]}
    wanted = range(max(0, moves - ROWS), moves - ahead)
    assert drawn == {round(number + env / 10, 1) for number in wanted for env in range(NUM_ENVS)}


@pytest.mark.parametrize("moves", [4, 7, 13])
def test_a_window_goes_on_across_the_end_of_the_ring(moves: int) -> None:
    ring = filled(moves)
    at = draw(ring, KEY, 100, exponent=0.6, lookahead=2)
    steps = window(ring, at, 3)
    np.testing.assert_allclose(np.diff(names(steps), axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(steps.action, np.floor(names(steps)))
    np.testing.assert_array_equal(steps.reward, -names(steps))
    np.testing.assert_array_equal(steps.terminated, steps.action % 2 == 0)
    np.testing.assert_array_equal(steps.truncated, steps.action % 2 == 1)
    np.testing.assert_array_equal(steps.policy[..., 0], names(steps))
    assert moves < ROWS or np.any(np.asarray(at.row) + 2 >= ROWS)


def test_priorities_change_where_they_were_drawn() -> None:
    at = Sample(jnp.array([1, 4, 0]), jnp.array([2, 0, 0]), jnp.ones(3))
    ring = set_priorities(filled(6), at, jnp.array([0.5, 7.0, 0.25]))
    wanted = np.ones((ROWS, NUM_ENVS))
    wanted[1, 2], wanted[4, 0], wanted[0, 0] = 0.5, 7.0, 0.25
    np.testing.assert_array_equal(ring.priorities, wanted)
    later = add(ring, move(6))
    np.testing.assert_array_equal(later.priorities[1], [7.0, 7.0, 7.0])


def test_the_largest_priority_falls_once_it_is_gone() -> None:
    everywhere = Sample(
        jnp.repeat(jnp.arange(ROWS), NUM_ENVS),
        jnp.tile(jnp.arange(NUM_ENVS), ROWS),
        jnp.ones(ROWS * NUM_ENVS),
    )
    ring = set_priorities(filled(ROWS), everywhere, jnp.full(ROWS * NUM_ENVS, 0.125))
    np.testing.assert_array_equal(add(ring, move(5)).priorities[0], np.full(NUM_ENVS, 0.125))


def test_importance_undoes_the_priorities() -> None:
    probability = np.array([0.1, 0.02, 0.5])
    at = Sample(jnp.zeros(3, jnp.int32), jnp.zeros(3, jnp.int32), jnp.asarray(probability, jnp.float32))
    for exponent in [0.0, 0.4, 1.0]:
        wanted = (15 * probability) ** -exponent
        weights = jax.jit(replays.importance)(at, 15, exponent)
        np.testing.assert_allclose(weights, wanted / wanted.max(), rtol=1e-5)


def test_with_full_importance_every_step_counts_alike() -> None:
    """The weighted share of each step is then the same, however often it was drawn."""
    priorities = jnp.asarray(np.random.default_rng(1).uniform(0.5, 4.0, (ROWS, NUM_ENVS)), jnp.float32)
    ring = filled(ROWS).replace(priorities=priorities)
    at = draw(ring, KEY, 30_000, exponent=1.0, lookahead=0)
    weights = np.asarray(replays.importance(at, ROWS * NUM_ENVS, 1.0))
    share = np.zeros((ROWS, NUM_ENVS))
    np.add.at(share, (np.asarray(at.row), np.asarray(at.env)), weights)
    np.testing.assert_allclose(share / share.mean(), 1.0, atol=0.15)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_priorities_keep_their_proportions(scale: float) -> None:
    priorities = scale * np.arange(1, ROWS * NUM_ENVS + 1).reshape(ROWS, NUM_ENVS)
    ring = filled(ROWS).replace(priorities=jnp.asarray(priorities, jnp.float32))
    at = draw(ring, KEY, 500, exponent=1.0, lookahead=1)
    wanted = priorities / priorities[:-1].sum()
    np.testing.assert_allclose(at.probability, wanted[at.row, at.env], rtol=1e-5)
    assert len(np.unique(at.row)) == ROWS - 1


def test_one_huge_priority_takes_all_draws() -> None:
    ring = filled(ROWS)
    for row, env in [(0, 0), (2, 1), (4, 2)]:
        large = ring.replace(priorities=ring.priorities.at[row, env].set(1e30))
        at = draw(large, KEY, 100, exponent=1.0, lookahead=0)
        assert counts(large, at)[row, env] == 100
        np.testing.assert_allclose(at.probability, 1.0, rtol=1e-6)


def test_what_has_no_priority_is_never_drawn_from_a_large_ring() -> None:
    """Where a sum of many is made in parallel it may rise, by rounding, between two steps that have nothing."""
    rows, rng = 100_000, np.random.default_rng(0)
    priorities = np.where(rng.random((rows, 1)) < 0.5, rng.uniform(0.1, 2.0, (rows, 1)), 0)
    step = jax.tree.map(lambda leaf: leaf[:1], move(0))
    ring = replays.init(step, rows).replace(
        priorities=jnp.asarray(priorities, jnp.float32), filled=jnp.int32(rows)
    )
    at = draw(ring, KEY, 2_000_000, exponent=1.0, lookahead=0)
    assert np.all(priorities[at.row, at.env] > 0)
    assert np.all(np.asarray(at.probability) > 0)


def test_a_million_steps_are_drawn_as_often_as_they_should() -> None:
    """The small ones too, for which a float32 sum of all is too coarse."""
    rows, number, small = 1_000_000, 1_000_000, 1e-3
    priorities = np.where(np.arange(rows) % 10 == 0, 1.0, small)
    step = jax.tree.map(lambda leaf: leaf[:1], move(0))
    ring = replays.init(step, rows).replace(
        priorities=jnp.asarray(priorities[:, None], jnp.float32), filled=jnp.int32(rows)
    )
    probability = priorities / priorities.sum()
    drawn = np.zeros(rows)
    for seed in range(4):
        at = draw(ring, jax.random.key(seed), number, exponent=1.0, lookahead=0)
        np.add.at(drawn, np.asarray(at.row), 1)
        np.testing.assert_allclose(at.probability, probability[at.row], rtol=1e-6)
    draws, low = 4 * number, priorities == small
    share = probability[low].sum()
    # Five standard deviations each; sampling by a sum of all misses the second by 30.
    assert abs(drawn[low].sum() / draws - share) < 5 * np.sqrt(share / draws)
    never = np.exp(draws * np.log1p(-probability[low])).mean()
    assert abs(np.mean(drawn[low] == 0) - never) < 5 * np.sqrt(never * (1 - never) / low.sum())
    dispersion = drawn[low].var() / drawn[low].mean()
    assert abs(dispersion - 1) < 5 * np.sqrt(1 / (drawn[low].mean() * low.sum()) + 2 / low.sum())
    high = drawn[~low] - draws * probability[~low]
    assert abs(high.var() / (draws * probability[0]) - 1) < 5 * np.sqrt(2 / high.size)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_ring_needs_room(rows: int) -> None:
    with pytest.raises(ValueError, match=f"replay of {rows} rows holds no move and the one after it: raise"):
        replays.init(move(0), rows)


@pytest.mark.parametrize(("moves", "expected"), [(2, [1, 0]), (4, [3, 2, 1]), (7, [6, 5, 4])])
def test_the_latest_moves_come_newest_first(moves: int, expected: list[int]) -> None:
    steps, there = jax.jit(replays.latest, static_argnames="rows")(filled(moves), rows=3)
    np.testing.assert_array_equal(steps.action[: len(expected), 0], expected)
    np.testing.assert_array_equal(there.sum(axis=0), [len(expected)] * NUM_ENVS)
    assert names(steps)[0, 2] == pytest.approx(moves - 1 + 0.2)


def test_surprise_counts_all_that_was_not_expected() -> None:
    errors = (jnp.array([1.0, 0.0]), jnp.array([0.5, 0.0]), jnp.array([0.25, 2.0]))
    np.testing.assert_allclose(replays.surprise(*errors), [1.75, 2.0])
    np.testing.assert_allclose(replays.value_error(*errors), [1.0, 0.0])
