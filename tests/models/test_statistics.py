"""Statistics inside networks: what they follow, and what leaves them as they are."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from emcts.models.codecs import Categorical
from emcts.models.networks import HeadSpec, Networks, vector_networks
from emcts.models.statistics import (
    RewardRange,
    new_statistics,
    reward_range,
    update_statistics,
    with_statistics,
)

HEADS = HeadSpec(2, Categorical(10), bounded=False, ube=True, exploration=False)
KEY = jax.random.key(0)


def networks(*, follow_rewards: bool = True) -> Networks:
    made = vector_networks(3, HEADS, widths=(4,), key=KEY)
    return with_statistics(made, new_statistics(follow_rewards=follow_rewards))


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [([0.0, 0.0], 1.0), ([-1.0, -1.0], 1.0), ([0.0, 10.0], 10.0), ([-0.01, 10.0], 10.01), ([0.5, 0.01], 0.5)],
)
def test_the_range_spans_the_rewards_and_zero(rewards: list[float], expected: float) -> None:
    start = RewardRange(jnp.zeros(()), jnp.zeros(()))
    one_by_one = start
    for reward in rewards:
        one_by_one = one_by_one.update(jnp.array([reward]))
    for seen in (start.update(jnp.array(rewards)), one_by_one):
        np.testing.assert_allclose(seen.size, expected, rtol=1e-6)


def test_a_given_range_is_taken_and_a_missing_one_is_named() -> None:
    plain = networks(follow_rewards=False)
    assert plain.statistics is None
    assert reward_range(plain, 7.0) == 7.0
    assert update_statistics(plain, jnp.array([5.0])) is plain
    with pytest.raises(ValueError, match="follow_rewards"):
        reward_range(plain, None)


def test_seeds_follow_their_own_rewards() -> None:
    stacked = jax.vmap(lambda _: networks())(jnp.arange(2))
    seen = jax.jit(jax.vmap(update_statistics))(stacked, jnp.array([[0.0, 3.0], [-2.0, 1.0]]))
    ranges = jax.vmap(lambda one: reward_range(one, None))(seen)
    np.testing.assert_array_equal(ranges, [3, 3])
    np.testing.assert_array_equal(seen.statistics.rewards.low, [0, -2])


def test_the_range_has_no_gradient() -> None:
    seen = update_statistics(networks(), jnp.array([2.0]))
    gradient = jax.grad(lambda one: jnp.sum(reward_range(one, None) ** 2))(seen)
    assert all(not leaf.any() for leaf in jax.tree.leaves(gradient))


def test_statistics_are_put_back_after_an_optimiser_changed_them() -> None:
    before = update_statistics(networks(), jnp.array([2.0]))
    decay = optax.adamw(1e-1, weight_decay=1.0)
    changes, _ = decay.update(jax.tree.map(jnp.zeros_like, before), decay.init(before), before)
    decayed = optax.apply_updates(before, changes)
    assert float(reward_range(decayed, None)) < 2
    kept = with_statistics(decayed, before.statistics)
    assert float(reward_range(kept, None)) == 2
    first = jax.tree.leaves(kept.value)[0]
    np.testing.assert_array_equal(first, jax.tree.leaves(decayed.value)[0])
