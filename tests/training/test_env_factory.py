"""Environments of seeds: the same for all, or one for each seed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from emcts.agents.builtin_tasks import DeepSeaFactory
from emcts.envs import DeepSea
from emcts.training.env_factory import EnvFactory, SharedEnv

KEY = jax.random.key(0)


def test_each_seed_has_its_own_action_map() -> None:
    """Under `vmap` over the parameters, it is Deep Sea of that seed."""
    factory = DeepSeaFactory(5)
    assert isinstance(factory, EnvFactory)
    maps = jnp.stack([jnp.asarray(factory.params(seed)) for seed in (0, 7)])
    actions = jnp.asarray(np.random.default_rng(0).integers(0, 2, 5), jnp.int32)

    def play(env: Any) -> Any:
        def step(state: Any, action: Any) -> Any:
            after, outcome = env.step(state, action, KEY)
            return after, (after, outcome)

        return jax.lax.scan(step, env.init(KEY), actions)[1]

    mapped = jax.jit(jax.vmap(lambda params: play(factory.make(params))))(maps)
    for place, seed in enumerate((0, 7)):
        alone = jax.jit(lambda seed=seed: play(DeepSea(5, seed)))()
        for one, other in zip(jax.tree.leaves(mapped), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(one[place], other)
    assert not np.array_equal(mapped[0].column[0], mapped[0].column[1])


def test_a_shared_environment_is_the_same_for_every_seed() -> None:
    env = DeepSea(3)
    factory = SharedEnv(env)
    assert isinstance(factory, EnvFactory)
    assert factory.make(factory.params(4)) is factory.make(factory.params(5)) is factory.example is env
