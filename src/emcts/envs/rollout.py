"""Rollouts of random legal actions: checks of the contract, a sample of the states to come, returns to beat."""

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Generic

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import Environment, Outcome, State, tree_where
from emcts.types import Key, Replaceable, record

# A check runs once, so compiling costs more than running: a third of the time with these.
QUICK_TO_COMPILE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
BLOCK = 64  # steps of random episodes in one program


@record
class Randomness(Replaceable):
    """All that is random in a rollout, drawn before it: generators inside its loop would dominate its compilation."""

    init_keys: Key  # [episodes]
    noise: Float[Array, "E T A"]
    step_keys: Key  # [episodes, steps]


@record
class Rollout(Replaceable, Generic[State]):
    """All transitions of some episodes, `[episodes, steps, ...]`. `observation` and `legal` are those of `state`."""

    state: State
    observation: PyTree
    legal: Array
    action: Array
    key: Key
    after: State
    outcome: Outcome


def draw(key: Key, num_actions: int, *, episodes: int, steps: int) -> Randomness:
    init_key, noise_key, step_key = jax.random.split(key, 3)
    return Randomness(
        init_keys=jax.random.split(init_key, episodes),
        noise=jax.random.uniform(noise_key, (episodes, steps, num_actions)),
        step_keys=jax.random.split(step_key, (episodes, steps)),
    )


def random_legal_action(legal: Bool[Array, "A"], noise: Float[Array, "A"]) -> Int[Array, ""]:
    """Uniform over the legal actions, given one uniform number for each action."""
    return jnp.argmax(jnp.where(legal, noise, -1.0)).astype(jnp.int32)


def compiled_rollout(env: Environment[State]) -> Callable[[Randomness], Rollout[State]]:
    """A function that takes steps from the start of each episode, and on past its end."""

    def episode(random: Randomness) -> Rollout[State]:
        return _play(env, env.init(random.init_keys), random)[1]

    return jax.jit(jax.vmap(episode), compiler_options=QUICK_TO_COMPILE)


def random_blocks(
    env: Environment[State], key: Key, *, episodes: int, steps: int
) -> Iterator[Rollout[State]]:
    """One rollout without an end, in blocks of `steps`: it takes the memory of one block."""
    play = jax.jit(jax.vmap(functools.partial(_play, env)), compiler_options=QUICK_TO_COMPILE)
    init = jax.jit(jax.vmap(env.init), compiler_options=QUICK_TO_COMPILE)
    states = init(draw(key, env.num_actions, episodes=episodes, steps=steps).init_keys)
    for number in itertools.count():
        random = draw(jax.random.fold_in(key, number), env.num_actions, episodes=episodes, steps=steps)
        states, played = play(states, random)
        yield played


def _play(env: Environment[State], state: State, random: Randomness) -> tuple[State, Rollout[State]]:
    """Takes random legal actions in one episode."""

    def step(state: State, inputs: tuple[Array, Key]) -> tuple[State, Rollout[State]]:
        noise, key = inputs
        legal = env.legal(state)
        action = random_legal_action(legal, noise)
        after, outcome = env.step(state, action, key)
        return after, Rollout(state, env.observe(state), legal, action, key, after, outcome)

    return jax.lax.scan(step, state, (random.noise, random.step_keys))


def random_states(
    env: Environment[State], key: Key, *, episodes: int = 16, steps: int = 128, every: int = 8
) -> State:
    """States of random legal actions, `[episodes * (steps // every)]`; an episode that is over starts again.

    Actions are repeated for 1, 2, 4 or 8 steps, as the episode has it: where a step changes little, single random ones
    stay near the start.
    """
    random = draw(key, env.num_actions, episodes=episodes, steps=steps)
    repeats = 2 ** (jnp.arange(episodes) % 4)

    def episode(random: Randomness, repeats: Int[Array, ""]) -> State:
        first = env.init(random.init_keys)
        number = jnp.arange(steps)
        noise = random.noise[number - number % repeats]

        def step(state: State, inputs: tuple[Array, Key]) -> tuple[State, None]:
            noise, key = inputs
            after, outcome = env.step(state, random_legal_action(env.legal(state), noise), key)
            return tree_where(outcome.over, first, after), None

        def block(state: State, inputs: tuple[Array, Key]) -> tuple[State, State]:
            state, _ = jax.lax.scan(step, state, inputs)
            return state, state

        blocks = jax.tree.map(
            lambda leaf: leaf[: steps - steps % every].reshape(-1, every, *leaf.shape[1:]),
            (noise, random.step_keys),
        )
        return jax.lax.scan(block, first, blocks)[1]

    states = jax.vmap(episode)(random, repeats)
    return jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2), states)


@record
class _Running(Replaceable, Generic[State]):
    state: State
    over: Bool[Array, "E"]
    episode_return: Float[Array, "E"]


def random_returns(
    env: Environment[State], key: Key, *, episodes: int, max_steps: int, seconds: float
) -> Float[np.ndarray, "E"]:
    """Returns of episodes of random legal actions, of those that end within so many steps and seconds; else of all."""
    init_key, play_key = jax.random.split(key)
    block = min(max_steps, BLOCK)

    def step(carry: _Running[State], key: Key) -> tuple[_Running[State], None]:
        noise_key, step_key = jax.random.split(key)
        legal = jax.vmap(env.legal)(carry.state)
        action = jax.vmap(random_legal_action)(legal, jax.random.uniform(noise_key, legal.shape))
        after, outcome = jax.vmap(env.step)(carry.state, action, jax.random.split(step_key, episodes))
        # A sum in the order in which acting adds rewards up.
        reward = jnp.where(carry.over, 0.0, outcome.reward)
        return _Running(after, carry.over | outcome.over, carry.episode_return + reward), None

    @functools.partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
    def play(carry: _Running[State], key: Key) -> _Running[State]:
        return jax.lax.scan(step, carry, jax.random.split(key, block))[0]

    start = jax.vmap(env.init)(jax.random.split(init_key, episodes))
    running = _Running(start, jnp.zeros(episodes, bool), jnp.zeros(episodes))
    began, played = time.monotonic(), 0
    while played < max_steps and not running.over.all() and time.monotonic() - began < seconds:
        running = play(running, jax.random.fold_in(play_key, played))
        played += block
    ended, returns = np.asarray(running.over), np.asarray(running.episode_return)
    return returns[ended] if ended.any() else returns
