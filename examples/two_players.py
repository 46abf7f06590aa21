"""Two players, by a discount of -1: a search plays tic-tac-toe against a player that takes random moves.

A value is that of the player to move. What is good for the next player is bad for this one, so each step has the
discount -1, or 0 if it ends the game. Epistemic variance is the same for both: it is multiplied by the squared
discount, and `beta` above 0 makes both players try what is uncertain.

python examples/two_players.py
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

import emcts
from emcts.types import Key, Params, RecurrentFnOutput, RootFnOutput

LINES = jnp.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
GAMES, SIMULATIONS = 64, 200

Board = Int[Array, "*B 9"]  # 1 for the player to move, -1 for the other, 0 for an empty cell


def play(board: Board, cell: Int[Array, "*B"]) -> tuple[Board, Bool[Array, "*B"], Bool[Array, "*B"]]:
    """Returns the board as the next player sees it, whether the move won, and whether the game is over."""
    after = jnp.where(jax.nn.one_hot(cell, 9, dtype=jnp.int32) == 1, 1, board)
    won = jnp.any(jnp.all(after[..., LINES] == 1, axis=-1), axis=-1)
    return -after, won, won | jnp.all(after != 0, axis=-1)


def logits(board: Board) -> Float[Array, "*B 9"]:
    """No prior but the rules: a cell that is taken does not exist."""
    return jnp.where(board == 0, 0.0, -jnp.inf)


def recurrent_fn(
    params: Params, key: Key, cell: Int[Array, "B"], board: Board
) -> tuple[RecurrentFnOutput, Board]:
    after, won, over = play(board, cell)
    nothing = jnp.zeros(cell.shape)
    # The logits of a board that is over are not used, but all of them must not be -inf.
    step = RecurrentFnOutput(
        reward=won.astype(jnp.float32),
        discount=jnp.where(over, 0.0, -1.0),
        prior_logits=jnp.where(over[:, None], 0.0, logits(after)),
        value=nothing,
    )
    return step, after


def search(
    key: Key, board: Board, num_simulations: int = SIMULATIONS
) -> emcts.PolicyOutput[emcts.Tree[None]]:
    root = RootFnOutput(prior_logits=logits(board), value=jnp.zeros(board.shape[:1]), embedding=board)
    return emcts.uct_policy(None, key, root, recurrent_fn, num_simulations, invalid_actions=board != 0)


def results(key: Key, games: int = GAMES) -> Float[Array, "G"]:
    """Plays games, the search first, against random moves: 1 for a win of the search, -1 for a loss, 0 for a draw."""

    def move(
        carry: tuple[Board, Array, Array], inputs: tuple[Key, Array]
    ) -> tuple[tuple[Board, Array, Array], None]:
        board, result, finished = carry
        key, searches = inputs
        search_key, random_key = jax.random.split(key)
        best = search(search_key, jnp.where(finished[:, None], 0, board)).action
        cell = jnp.where(searches, best, jax.random.categorical(random_key, logits(board)))
        after, won, over = play(board, cell)
        sign = jnp.where(searches, 1.0, -1.0)
        result = jnp.where(won & ~finished, sign, result)
        return (jnp.where(finished[:, None], board, after), result, finished | over), None

    start = (jnp.zeros((games, 9), jnp.int32), jnp.zeros(games), jnp.zeros(games, bool))
    turns = (jax.random.split(key, 9), jnp.arange(9) % 2 == 0)
    (_, result, _), _ = jax.jit(lambda: jax.lax.scan(move, start, turns))()
    return result


def main() -> None:
    result = results(jax.random.key(0))
    wins, draws, losses = (int(jnp.sum(result == outcome)) for outcome in (1, 0, -1))
    print(f"{GAMES} games, the search moves first: won {wins}, drawn {draws}, lost {losses}")
    board = jnp.array([[1, 1, 0, -1, -1, 0, 0, 0, 0]])
    print(search(jax.random.key(0), board).search_tree.to_text(depth=1))


if __name__ == "__main__":
    main()
