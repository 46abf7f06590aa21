"""Episodes of agents that learned offline: which steps leave the dataset, and the best return within it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.mcts.offline import OfflineLearner
from emcts.agents.mcts.state import TrainState
from emcts.envs.base import FiniteEnvironment, tree_where, unpack_state
from emcts.models.evaluators import all_states
from emcts.types import Key, Replaceable, record

DRAWS = 4096
"""Of each random step, from which the probabilities of its outcomes are read."""


@record
class EvaluatedEpisodes(Replaceable):
    """What evaluation episodes did [E], and the search at the first of their states."""

    episode_return: Float[Array, "E"]
    unseen_steps: Float[Array, "E"]  # that the dataset does not have
    start_value: Float[Array, "E"]
    start_std: Float[Array, "E"]


def play(
    learner: OfflineLearner, state: TrainState, key: Key, *, episodes: int, beta: Any
) -> EvaluatedEpisodes:
    """Plays episodes of one seed, by what evaluation does in each state: one search of it."""
    env: Any = learner.env(state.env_params)
    counts = pair_counts(learner, state)
    start_key, search_key, policy_key, steps_key = jax.random.split(key, 4)
    table = learner.policy(state, beta=beta)(policy_key, all_states(env))
    start = jax.vmap(env.init)(jax.random.split(start_key, episodes))
    summary = learner.search(state, search_key, start, beta=beta).search_tree.summary()

    def step(
        carry: tuple[PyTree, Bool[Array, "E"], Float[Array, "E"], Float[Array, "E"]], key: Key
    ) -> tuple[tuple[PyTree, Bool[Array, "E"], Float[Array, "E"], Float[Array, "E"]], None]:
        states, over, total, unseen = carry
        index = jax.vmap(env.index)(states)
        actions = table.at[index].get(mode="clip")
        new = counts.at[index, actions].get(mode="clip") == 0
        after, outcome = jax.vmap(env.step)(states, actions, jax.random.split(key, episodes))
        total = total + jnp.where(over, 0.0, outcome.reward)
        unseen = unseen + (new & ~over)
        states = jax.vmap(tree_where)(over, states, after)
        return (states, over | outcome.over, total, unseen), None

    zeros = jnp.zeros(episodes)
    carry = (start, jnp.zeros(episodes, bool), zeros, zeros)
    (_, _, total, unseen), _ = jax.lax.scan(
        step, carry, jax.random.split(steps_key, learner.evaluation.max_steps)
    )
    return EvaluatedEpisodes(total, unseen, summary.value, summary.value_std)


def pair_counts(learner: OfflineLearner, state: TrainState) -> Int[Array, "N A"]:
    """Returns how often the dataset of a seed has each action in each state of a finite environment."""
    env, stored = learner.env(state.env_params), state.replay.transitions
    assert isinstance(env, FiniteEnvironment)
    states = jax.vmap(jax.vmap(lambda one: env.index(unpack_state(env, one))))(stored.state)
    there = (state.replay.priorities > 0).astype(jnp.int32)
    return (
        jnp.zeros((env.num_states, env.num_actions), jnp.int32)
        .at[states, stored.action]
        .add(there, mode="drop")
    )


def best_within(env: FiniteEnvironment[Any], allowed: Bool[np.ndarray, "N A"], max_steps: int) -> float:
    """Returns the best expected return of an episode of at most `max_steps` that only takes allowed actions.

    A state without one is worth nothing. Outcomes of a step are read from several draws of it.
    """
    draws = 1 if getattr(env, "deterministic", False) else DRAWS
    keys = jax.random.split(jax.random.key(0), draws)
    states, actions = all_states(env), jnp.arange(env.num_actions)

    def outcomes(state: PyTree, action: Int[Array, ""], key: Key) -> tuple[Array, Array]:
        after, outcome = env.step(state, action, key)
        return jnp.where(outcome.over, env.num_states, env.index(after)), outcome.reward

    of_keys = jax.vmap(outcomes, in_axes=(None, None, 0))
    of_actions = jax.vmap(of_keys, in_axes=(None, 0, None))
    after, reward = (
        np.asarray(one) for one in jax.vmap(of_actions, in_axes=(0, None, None))(states, actions, keys)
    )
    values = np.zeros(env.num_states + 1)
    for _ in range(max_steps):
        scores = np.where(allowed, (reward + values[after]).mean(axis=2), -np.inf).max(axis=1)
        values[:-1] = np.where(allowed.any(axis=1), scores, 0.0)
    return float(values[int(env.index(env.init(jax.random.key(0))))])
