"""Reanalyse: what the heads should have said of states in the replay, by the networks as they are now."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.mcts.planners import Plan, Planner, no_exploration
from emcts.models.world_model import PlanningModel
from emcts.types import Key, Replaceable, record


@record
class Trajectory(Replaceable):
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
class SearchEstimate(Replaceable):
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
class TargetContext:
    """What target rules may look at. Functions of batches of states; equal states may be computed once."""

    trajectory: Trajectory
    discount: float
    here: SearchEstimate  # at the first states of the stories
    explored: Callable[[Any], SearchEstimate]  # by the search that looks for uncertainty
    value: Callable[[Any], Float[Array, "M"]]
    ahead_variance: Callable[[Any], Float[Array, "M"]]  # the largest of one step ahead
    local_variance: Callable[[int], Float[Array, "M"]]  # eta of a move of the story, by its number


ValueRule = Callable[[TargetContext], Float[Array, "M"]]
UbeRule = Callable[[TargetContext], Float[Array, "M"]]


class NStepWindow(NamedTuple):
    """How far a story is followed: `counts` marks its moves up to the first end, or up to where it was cut off.

    A move that was cut off does not count, since the state that it led to was not kept.
    """

    counts: Bool[Array, "M n"]
    over: Bool[Array, "M"]

    @property
    def length(self) -> Int[Array, "M"]:
        return self.counts.sum(axis=1)


def follow(trajectory: Trajectory, n: int) -> NStepWindow:
    """The first `n` moves of each story. A move that is both terminated and truncated is terminated."""
    if n > (there := trajectory.rewards.shape[1]):
        raise ValueError(f"{n} moves are asked of stories of {there}: raise Reanalyse's moves")
    terminated = trajectory.terminated[:, :n]
    cut_off = trajectory.truncated[:, :n] & ~terminated
    ends = (terminated | cut_off).astype(jnp.int32)
    counts = (jnp.cumsum(ends, axis=1) - ends == 0) & ~cut_off
    return NStepWindow(counts, jnp.any(terminated & counts, axis=1))


def discounted(
    of_moves: Float[Array, "M n"], rest: Float[Array, "M"], followed: NStepWindow, discount: float
) -> Float[Array, "M"]:
    """The discounted sum over the moves that count, and what is left after them, unless the episode is over."""
    powers = discount ** jnp.arange(of_moves.shape[1])
    total = jnp.sum(jnp.where(followed.counts, of_moves * powers[None], 0.0), axis=1)
    return total + jnp.where(followed.over, 0.0, discount**followed.length * rest)


@dataclasses.dataclass(frozen=True)
class NStep:
    """The discounted rewards of the next `n` moves of the story, and the network's value of where they led."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a value target takes {self.n} moves of the story: give at least 1")

    def __call__(self, context: TargetContext) -> Float[Array, "M"]:
        trajectory = context.trajectory
        followed = follow(trajectory, self.n)
        rest = context.value(trajectory.state(followed.length))
        return discounted(trajectory.rewards[:, : self.n], rest, followed, context.discount)


def searched_value(context: TargetContext) -> Float[Array, "M"]:
    """The searched value of the action that the search chose."""
    return context.here.value


def searched_or_td(context: TargetContext) -> Float[Array, "M"]:
    """The larger of the searched value and of the 1-step target: what once paid is not forgotten by a weak search.

    For deterministic environments alone: of rewards with noise it keeps the lucky draws, a bias of 0.4 for N(0, 1).
    """
    return jnp.maximum(searched_value(context), NStep(1)(context))


def value_rule(*, deterministic: bool) -> ValueRule:
    """The rule that is right for an environment: without bias wherever rewards or transitions may be random."""
    return searched_or_td if deterministic else searched_value


def largest_edge(context: TargetContext) -> Float[Array, "M"]:
    """The largest variance of the root edges, of the search that the other targets come from."""
    return context.here.edge_variance


Bootstrap = Callable[
    [TargetContext, Any], Float[Array, "M"]
]  # the variance that is left from these states on


def ahead_variance(context: TargetContext, states: Any) -> Float[Array, "M"]:
    """Of non-root targets: the largest variance of one step ahead."""
    return context.ahead_variance(states)


def root_variance(context: TargetContext, states: Any) -> Float[Array, "M"]:
    """Of root targets: the variance at the root of a search that explores."""
    return context.explored(states).root_variance


def edge_variance(context: TargetContext, states: Any) -> Float[Array, "M"]:
    """The largest variance of the root's edges in a search that explores.

    A root's variance is a mean over all simulations, those that look elsewhere too: over many steps it fades.
    """
    return context.explored(states).edge_variance


@dataclasses.dataclass(frozen=True)
class NStepUbe:
    """`sum g^(2i) eta + g^(2n) boot`: the local variances of the next `n` moves of the story, and what is left.

    With 0 it is the uncertainty Bellman equation at the state itself, whatever action the story took there.
    """

    n: int
    bootstrap: Bootstrap

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError(f"a UBE target follows {self.n} moves of the story: give 0 or more")

    def __call__(self, context: TargetContext) -> Float[Array, "M"]:
        trajectory, n = context.trajectory, self.n
        if n == 0:
            return self.bootstrap(context, trajectory.state(0))
        followed = follow(trajectory, n)
        local = jnp.stack([context.local_variance(move) for move in range(n)], axis=1)
        rest = self.bootstrap(context, trajectory.state(followed.length))
        return discounted(local, rest, followed, context.discount**2)


@dataclasses.dataclass(frozen=True)
class Reanalyse:
    """How targets are made.

    `beta` below 0 makes them pessimistic. Of the policy targets a share `fraction` is searched anew, the others are
    what acting proposed. `exploration_beta` and `exploration_temperature` shape the exploration policy's target,
    a softmax over `q + beta * std` of the legal actions. UBE rules that look at a search get one that explores with
    `exploring_beta`.
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

    def search(self, key: Key, model: PlanningModel, states: Any) -> SearchEstimate:
        return self._searched(self.planner(key, model, states, no_exploration(states, self.beta)))

    def explore(self, key: Key, model: PlanningModel, states: Any) -> SearchEstimate:
        if self.exploring is None:
            return self.search(key, model, states)
        params = no_exploration(states, self.exploring_beta)
        params = params.replace(exploring=jnp.ones_like(params.exploring))
        return self._searched(self.exploring(key, model, states, params))

    def _searched(self, plan: Plan) -> SearchEstimate:
        chosen = jnp.take_along_axis(plan.qvalues, plan.action[:, None], axis=-1)[:, 0]
        scores = (plan.qvalues + self.exploration_beta * plan.qvalue_stds) / self.exploration_temperature
        return SearchEstimate(
            value=chosen,
            policy=plan.policy,
            exploration=jax.nn.softmax(jnp.where(plan.invalid, jnp.finfo(scores.dtype).min, scores)),
            edge_variance=jnp.max(jnp.where(plan.invalid, 0.0, plan.qvalue_stds), axis=-1) ** 2,
            root_variance=plan.value_std**2,
        )

    def targets(self, keys: Key, context: TargetContext) -> Targets:
        trajectory = context.trajectory
        searched = context.here
        anew = jax.vmap(jax.random.uniform)(keys) < self.fraction
        return Targets(
            value=self.value(context),
            policy=jnp.where(anew[:, None], searched.policy, trajectory.policy),
            exploration=searched.exploration,
            ube=self.ube(context),
            reward=trajectory.rewards[:, 0],
            terminated=trajectory.terminated[:, 0],
            local_variance=context.local_variance(0),
        )
