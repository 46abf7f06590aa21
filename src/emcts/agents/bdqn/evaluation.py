"""Evaluation of Bootstrapped DQN: all members together, greedily."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.envs import AnyEnvironment, Outcome
from emcts.training.evaluation import EvaluationResult, SolvedFraction
from emcts.types import Key, Replaceable, record


@record
class _Game(Replaceable):
    state: Any
    over: Bool[Array, ""]
    episode_return: Float[Array, ""]
    length: Int[Array, ""]
    solved: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class GreedyEvaluation:
    """Takes the action of highest mean over members, plus `beta` standard deviations.

    This is ours: bsuite scores training, and evaluates nothing besides. An episode that has not ended after `max_steps`
    is cut off.
    """

    episodes: int
    max_steps: int
    solved: SolvedFraction | None = None
    beta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("episodes", "max_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"evaluation.{name} is {getattr(self, name)}: give at least 1")

    def play(
        self,
        env: AnyEnvironment,
        values: Callable[[Any], Float[Array, "K A"]],
        success: Callable[[Any, Outcome], Bool[Array, ""]],
        key: Key,
        *,
        episodes: int,
        beta: float,
    ) -> EvaluationResult:
        """`values` are those of each member in a state; `success` tells of a step whether it solved the episode."""

        def continuation(game: _Game) -> Bool[Array, ""]:
            return ~game.over & (game.length < self.max_steps)

        def move(play_key: Key, game: _Game) -> _Game:
            # Not carried: under `vmap`, the key of an episode that is over would be used again.
            step_key = jax.random.fold_in(play_key, game.length)
            of_members = values(game.state)
            scores = of_members.mean(axis=0) + beta * of_members.std(axis=0)
            action = jnp.argmax(jnp.where(env.legal(game.state), scores, -jnp.inf)).astype(jnp.int32)
            after, outcome = env.step(game.state, action, step_key)
            return _Game(
                state=after,
                over=outcome.over,
                episode_return=game.episode_return + outcome.reward,
                length=game.length + 1,
                solved=game.solved | success(after, outcome),
            )

        def one(key: Key) -> _Game:
            init_key, play_key = jax.random.split(key)
            start = _Game(
                state=env.init(init_key),
                over=jnp.bool_(False),
                episode_return=jnp.float32(0),
                length=jnp.int32(0),
                solved=jnp.bool_(False),
            )
            return jax.lax.while_loop(continuation, functools.partial(move, play_key), start)

        end = jax.vmap(one)(jax.random.split(key, episodes))
        return EvaluationResult(end.episode_return, end.length, end.solved)
