"""Environments for each seed."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from emcts.agents.builtin_tasks import DeepSeaFactory
from emcts.envs import DeepSea
from emcts.training.env_factory import SharedEnv

KEY = jax.random.key(0)


def test_each_seed_has_the_action_map_of_that_seed() -> None:
    factory = DeepSeaFactory(5)
    params = jnp.stack([factory.params(seed) for seed in (0, 7)])
    actions = jnp.asarray(np.random.default_rng(0).integers(0, 2, 5), jnp.int32)

    def play(env: DeepSea) -> PyTree:
        def step(state: PyTree, action: jax.Array) -> tuple[PyTree, PyTree]:
            after, outcome = env.step(state, action, KEY)
            return after, (after, outcome)

        return jax.lax.scan(step, env.init(KEY), actions)[1]

    mapped = jax.jit(jax.vmap(lambda one: play(factory.make(one))))(params)
    for place, seed in enumerate((0, 7)):
        alone = jax.jit(lambda seed=seed: play(DeepSea(5, seed)))()
        for one, other in zip(jax.tree.leaves(mapped), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(one[place], other)
    assert not np.array_equal(mapped[0].column[0], mapped[0].column[1])


def test_one_environment_for_all_seeds() -> None:
    env = DeepSea(3)
    factory = SharedEnv(env)
    assert factory.make(factory.params(4)) is factory.example is env
