"""Two virtual devices that step simulators at the same time, and wait for each other after every move."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from emcts.envs import from_gymnasium
from emcts.envs.adapters.gymnasium import HostState
from emcts.envs.base import advance
from emcts.types import Key
from tests.envs.adapters.simulators import Wanderer

EPISODES, MOVES = 6, 40


def results(num_devices: int) -> list[np.ndarray]:
    """The rewards of all episodes and their sums over devices, and the last states."""
    env = from_gymnasium(Wanderer)

    def moves(keys: Key) -> tuple[HostState, Array, Array]:
        def move(states: HostState, time: Array) -> tuple[HostState, tuple[Array, Array]]:
            reset_keys = jax.vmap(lambda key: jax.random.fold_in(key, time))(keys)
            actions = (states.time + time) % 3
            _, outcome, states = jax.vmap(functools.partial(advance, env))(states, actions, keys, reset_keys)
            return states, (outcome.reward, jax.lax.psum(outcome.reward.sum(), "data"))

        states, (rewards, sums) = jax.lax.scan(move, jax.vmap(env.init)(keys), jnp.arange(MOVES))
        return states, rewards, sums

    mesh = Mesh(np.array(jax.devices()[:num_devices]), ("data",))
    sharded = jax.shard_map(
        moves, mesh=mesh, in_specs=P("data"), out_specs=(P("data"), P(None, "data"), P()), check_vma=False
    )
    return jax.tree.leaves(jax.device_get(jax.jit(sharded)(jax.random.split(jax.random.key(0), EPISODES))))


if __name__ == "__main__":
    assert len(jax.devices()) == 2
    for one, two in zip(results(1), results(2), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)
    print("equal")
