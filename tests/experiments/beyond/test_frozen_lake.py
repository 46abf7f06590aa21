"""The lake of the experiment is Gymnasium's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import check
from emcts.experiments.beyond.frozen_lake import MAPS, FrozenLake


@pytest.mark.parametrize("slippery", [False, True])
@pytest.mark.parametrize("size", MAPS)
def test_its_transitions_are_those_of_gymnasium(size: int, slippery: bool) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    table = gymnasium.make("FrozenLake-v1", map_name=f"{size}x{size}", is_slippery=slippery).unwrapped.P
    lake = FrozenLake(size, slippery)
    for cell in lake.ice:
        for action in range(4):
            wanted: dict[int, float] = {}
            for probability, after, reward, over in table[cell][action]:
                wanted[after] = wanted.get(after, 0.0) + probability
                assert reward == (after == lake.goal)
                assert over == (after not in lake.ice)
            found, counts = np.unique(lake.transitions[cell, action], return_counts=True)
            assert dict(zip(found.tolist(), counts / 3, strict=True)) == pytest.approx(wanted)


def test_it_follows_the_rules_and_its_numbers_come_back() -> None:
    lake = FrozenLake(4)
    check(lake)
    for index in range(lake.num_states):
        assert int(lake.index(lake.state_at(jnp.int32(index)))) == index
    with pytest.raises(ValueError, match="give 4 or 8"):
        FrozenLake(5)


def test_the_optimal_values_are_known() -> None:
    """Of the slippery lake of 4 x 4, from the start: 0.82 without discount, as is well known."""
    values = FrozenLake(4).optimal_qvalues(1.0).max(axis=1)
    assert values[0] == pytest.approx(14 / 17, abs=1e-3)
    straight = FrozenLake(8, slippery=False).optimal_qvalues(0.9).max(axis=1)
    assert straight[0] == pytest.approx(0.9**13)
    assert jax.tree.leaves(FrozenLake(4).init(jax.random.key(0)))[0] == 0
