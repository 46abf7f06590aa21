import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import MinAtar
from emcts.envs.minatar import GAMES

KEY = jax.random.key(0)


def last_action(env, first, second, keys):
    """The action that the game carried out when `first` was followed by `second`, for each key."""
    state, _ = env.step(env.init(KEY), jnp.int32(first), KEY)
    return jax.vmap(lambda key: env.step(state, jnp.int32(second), key)[0]._last_action)(keys)


@pytest.mark.parametrize(("sticky", "repeated"), [(0.0, 0.0), (0.1, 0.1), (1.0, 1.0)])
def test_sticky_actions_repeat_the_last(sticky, repeated):
    pytest.importorskip("pgx")
    # In Breakout 1 is left, and 2 (the minimal set's name for 3) right; the game starts with 0 as the last.
    before = 1 if sticky < 1 else 0
    env = MinAtar("breakout", sticky_action_prob=sticky)
    carried_out = jax.jit(lambda keys: last_action(env, before, 2, keys))(jax.random.split(KEY, 10_000))
    np.testing.assert_allclose((carried_out == before).mean(), repeated, atol=0.02)
    np.testing.assert_allclose((carried_out == 3).mean(), 1 - repeated, atol=0.02)


@pytest.mark.parametrize("game", ["breakout", "space_invaders"])
def test_equals_pgx_step_by_step(game):
    pgx = pytest.importorskip("pgx")
    env, theirs = MinAtar(game), pgx.make(f"minatar-{game}")
    keys = jax.random.split(KEY, 200)
    actions = jax.random.randint(KEY, (200,), 0, env.num_actions)

    def ours_step(state, inputs):
        state, outcome = env.step(state, *inputs)
        return state, (env.observe(state), outcome.reward, outcome.terminated)

    def their_step(state, inputs):
        state = theirs.step(state, *inputs)
        return state, (state.observation, state.rewards[0], state.terminated)

    ours = jax.jit(lambda: jax.lax.scan(ours_step, env.init(KEY), (actions, keys))[1])()
    with jax.numpy_rank_promotion("allow"):
        expected = jax.jit(lambda: jax.lax.scan(their_step, theirs.init(KEY), (actions, keys))[1])()
    jax.tree.map(np.testing.assert_array_equal, ours, expected)
    assert ours[1].sum() > 0
    assert ours[2].any()


def test_freeway_ends_by_itself_and_earlier_at_a_limit():
    pytest.importorskip("pgx")

    def ends(env, steps):
        def step(state, key):
            return env.step(state, jnp.int32(0), key)

        outcome = jax.jit(lambda: jax.lax.scan(step, env.init(KEY), jax.random.split(KEY, steps))[1])()
        first = int(np.argmax(outcome.over)) + 1
        return first, bool(outcome.terminated[-1]), bool(outcome.truncated[-1])

    assert ends(MinAtar("freeway"), 2510) == (2501, True, False)
    assert ends(MinAtar("freeway", max_steps=100), 110) == (100, False, True)


def test_action_sets():
    pytest.importorskip("pgx")
    assert [MinAtar(game).num_actions for game in GAMES] == [5, 3, 3, 6, 4]
    assert {MinAtar(game, minimal_actions=False).num_actions for game in GAMES} == {6}


@pytest.mark.parametrize(
    ("given", "meant"),
    [("breakot", "breakout"), ("space-invaders", "space_invaders"), ("Freeway", "freeway")],
)
def test_unknown_game_suggests_the_nearest(given, meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'.*asterix, breakout"):
        MinAtar(given)


def test_unknown_game_far_from_all():
    with pytest.raises(ValueError, match="unknown MinAtar game 'xyzzy': Choose one of"):
        MinAtar("xyzzy")


@pytest.mark.parametrize("probability", [-0.1, 1.5])
def test_sticky_probability_out_of_range(probability):
    with pytest.raises(ValueError, match="0 to 1"):
        MinAtar("breakout", sticky_action_prob=probability)


def test_bad_limit_shows_at_once():
    pytest.importorskip("pgx")
    with pytest.raises(ValueError, match="time limit of 0"):
        MinAtar("breakout", max_steps=0)


def test_without_pgx_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pgx", None)
    monkeypatch.setitem(sys.modules, "pgx.minatar.breakout", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "emcts\[minatar\]".*GPL'):
        MinAtar("breakout")
