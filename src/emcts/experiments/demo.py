"""Two divers in Deep Sea, one whose search knows what it has not seen, and one whose search does not.

Nothing is trained: rewards are averages of what was paid, local uncertainty is `1 / (n + eps)` of the visits, and the
uncertainty of a value is the exact solution of its Bellman equation. What differs is `beta`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

import emcts
from emcts.envs import DeepSea
from emcts.types import Key, Replaceable, record

DISCOUNT = 0.995
EPSILON = 0.1
UCT_CONSTANT = 0.1


@dataclasses.dataclass(frozen=True)
class Demo:
    """Deep Sea of `size`, with `simulations` a move, for at most `episodes`."""

    size: int = 20
    simulations: int = 32
    episodes: int = 120
    beta: float = 1.0

    def __post_init__(self) -> None:
        DeepSea(self.size)  # refuses a size it does not have
        for name in ("simulations", "episodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@record
class Logbook(Replaceable):
    """What each diver has seen: visits of each cell and action, and the sum of what they paid."""

    visits: Float[Array, "D cells A"]
    paid: Float[Array, "D cells A"]

    def reward(self) -> Float[Array, "D cells A"]:
        return self.paid / jnp.maximum(self.visits, 1)

    def novelty(self) -> Float[Array, "D cells A"]:
        return 1 / (self.visits + EPSILON)


class Dives(NamedTuple):
    """How it went for the diver without uncertainty, and for the one with."""

    visits: Float[np.ndarray, "D N N"]
    found: Int[np.ndarray, "D"]  # the first episode with the treasure, or 0
    episodes: int


def dive(demo: Demo, seed: int = 0, progress: Callable[[], None] = lambda: None) -> Dives:
    """Dives until both have found the treasure, or the episodes are over; `progress` is called after each.

    The seed draws which action means right, cell by cell, and the noise of the first diver.
    """
    env = DeepSea(demo.size, seed=seed)
    beta = jnp.array([0.0, demo.beta])
    table = jnp.zeros((2, demo.size**2, env.num_actions))
    logbook = Logbook(table, table)
    found = np.zeros(2, int)
    run_episode = jax.jit(lambda key, logbook: _episode(env, demo, beta, key, logbook))
    for episode, key in enumerate(jax.random.split(jax.random.key(seed), demo.episodes), start=1):
        logbook, solved = run_episode(key, logbook)
        found = np.where((found == 0) & np.asarray(solved), episode, found)
        progress()
        if found.all():
            break
    cells = np.asarray(logbook.visits.sum(axis=-1))
    return Dives(cells.reshape(-1, demo.size, demo.size), found, episode)


def _episode(
    env: DeepSea, demo: Demo, beta: Float[Array, "D"], key: Key, logbook: Logbook
) -> tuple[Logbook, Array]:
    divers = jnp.arange(beta.shape[0])
    doubt = jax.vmap(lambda novelty: uncertainty(env, novelty))(logbook.novelty())
    model = _model(env, logbook, doubt)
    step = jax.vmap(env.step, in_axes=(0, 0, None))
    init_key, moves_key = jax.random.split(key)

    def move(state: Any, key: Key) -> tuple[Any, Any]:
        search_key, step_key = jax.random.split(key)
        cell = jax.vmap(env.cell)(state)
        root = emcts.RootFnOutput(
            prior_logits=jnp.zeros((*beta.shape, env.num_actions)),
            value=jnp.zeros_like(beta),
            embedding=state,
            value_variance=doubt[divers, cell],
        )
        out = emcts.uct_policy(
            None, search_key, root, model, demo.simulations, c=UCT_CONSTANT, beta=beta, temperature=1.0
        )
        # Without uncertainty there is chance alone to explore by; with it, the best of the plan is taken.
        action = jnp.where(beta > 0, jnp.argmax(out.action_weights, axis=-1), out.action)
        state, outcome = step(state, action, step_key)
        return state, (cell, action, outcome.reward)

    start = jax.vmap(env.init)(jax.random.split(init_key, beta.shape[0]))
    end, (cells, actions, rewards) = jax.lax.scan(move, start, jax.random.split(moves_key, env.size))
    at = (divers[None, :], cells, actions)
    logbook = Logbook(visits=logbook.visits.at[at].add(1.0), paid=logbook.paid.at[at].add(rewards))
    return logbook, jax.vmap(env.solved)(end)


def _model(env: DeepSea, logbook: Logbook, doubt: Float[Array, "D cells"]) -> Any:
    """True transitions; rewards, and what is uncertain, from the logbook."""
    reward, novelty = logbook.reward(), logbook.novelty()
    divers = jnp.arange(doubt.shape[0])
    step = jax.vmap(env.step, in_axes=(0, 0, None))

    def recurrent_fn(params: Any, key: Key, action: Int[Array, "D"], state: Any) -> Any:
        cell = jax.vmap(env.cell)(state)
        state, outcome = step(state, action, key)
        after = jax.vmap(env.cell)(state)
        over = outcome.terminated
        return emcts.RecurrentFnOutput(
            reward=reward[divers, cell, action],
            discount=jnp.where(over, 0.0, DISCOUNT),
            prior_logits=jnp.zeros((*over.shape, env.num_actions)),
            value=jnp.zeros(over.shape),
            reward_variance=novelty[divers, cell, action],
            value_variance=doubt.at[divers, after].get(mode="fill", fill_value=0.0),
        ), state

    return recurrent_fn


def uncertainty(env: DeepSea, novelty: Float[Array, "cells A"]) -> Float[Array, "cells"]:
    """Solves `u(s) = max_a eta(s,a) + gamma^2 u(s')` from the last row up (`eq:ube_def`)."""
    size = env.size
    right = jnp.asarray(env.right_actions)
    grid = novelty.reshape(size, size, env.num_actions)

    def row_above(below: Float[Array, "columns"], row: Any) -> tuple[Any, Any]:
        eta, goes_right = row
        column = jnp.arange(size)
        of_right = (
            jnp.take_along_axis(eta, goes_right[:, None], axis=-1)[:, 0] + DISCOUNT**2 * below[column + 1]
        )
        of_left = (
            jnp.take_along_axis(eta, 1 - goes_right[:, None], axis=-1)[:, 0]
            + DISCOUNT**2 * below[jnp.maximum(column - 1, 0)]
        )
        doubt = jnp.maximum(of_right, of_left)
        return jnp.append(doubt, 0.0), doubt

    _, rows = jax.lax.scan(row_above, jnp.zeros(size + 1), (grid, right), reverse=True)
    return rows.reshape(-1)
