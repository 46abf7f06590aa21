"""What a batch seldom holds: Adam moves it as far for a small error as for a large one, unless its epsilon is large."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents import deep_sea

PAIRS = 8
UPDATES = 200


def error_of_rare(epsilon: float) -> float:
    """RND's, after updates in which one transition fills the batch but for a single other."""
    settings = deep_sea.SeaSettings(novelty_epsilon=epsilon)
    rnd = deep_sea.distilled(settings, PAIRS, finite=True)
    rare = jax.random.randint(jax.random.key(1), (UPDATES, 1), 1, PAIRS)
    batches = jnp.pad(rare, ((0, 0), (0, 15)))
    mask = jnp.ones(16, bool)
    state, _ = jax.lax.scan(
        lambda state, batch: (rnd.update(state, batch, mask), None), rnd.init(jax.random.key(0)), batches
    )
    return float(np.mean(jax.vmap(rnd.variance, (None, 0))(state, jnp.arange(1, PAIRS))))


def test_a_large_epsilon_lets_rnd_learn_the_rare() -> None:
    assert error_of_rare(0.01) < 0.01 * error_of_rare(1e-8)


def test_an_epsilon_that_divides_by_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"novelty_epsilon is 0\.0: give a positive number"):
        deep_sea.novelty_optimiser(deep_sea.SeaSettings(novelty_epsilon=0.0))
