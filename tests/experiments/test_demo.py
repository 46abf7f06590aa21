"""The demo's parts: its Bellman equation by hand, and who finds the treasure."""

import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import DeepSea
from emcts.experiments.demo import DISCOUNT, Demo, dive, uncertainty


def test_uncertainty_solves_its_bellman_equation() -> None:
    env = DeepSea(2, seed=None)  # action 1 means right
    novelty = jnp.arange(1.0, 9.0).reshape(4, 2)
    doubt = uncertainty(env, novelty)
    last_row = np.array([max(5, 6), max(7, 8)])
    g = DISCOUNT**2
    first_row = np.array([max(1 + g * last_row[0], 2 + g * last_row[1]), max(3 + g * last_row[0], 4)])
    np.testing.assert_allclose(doubt, [*first_row, *last_row], rtol=1e-6)


def test_who_finds_the_treasure() -> None:
    dives = dive(Demo(size=10, simulations=24, episodes=40))
    assert dives.found[0] == 0
    assert 0 < dives.found[1] <= 40
    np.testing.assert_array_equal(dives.visits.sum(axis=(1, 2)), dives.episodes * 10)


@pytest.mark.parametrize("bad", [{"size": 1}, {"episodes": 0}, {"simulations": 0}])
def test_bad_settings(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="size|episodes|simulations"):
        Demo(**bad)
