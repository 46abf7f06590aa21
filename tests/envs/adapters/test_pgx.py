import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import from_pgx

KEY = jax.random.key(0)


def test_equals_2048_of_pgx():
    pgx = pytest.importorskip("pgx")
    game = pgx.make("2048")
    env = from_pgx(game)
    keys = jax.random.split(KEY, 40)

    def step(states, key):
        ours, theirs = states
        action = jnp.argmax(env.legal(ours)).astype(jnp.int32)
        ours, outcome = env.step(ours, action, key)
        with jax.numpy_rank_promotion("allow"):
            theirs = game.step(theirs, action, key)
        return (ours, theirs), (outcome.reward, theirs.rewards[0], env.observe(ours), theirs.observation)

    (_, _), (ours, theirs, seen, expected) = jax.jit(
        lambda: jax.lax.scan(step, (env.init(KEY), game.init(KEY)), keys)
    )()
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(seen, expected)
    assert ours.sum() > 0
    assert env.num_actions == 4


def test_a_game_for_two_is_refused():
    with pytest.raises(ValueError, match="go_9x9 is a game for 2 players"):
        from_pgx(types.SimpleNamespace(num_players=2, id="go_9x9", init=print, step=print))
