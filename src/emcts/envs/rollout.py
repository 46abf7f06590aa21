"""Random legal play, kept whole: what the contract is checked on."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.envs.base import AnyEnvironment, Outcome
from emcts.types import Key, Replaceable, record

# A check runs once, so compiling costs more than running: a third of the time with these.
QUICK_TO_COMPILE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@record
class Rollout(Replaceable):
    """Every transition of some episodes, `[episodes, steps, ...]`. Seen and legal: before the action."""

    state: Any
    observation: Any
    legal: Any
    action: Any
    key: Any
    after: Any
    outcome: Outcome


def random_legal_action(legal: Bool[Array, "A"], noise: Float[Array, "A"]) -> Int[Array, ""]:
    """Uniform over the legal actions, given one uniform number for each action."""
    return jnp.argmax(jnp.where(legal, noise, -1.0)).astype(jnp.int32)


def rollout(env: AnyEnvironment, key: Key, *, episodes: int, steps: int) -> Rollout:
    """Plays `steps` actions from the start of each episode, and on past its end."""
    # All keys and noise are drawn here at once: generators inside the loop would dominate its compilation.
    init_key, noise_key, step_key = jax.random.split(key, 3)
    init_keys = jax.random.split(init_key, episodes)
    noise = jax.random.uniform(noise_key, (episodes, steps, env.num_actions))
    step_keys = jax.random.split(step_key, (episodes, steps))

    def step(state: Any, inputs: tuple[Array, Key]) -> tuple[Any, Rollout]:
        noise, key = inputs
        legal = env.legal(state)
        action = random_legal_action(legal, noise)
        after, outcome = env.step(state, action, key)
        return after, Rollout(state, env.observe(state), legal, action, key, after, outcome)

    def play(init_key: Key, noise: Array, step_keys: Key) -> Rollout:
        return jax.lax.scan(step, env.init(init_key), (noise, step_keys))[1]

    return jax.jit(jax.vmap(play), compiler_options=QUICK_TO_COMPILE)(init_keys, noise, step_keys)
