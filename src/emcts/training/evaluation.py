"""Evaluation: episodes played to their end, and whether they solve the task."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment, GoalEnvironment, HostEnvironment, Outcome, is_success
from emcts.types import Key, Replaceable, record


@record
class EvaluationResult(Replaceable):
    """Returns and lengths of episodes, and whether each was a success."""

    episode_return: Float[Array, "E"]
    length: Int[Array, "E"]
    solved: Bool[Array, "E"]


Policy = Callable[[Key, PyTree], Int[Array, "B"]]  # chooses actions for a batch of states


@runtime_checkable
class Player(Protocol):
    """Chooses actions for a batch of states, and remembers something from one step of its episodes to the next."""

    def begin(self, states: PyTree) -> PyTree:
        """Returns the memory before the first step."""

    def __call__(self, key: Key, states: PyTree, memory: PyTree) -> tuple[Int[Array, "B"], PyTree]: ...


@dataclasses.dataclass(frozen=True)
class Forgetful:
    """A player that acts by a policy, and remembers nothing."""

    policy: Policy

    def begin(self, states: PyTree) -> None:
        return None

    def __call__(self, key: Key, states: PyTree, memory: None) -> tuple[Int[Array, "B"], None]:
        return self.policy(key, states), None


ROUNDING = 1e-5
SolvedFraction = Callable[[EvaluationResult], Float[Array, ""]]  # from 0 to 1; 1 counts as solved


def episodes_solved(result: EvaluationResult) -> Float[Array, ""]:
    """Returns the fraction of the episodes that were solved."""
    # A sum divided by a count may round to less than 1.
    return jnp.where(result.solved.all(), 1.0, result.solved.mean())


@dataclasses.dataclass(frozen=True)
class ReturnReached:
    """1 if the mean return is at least `threshold`, else 0: for environments without a criterion of their own.

    Where rewards are noisy, a lucky evaluation reaches the threshold too.
    """

    threshold: float

    def __call__(self, result: EvaluationResult) -> Float[Array, ""]:
        return jnp.where(result.episode_return.mean() >= self.threshold, 1.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Success:
    """Whether a step is a success: the environment's own criterion, or else a positive reward.

    Where every step pays something, a reward says nothing. There an episode is a success if it ends with a return
    above `baseline_return`, that of the best random episode.
    """

    baseline_return: float | None = None

    def __call__(
        self,
        env: AnyEnvironment,
        after: PyTree,
        outcome: Outcome,
        episode_return: Float[Array, ""],
        ended: Bool[Array, ""],
    ) -> Bool[Array, ""]:
        if self.baseline_return is None or isinstance(env, GoalEnvironment):
            return is_success(env, after, outcome)
        # Sums of the same rewards may round differently.
        margin = ROUNDING * max(1.0, abs(self.baseline_return))
        return ended & (episode_return > self.baseline_return + margin)


POSITIVE_REWARD = Success()


@record
class _Episodes(Replaceable):
    state: PyTree
    over: Bool[Array, "E"]
    episode_return: Float[Array, "E"]
    length: Int[Array, "E"]
    solved: Bool[Array, "E"]
    time: Int[Array, ""]
    memory: PyTree  # of the player


def play_episodes(
    env: AnyEnvironment,
    policy: Policy | Player,
    key: Key,
    *,
    num_episodes: int,
    max_steps: int,
    success: Success = POSITIVE_REWARD,
) -> EvaluationResult:
    """Plays episodes side by side. One that has not ended after `max_steps` is cut off.

    `policy` chooses actions for a batch of states.
    """
    player = policy if isinstance(policy, Player) else Forgetful(policy)
    if isinstance(env, HostEnvironment):
        env = env.limited(max_steps)  # so that the simulators of episodes that are cut off are free again
    init_key, play_key = jax.random.split(key)

    def unfinished(episodes: _Episodes) -> Bool[Array, ""]:
        return ~jnp.all(episodes.over) & (episodes.time < max_steps)

    def step(episodes: _Episodes) -> _Episodes:
        # The key is not carried: under `vmap` over seeds, that of a seed whose episodes are over would be reused.
        action_key, step_key = jax.random.split(jax.random.fold_in(play_key, episodes.time))
        actions, memory = player(action_key, episodes.state, episodes.memory)
        after, outcome = jax.vmap(env.step)(episodes.state, actions, jax.random.split(step_key, num_episodes))
        episode_return = episodes.episode_return + jnp.where(episodes.over, 0.0, outcome.reward)
        ended = outcome.over | (episodes.time + 1 >= max_steps)
        succeeded = jax.vmap(functools.partial(success, env))(after, outcome, episode_return, ended)
        return _Episodes(
            state=after,
            over=episodes.over | outcome.over,
            episode_return=episode_return,
            length=episodes.length + ~episodes.over,
            solved=episodes.solved | (succeeded & ~episodes.over),
            time=episodes.time + 1,
            memory=memory,
        )

    states = jax.vmap(env.init)(jax.random.split(init_key, num_episodes))
    start = _Episodes(
        state=states,
        over=jnp.zeros(num_episodes, bool),
        episode_return=jnp.zeros(num_episodes),
        length=jnp.zeros(num_episodes, jnp.int32),
        solved=jnp.zeros(num_episodes, bool),
        time=jnp.int32(0),
        memory=player.begin(states),
    )
    end = jax.lax.while_loop(unfinished, step, start)
    return EvaluationResult(end.episode_return, end.length, end.solved)
