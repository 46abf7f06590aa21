"""The replay against plain counting: which transitions are drawn, how often, and which ones follow."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.training import replay as replays
from emcts.training.replay import Replay, Sample, StoredTransition

ROWS, ENVS = 5, 3
KEY = jax.random.key(0)


def transition(number: int) -> StoredTransition:
    """Transitions whose fields identify them: that of environment 2 in step 7 is 7.2."""
    names = number + jnp.arange(ENVS) / 10
    flags = jnp.full(ENVS, number % 2 == 0)
    return StoredTransition(
        state={"name": names},
        action=jnp.full(ENVS, number, jnp.int32),
        reward=-names,
        terminated=flags,
        truncated=~flags,
        policy=jnp.stack([names, 1 - names], axis=-1),
    )


@functools.cache
def empty() -> Replay:
    return replays.init(transition(0), ROWS)


add = jax.jit(replays.add)
draw = jax.jit(replays.sample, static_argnames=("count", "exponent", "lookahead"))
window = jax.jit(replays.window, static_argnames="length")
set_priorities = jax.jit(replays.set_priorities)


@functools.cache
def filled(steps: int) -> Replay:
    ring = empty()
    for number in range(steps):
        ring = add(ring, transition(number))
    return ring


def counts(ring: Replay, at: Sample) -> np.ndarray:
    table = np.zeros(ring.priorities.shape)
    np.add.at(table, (np.asarray(at.row), np.asarray(at.env)), 1)
    return table


def names(transitions: Any) -> np.ndarray:
    return np.asarray(transitions.state["name"])


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_transitions_are_drawn_in_proportion_to_their_priorities(exponent: float) -> None:
    priorities = np.random.default_rng(0).uniform(0.1, 4.0, (ROWS, ENVS))
    ring = filled(ROWS).replace(priorities=jnp.asarray(priorities, jnp.float32))
    number = 30_000
    at = draw(ring, KEY, number, exponent=exponent, lookahead=0)
    wanted = priorities**exponent / np.sum(priorities**exponent)
    # A chi-square variable of 14 degrees of freedom exceeds 40 once in 4,000 times.
    assert np.sum((counts(ring, at) - number * wanted) ** 2 / (number * wanted)) < 40
    np.testing.assert_allclose(at.probability, wanted[at.row, at.env], rtol=1e-5)


@pytest.mark.parametrize("lookahead", [0, 1, 3])
@pytest.mark.parametrize("steps", [4, 5, 6, 7, 13])
def test_only_transitions_with_later_ones_are_drawn(steps: int, lookahead: int) -> None:
    ring = filled(steps)
    at = draw(ring, KEY, 500, exponent=0.0, lookahead=lookahead)
    drawn = {round(float(name), 1) for name in names(window(ring, at, 1))[:, 0]}
    wanted = range(max(0, steps - ROWS), steps - lookahead)
    assert drawn == {round(number + env / 10, 1) for number in wanted for env in range(ENVS)}


@pytest.mark.parametrize("steps", [4, 7, 13])
def test_a_window_continues_across_the_end_of_the_ring(steps: int) -> None:
    ring = filled(steps)
    at = draw(ring, KEY, 100, exponent=0.6, lookahead=2)
    found = window(ring, at, 3)
    np.testing.assert_allclose(np.diff(names(found), axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(found.action, np.floor(names(found)))
    np.testing.assert_array_equal(found.reward, -names(found))
    np.testing.assert_array_equal(found.terminated, found.action % 2 == 0)
    np.testing.assert_array_equal(found.truncated, found.action % 2 == 1)
    np.testing.assert_array_equal(found.policy[..., 0], names(found))
    assert steps < ROWS or np.any(np.asarray(at.row) + 2 >= ROWS)


def test_priorities_change_where_they_were_drawn() -> None:
    at = Sample(jnp.array([1, 4, 0]), jnp.array([2, 0, 0]), jnp.ones(3))
    ring = set_priorities(filled(6), at, jnp.array([0.5, 7.0, 0.25]))
    wanted = np.ones((ROWS, ENVS))
    wanted[1, 2], wanted[4, 0], wanted[0, 0] = 0.5, 7.0, 0.25
    np.testing.assert_array_equal(ring.priorities, wanted)
    later = add(ring, transition(6))
    np.testing.assert_array_equal(later.priorities[1], [7.0, 7.0, 7.0])


def test_the_largest_priority_decreases_once_it_is_gone() -> None:
    everywhere = Sample(
        jnp.repeat(jnp.arange(ROWS), ENVS), jnp.tile(jnp.arange(ENVS), ROWS), jnp.ones(ROWS * ENVS)
    )
    ring = set_priorities(filled(ROWS), everywhere, jnp.full(ROWS * ENVS, 0.125))
    np.testing.assert_array_equal(add(ring, transition(5)).priorities[0], np.full(ENVS, 0.125))


def test_importance_weights() -> None:
    probability = np.array([0.1, 0.02, 0.5])
    at = Sample(jnp.zeros(3, jnp.int32), jnp.zeros(3, jnp.int32), jnp.asarray(probability, jnp.float32))
    for exponent in [0.0, 0.4, 1.0]:
        wanted = (15 * probability) ** -exponent
        weights = jax.jit(replays.importance)(at, 15, exponent)
        np.testing.assert_allclose(weights, wanted / wanted.max(), rtol=1e-5)


def test_with_full_importance_every_transition_has_the_same_weight() -> None:
    """The weighted frequency of each transition is then the same, however often it was drawn."""
    priorities = jnp.asarray(np.random.default_rng(1).uniform(0.5, 4.0, (ROWS, ENVS)), jnp.float32)
    ring = filled(ROWS).replace(priorities=priorities)
    at = draw(ring, KEY, 30_000, exponent=1.0, lookahead=0)
    weights = np.asarray(replays.importance(at, ROWS * ENVS, 1.0))
    share = np.zeros((ROWS, ENVS))
    np.add.at(share, (np.asarray(at.row), np.asarray(at.env)), weights)
    np.testing.assert_allclose(share / share.mean(), 1.0, atol=0.15)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_priorities_keep_their_proportions(scale: float) -> None:
    priorities = scale * np.arange(1, ROWS * ENVS + 1).reshape(ROWS, ENVS)
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


def test_priority_0_is_never_drawn_from_a_large_ring() -> None:
    """A parallel sum may increase, by rounding, between two transitions of priority 0."""
    rows, rng = 100_000, np.random.default_rng(0)
    priorities = np.where(rng.random((rows, 1)) < 0.5, rng.uniform(0.1, 2.0, (rows, 1)), 0)
    example = jax.tree.map(lambda leaf: leaf[:1], transition(0))
    ring = replays.init(example, rows).replace(
        priorities=jnp.asarray(priorities, jnp.float32), filled=jnp.int32(rows)
    )
    at = draw(ring, KEY, 2_000_000, exponent=1.0, lookahead=0)
    assert np.all(priorities[at.row, at.env] > 0)
    assert np.all(np.asarray(at.probability) > 0)


def test_a_million_transitions_have_the_right_frequencies() -> None:
    """Also those of small priority, for which a float32 sum of all is too coarse."""
    rows, number, small = 1_000_000, 1_000_000, 1e-3
    priorities = np.where(np.arange(rows) % 10 == 0, 1.0, small)
    example = jax.tree.map(lambda leaf: leaf[:1], transition(0))
    ring = replays.init(example, rows).replace(
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
def test_a_ring_needs_two_rows(rows: int) -> None:
    with pytest.raises(
        ValueError, match=f"replay of {rows} rows holds no transition and the one after it: raise"
    ):
        replays.init(transition(0), rows)


@pytest.mark.parametrize(("steps", "expected"), [(2, [1, 0]), (4, [3, 2, 1]), (7, [6, 5, 4])])
def test_the_latest_transitions_come_newest_first(steps: int, expected: list[int]) -> None:
    latest, valid = jax.jit(replays.latest, static_argnames="rows")(filled(steps), rows=3)
    np.testing.assert_array_equal(latest.action[: len(expected), 0], expected)
    np.testing.assert_array_equal(valid.sum(axis=0), [len(expected)] * ENVS)
    assert names(latest)[0, 2] == pytest.approx(steps - 1 + 0.2)


def test_surprise_is_the_sum_of_errors_and_novelty() -> None:
    errors = (jnp.array([1.0, 0.0]), jnp.array([0.5, 0.0]), jnp.array([0.25, 2.0]))
    np.testing.assert_allclose(replays.surprise(*errors), [1.75, 2.0])
    np.testing.assert_allclose(replays.value_error(*errors), [1.0, 0.0])
