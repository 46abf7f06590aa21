"""Reanalyse: what the heads should have said of states in the replay, by the networks as they are now."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.planners import Plan, Planner, exploiting_brief
from emcts.models.minds import PlanningModel
from emcts.types import Key, Replaceable, record


@record
class Story(Replaceable):
    """States from the replay [M], and what happened in the `n` moves from there on [M, n]."""

    states: Any  # [M], n + 1 of them each: [M, n + 1]
    actions: Int[Array, "M n"]
    rewards: Float[Array, "M n"]
    terminated: Bool[Array, "M n"]
    truncated: Bool[Array, "M n"]
    policy: Float[Array, "M A"]  # that acting proposed at the first of the states

    def state(self, move: Any) -> Any:
        """The state after so many moves: one number, or one for each story."""
        rows = jnp.arange(self.actions.shape[0])
        return jax.tree.map(lambda leaf: leaf[rows, move], self.states)


@record
class Searched(Replaceable):
    """What a search at each state says of it."""

    value: Float[Array, "M"]  # of the action that it chose
    policy: Float[Array, "M A"]
    exploration: Float[Array, "M A"]
    edge_variance: Float[Array, "M"]  # the largest of the root's edges
    root_variance: Float[Array, "M"]


@record
class Targets(Replaceable):
    """For the heads; and of the first move its reward, whether it ended the episode, and its local variance."""

    value: Float[Array, "M"]
    policy: Float[Array, "M A"]
    exploration: Float[Array, "M A"]
    ube: Float[Array, "M"]
    reward: Float[Array, "M"]
    terminated: Bool[Array, "M"]
    local_variance: Float[Array, "M"]


@dataclasses.dataclass(frozen=True)
class Context:
    """What target rules may look at. Functions of batches of states; equal states may be computed once."""

    story: Story
    discount: float
    here: Searched  # at the first states of the stories
    explored: Callable[[Any], Searched]  # by the search that looks for uncertainty
    value: Callable[[Any], Float[Array, "M"]]
    ahead_variance: Callable[[Any], Float[Array, "M"]]  # the largest of one step ahead
    local_variance: Float[Array, "M"]  # eta of the first move


ValueRule = Callable[[Context], Float[Array, "M"]]
UbeRule = Callable[[Context], Float[Array, "M"]]


@dataclasses.dataclass(frozen=True)
class NStep:
    """The discounted rewards of the next `n` moves of the story, and the network's value of where they led.

    Nothing counts past the end of an episode. A story that was cut short counts up to the cut, where the
    network speaks for the rest.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a value target takes {self.n} moves of the story: give at least 1")

    def __call__(self, context: Context) -> Float[Array, "M"]:
        story, n = context.story, self.n
        if n > (there := story.rewards.shape[1]):
            raise ValueError(f"{n} moves are asked of stories of {there}: raise Reanalyse's moves")
        terminated, truncated = story.terminated[:, :n], story.truncated[:, :n]
        ends = (terminated | truncated).astype(jnp.int32)
        counts = (jnp.cumsum(ends, axis=1) - ends == 0) & ~truncated
        powers = context.discount ** jnp.arange(n)
        rewards = jnp.sum(jnp.where(counts, story.rewards[:, :n] * powers[None], 0.0), axis=1)
        length = counts.sum(axis=1)
        over = jnp.any(terminated & counts, axis=1)
        rest = context.discount**length * context.value(story.state(length))
        return rewards + jnp.where(over, 0.0, rest)


def searched_value(context: Context) -> Float[Array, "M"]:
    """The searched value of the action that the search chose."""
    return context.here.value


def searched_or_td(context: Context) -> Float[Array, "M"]:
    """The larger of the searched value and of the 1-step target: what once paid is not forgotten by a weak search."""
    return jnp.maximum(searched_value(context), NStep(1)(context))


def largest_edge(context: Context) -> Float[Array, "M"]:
    """The largest variance of the root edges, of the search that the other targets come from."""
    return context.here.edge_variance


@dataclasses.dataclass(frozen=True)
class Ahead:
    """The non-root target: `n` (0 or 1) moves of the story, then the best of one step ahead.

    With 0 it is the uncertainty Bellman equation at the state itself, whatever action the story took there.
    """

    n: int

    def __post_init__(self) -> None:
        _check_moves(self.n)

    def __call__(self, context: Context) -> Float[Array, "M"]:
        if self.n == 0:
            return context.ahead_variance(context.story.state(0))
        return _after(context, context.ahead_variance)


@dataclasses.dataclass(frozen=True)
class Root:
    """The root target: `n` (0 or 1) moves of the story, then the variance at the root of a search that explores."""

    n: int

    def __post_init__(self) -> None:
        _check_moves(self.n)

    def __call__(self, context: Context) -> Float[Array, "M"]:
        def there(states: Any) -> Float[Array, "M"]:
            return context.explored(states).root_variance

        return there(context.story.state(0)) if self.n == 0 else _after(context, there)


@dataclasses.dataclass(frozen=True)
class Edge:
    """`n` (0 or 1) moves of the story, then the largest variance of the root's edges in a search that explores.

    A root's variance is a mean over all simulations, those that look elsewhere too: over many steps it fades.
    """

    n: int

    def __post_init__(self) -> None:
        _check_moves(self.n)

    def __call__(self, context: Context) -> Float[Array, "M"]:
        def there(states: Any) -> Float[Array, "M"]:
            return context.explored(states).edge_variance

        return there(context.story.state(0)) if self.n == 0 else _after(context, there)


@dataclasses.dataclass(frozen=True)
class Reanalyse:
    """How targets are made.

    `beta` below 0 makes them pessimistic. Of the policy targets a share `fraction` is searched anew, the others are
    what acting proposed. `exploration_beta` and `exploration_temperature` shape the exploration policy's target,
    a softmax over `q + beta * std`. UBE rules that look at a search get one that explores with `exploring_beta`.
    """

    planner: Planner
    value: ValueRule
    ube: UbeRule
    moves: int = 1  # how far stories reach
    beta: float = 0.0
    fraction: float = 1.0
    exploration_beta: float = 0.0
    exploration_temperature: float = 1.0
    exploring: Planner | None = None  # None: the search of the other targets does for it
    exploring_beta: float = 0.0
    needs_novelty: bool = True  # whether variances of the search of the other targets are used

    def __post_init__(self) -> None:
        if self.moves < 1:
            raise ValueError(f"moves is {self.moves}: give at least 1")
        if not 0 <= self.fraction <= 1:
            raise ValueError(f"fraction is {self.fraction}: give a share from 0 to 1")
        if self.exploration_temperature <= 0:
            raise ValueError(
                f"exploration_temperature is {self.exploration_temperature}: give a number above 0"
            )

    def search(self, key: Key, model: PlanningModel, states: Any) -> Searched:
        return self._searched(self.planner(key, model, states, exploiting_brief(states, self.beta)))

    def explore(self, key: Key, model: PlanningModel, states: Any) -> Searched:
        if self.exploring is None:
            return self.search(key, model, states)
        brief = exploiting_brief(states, self.exploring_beta)
        brief = brief.replace(exploring=jnp.ones_like(brief.exploring))
        return self._searched(self.exploring(key, model, states, brief))

    def _searched(self, plan: Plan) -> Searched:
        chosen = jnp.take_along_axis(plan.qvalues, plan.action[:, None], axis=-1)[:, 0]
        scores = plan.qvalues + self.exploration_beta * plan.qvalue_stds
        return Searched(
            value=chosen,
            policy=plan.policy,
            exploration=jax.nn.softmax(scores / self.exploration_temperature),
            edge_variance=jnp.max(plan.qvalue_stds, axis=-1) ** 2,
            root_variance=plan.value_std**2,
        )

    def targets(self, keys: Key, context: Context) -> Targets:
        story = context.story
        searched = context.here
        anew = jax.vmap(jax.random.uniform)(keys) < self.fraction
        return Targets(
            value=self.value(context),
            policy=jnp.where(anew[:, None], searched.policy, story.policy),
            exploration=searched.exploration,
            ube=self.ube(context),
            reward=story.rewards[:, 0],
            terminated=story.terminated[:, 0],
            local_variance=context.local_variance,
        )


def _after(context: Context, variance: Callable[[Any], Float[Array, "M"]]) -> Float[Array, "M"]:
    """Past an end there is nothing. Where a story was cut short it is not followed: where it led was not kept."""
    story = context.story
    terminated, truncated = story.terminated[:, 0], story.truncated[:, 0]
    there = variance(story.state(jnp.where(truncated, 0, 1)))
    followed = context.local_variance + jnp.where(terminated, 0.0, context.discount**2 * there)
    return jnp.where(truncated, there, followed)


def _check_moves(n: int) -> None:
    if n not in (0, 1):
        raise ValueError(f"a UBE target follows {n} moves of the story: give 0 or 1")
