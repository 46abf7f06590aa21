"""Random states, as a sample of those to come."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from emcts.envs import DeepSea, Outcome
from emcts.envs.rollout import random_states
from emcts.types import Key, Replaceable, record

KEY = jax.random.key(0)


@record
class LineState(Replaceable):
    place: Int[Array, ""]
    over: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class Line:
    """Steps to the left and to the right, from 100 or 200 on; the third action is never legal. It ends at `end`."""

    end: int = 10_000

    @property
    def num_actions(self) -> int:
        return 3

    def init(self, key: Key) -> LineState:
        return LineState(100 * jax.random.randint(key, (), 1, 3), jnp.bool_(False))

    def step(self, state: LineState, action: Int[Array, ""], key: Key) -> tuple[LineState, Outcome]:
        move = jnp.where(action == 2, 100_000, 2 * action - 1)
        place = state.place + jnp.where(state.over, 0, move)
        after = LineState(place, state.over | (place >= self.end))
        return after, Outcome(jnp.float32(0), after.over, jnp.bool_(False))

    def observe(self, state: LineState) -> Array:
        return state.place[None].astype(jnp.float32)

    def legal(self, state: LineState) -> Bool[Array, "3"]:
        return jnp.array([True, True, False])


def test_states_are_those_of_legal_actions() -> None:
    sample = jax.jit(lambda key: random_states(Line(), key))
    states = sample(KEY)
    place = np.asarray(states.place)
    assert place.shape == (16 * 128 // 8,)
    assert 0 <= place.min() < 100
    assert 200 < place.max() <= 328, "the third action is illegal"
    np.testing.assert_array_equal(place, sample(KEY).place)
    assert np.any(place != sample(jax.random.key(1)).place)


def test_actions_are_repeated_in_some_episodes() -> None:
    """An episode of single random actions is soon about 11 from its start, one of actions for eight steps about 32."""
    places = jax.vmap(lambda key: random_states(Line(), key).place)(jax.random.split(KEY, 8))
    place = np.asarray(places).reshape(8, 16, 16)
    moved = np.sqrt(np.mean((place - np.round(place / 100) * 100)[:, :, -1] ** 2, axis=0))
    assert moved[3::4].mean() > 2 * moved[::4].mean()


def test_an_episode_that_is_over_starts_again() -> None:
    states = jax.jit(lambda: random_states(Line(end=203), KEY))()
    assert not states.over.any()
    assert states.place.max() < 203
    rows = random_states(DeepSea(3, seed=0), KEY, episodes=2, steps=10, every=1).row
    np.testing.assert_array_equal(rows, [1, 2, 0] * 3 + [1] + [1, 2, 0] * 3 + [1])


def test_a_sample_can_be_traced() -> None:
    shapes = jax.eval_shape(lambda key: random_states(Line(), key, episodes=3, steps=7, every=2), KEY)
    assert shapes.place.shape == (3 * 3,)
