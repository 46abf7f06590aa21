"""The search of examples/two_players.py against minimax."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import two_players

Board = tuple[int, ...]
LINES = [tuple(map(int, line)) for line in np.asarray(two_players.LINES)]


@functools.cache
def minimax(board: Board) -> int:
    """The value of a board for the player to move."""
    return max((value for value in _values(board).values()), default=0)


@functools.cache
def _values(board: Board) -> dict[int, int]:
    found = {}
    for cell in [cell for cell in range(9) if board[cell] == 0]:
        after = tuple(1 if one == cell else mark for one, mark in enumerate(board))
        won = any(all(after[one] == 1 for one in line) for line in LINES)
        found[cell] = 1 if won else -minimax(tuple(-mark for mark in after))
    return found


def boards(number: int) -> list[Board]:
    """Boards on which some moves are better than others, after two to five random moves."""
    rng = np.random.default_rng(0)
    found: list[Board] = []
    while len(found) < number:
        board: Board = (0,) * 9
        for _ in range(int(rng.integers(2, 6))):
            cell = int(rng.choice([cell for cell in range(9) if board[cell] == 0]))
            board = tuple(-1 if one == cell else -mark for one, mark in enumerate(board))
        over = any(abs(sum(board[one] for one in line)) == 3 for line in LINES)
        if not over and len(set(_values(board).values())) > 1:
            found.append(board)
    return found


def test_moves_are_those_of_minimax() -> None:
    states = boards(40)
    out = jax.jit(functools.partial(two_players.search, num_simulations=1500))(
        jax.random.key(0), jnp.array(states)
    )
    for board, action in zip(states, np.asarray(out.action), strict=True):
        assert _values(board)[int(action)] == minimax(board), board


@pytest.mark.parametrize(
    ("board", "cell"), [((1, 1, 0, -1, -1, 0, 0, 0, 0), 2), ((-1, -1, 0, 1, 0, 0, 1, 0, 0), 2)]
)
def test_it_wins_where_it_can_and_blocks_where_it_must(board: Board, cell: int) -> None:
    out = two_players.search(jax.random.key(1), jnp.array([board]))
    assert int(out.action[0]) == cell


def test_it_does_not_lose_to_random_moves() -> None:
    result = np.asarray(two_players.results(jax.random.key(2), games=16))
    assert (result >= 0).all()
    assert (result == 1).sum() >= 12
