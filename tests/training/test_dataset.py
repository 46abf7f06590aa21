"""Datasets: the order of transitions, where they are cut, and how they are laid out again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.training.dataset import in_order, laid_out
from emcts.training.replay import StoredTransition


def ring(rows: int, num_envs: int, ends: tuple[int, ...] = ()) -> StoredTransition:
    """Transitions [T, E] whose states are their numbers in the order in which they were stored."""
    numbers = np.arange(rows * num_envs).reshape(rows, num_envs)
    return StoredTransition(
        state=numbers,
        action=jnp.asarray(numbers % 3),
        reward=jnp.asarray(numbers / 10),
        terminated=jnp.asarray(np.isin(numbers, ends)),
        truncated=jnp.zeros((rows, num_envs), bool),
        policy=jnp.zeros((rows, num_envs, 3)),
    )


def rolled(stored: StoredTransition, by: int) -> StoredTransition:
    rolled: StoredTransition = jax.tree.map(lambda leaf: jnp.roll(leaf, by, axis=0), stored)
    return rolled


def first(rows: int, of: int) -> np.ndarray:
    """The places of two parallel episodes where a transition is stored."""
    return np.arange(of)[:, None].repeat(2, axis=1) < rows


def test_transitions_are_in_order_one_episode_after_the_other() -> None:
    flat = in_order(ring(4, 2, ends=(6,)), first(3, of=4), cursor=3)
    np.testing.assert_array_equal(flat.state, [0, 2, 4, 1, 3, 5])
    np.testing.assert_array_equal(flat.truncated, [0, 0, 1, 0, 0, 1])
    np.testing.assert_allclose(flat.reward, flat.state / 10)


def test_a_full_ring_begins_at_its_cursor() -> None:
    flat = in_order(rolled(ring(4, 2, ends=(6,)), 1), first(4, of=4), cursor=1)
    np.testing.assert_array_equal(flat.state, [0, 2, 4, 6, 1, 3, 5, 7])
    np.testing.assert_array_equal(flat.truncated, [0, 0, 0, 0, 0, 0, 0, 1])  # 6 ended its episode


@pytest.mark.parametrize(("steps", "states"), [(1, [0]), (3, [0, 2, 1]), (4, [0, 2, 1, 3]), (8, None)])
def test_the_first_transitions_are_the_oldest_of_all_episodes(steps: int, states: list[int] | None) -> None:
    flat = in_order(ring(4, 2), first(4, of=4), cursor=0, steps=steps)
    assert sorted(flat.state) == list(range(steps))
    if states is not None:
        np.testing.assert_array_equal(flat.state, states)


def test_places_without_a_transition_are_left_out() -> None:
    """Those behind the dataset of a run that learned from another one itself."""
    stored = first(3, of=5)
    stored[2, 1] = False
    flat = in_order(ring(5, 2), stored, cursor=4)
    np.testing.assert_array_equal(flat.state, [0, 2, 4, 1, 3])
    np.testing.assert_array_equal(flat.truncated, [0, 0, 1, 0, 1])


def test_more_transitions_than_there_are_are_refused() -> None:
    for steps in (0, 7):
        with pytest.raises(ValueError, match="holds 6 transitions"):
            in_order(ring(4, 2), first(3, of=4), cursor=3, steps=steps)


def test_the_same_number_of_episodes_keeps_them_as_they_are() -> None:
    stored = ring(4, 2, ends=(6,))
    dataset = laid_out(in_order(stored, first(4, of=4), cursor=0), 2)
    assert dataset.valid.all()
    np.testing.assert_array_equal(dataset.transitions.state, stored.state)
    np.testing.assert_array_equal(dataset.transitions.truncated[:-1], False)
    np.testing.assert_array_equal(dataset.transitions.truncated[-1], [False, True])


def test_another_number_of_episodes_has_every_transition_once() -> None:
    dataset = laid_out(in_order(ring(5, 2, ends=(4,)), first(5, of=5), cursor=0), 3)
    states, cut = dataset.transitions.state, dataset.transitions.truncated
    assert dataset.valid.shape == (4, 3)
    assert sorted(states[dataset.valid]) == list(range(10))
    for env in range(3):
        rows = np.flatnonzero(dataset.valid[:, env])
        assert cut[rows[-1], env]
        for row in rows[:-1]:  # what follows is the next of the same episode, unless it was cut off there
            assert cut[row, env] or states[row + 1, env] == states[row, env] + 2


def test_fewer_transitions_than_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 transitions .* lower schedule.num_envs to 2"):
        laid_out(in_order(ring(2, 1), np.ones((2, 1), bool), cursor=0), 3)
