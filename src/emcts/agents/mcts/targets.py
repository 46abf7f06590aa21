"""Reanalyse: targets of the heads for states of the replay, by the target networks and the present novelty."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.mcts.planners import ExplorationParams, Plan, Planner
from emcts.models.world_model import PlanningModel
from emcts.types import Key, Replaceable, Scalar, record


@record
class Trajectory(Replaceable):
    """States of the replay [M], and the `n` steps from there on [M, n]."""

    states: PyTree  # [M, n + 1]
    actions: Int[Array, "M n"]
    rewards: Float[Array, "M n"]
    terminated: Bool[Array, "M n"]
    truncated: Bool[Array, "M n"]
    policy: Float[Array, "M A"]  # proposed by acting at the first of the states

    def state(self, step: int | Int[Array, "M"]) -> PyTree:
        """Returns the state after a number of steps: the same for all trajectories, or one for each."""
        rows = jnp.arange(self.actions.shape[0])
        return jax.tree.map(lambda leaf: leaf[rows, step], self.states)


@record
class SearchEstimate(Replaceable):
    """The estimates of a search at each state."""

    value: Float[Array, "M"]  # of the action that it chose
    policy: Float[Array, "M A"]
    exploration: Float[Array, "M A"]
    edge_variance: Float[Array, "M"]  # the largest of the root's edges
    root_variance: Float[Array, "M"]


@record
class Targets(Replaceable):
    """Targets of the heads; and of the first step its reward, whether it terminated, and its local variance."""

    value: Float[Array, "M"]
    policy: Float[Array, "M A"]
    exploration: Float[Array, "M A"]
    ube: Float[Array, "M"]
    reward: Float[Array, "M"]
    terminated: Bool[Array, "M"]
    local_variance: Float[Array, "M"]


@dataclasses.dataclass(frozen=True)
class TargetContext:
    """The inputs of target rules. Functions are of batches of states; equal states may be computed once."""

    trajectory: Trajectory
    discount: float
    searched: SearchEstimate  # at the first states of the trajectories
    explored: Callable[[PyTree], SearchEstimate]  # by the search that explores
    value: Callable[[PyTree], Float[Array, "M"]]
    lookahead_variances: Callable[[PyTree], Float[Array, "M A"]]  # of lookahead, by action; 0 of illegal ones
    local_variance: Callable[[int], Float[Array, "M"]]  # eta of a step of the trajectory, by its number

    def lookahead_variance(self, states: PyTree) -> Float[Array, "M"]:
        """Returns the largest variance of lookahead."""
        return jnp.max(self.lookahead_variances(states), axis=-1)


ValueRule = Callable[[TargetContext], Float[Array, "M"]]
BootstrapFn = Callable[[TargetContext, PyTree], Float[Array, "M"]]


@runtime_checkable
class UbeRule(Protocol):
    """A UBE target. `uses_search` tells whether it reads variances of the search for the other targets."""

    @property
    def uses_search(self) -> bool: ...

    def __call__(self, context: TargetContext) -> Float[Array, "M"]: ...

    def model_steps(self, num_actions: int, exploring: Planner, *, tabular: bool) -> int:
        """Returns the model steps for one state, beyond those of the search for the other targets.

        In a `tabular` environment what a rule reads is computed once for each state.
        """


class NStepWindow(NamedTuple):
    """The steps of a trajectory up to the first end, or up to where it was cut off.

    A step that was cut off is not valid, since the state that it led to was not stored.
    """

    valid: Bool[Array, "M n"]
    over: Bool[Array, "M"]

    @property
    def length(self) -> Int[Array, "M"]:
        return self.valid.sum(axis=1)


def n_step_window(trajectory: Trajectory, n: int) -> NStepWindow:
    """Returns the window of the first `n` steps. A step that is both terminated and truncated is terminated."""
    if n > (available := trajectory.rewards.shape[1]):
        raise ValueError(
            f"targets of {n} steps from trajectories of {available}: raise num_steps of Reanalyse"
        )
    terminated = trajectory.terminated[:, :n]
    cut_off = trajectory.truncated[:, :n] & ~terminated
    ends = (terminated | cut_off).astype(jnp.int32)
    valid = (jnp.cumsum(ends, axis=1) - ends == 0) & ~cut_off
    return NStepWindow(valid, jnp.any(terminated & valid, axis=1))


def n_step_return(
    rewards: Float[Array, "M n"], bootstrap: Float[Array, "M"], window: NStepWindow, discount: float
) -> Float[Array, "M"]:
    """Returns the discounted sum over the steps of a window, plus the bootstrap unless the episode is over."""
    powers = discount ** jnp.arange(rewards.shape[1])
    total = jnp.sum(jnp.where(window.valid, rewards * powers[None], 0.0), axis=1)
    return total + jnp.where(window.over, 0.0, discount**window.length * bootstrap)


@dataclasses.dataclass(frozen=True)
class NStep:
    """The n-step return of the trajectory, bootstrapped with the network's value."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a value target of {self.n} steps: give at least 1")

    def __call__(self, context: TargetContext) -> Float[Array, "M"]:
        trajectory = context.trajectory
        window = n_step_window(trajectory, self.n)
        bootstrap = context.value(trajectory.state(window.length))
        return n_step_return(trajectory.rewards[:, : self.n], bootstrap, window, context.discount)


def searched_value(context: TargetContext) -> Float[Array, "M"]:
    """Returns the searched value of the action that the search chose."""
    return context.searched.value


def searched_or_td(context: TargetContext) -> Float[Array, "M"]:
    """Returns the larger of the searched value and the 1-step target, so that a weak search forgets no reward.

    For deterministic environments alone: with noisy rewards it keeps the lucky draws, a bias of 0.4 for N(0, 1).
    """
    return jnp.maximum(searched_value(context), NStep(1)(context))


def value_rule(*, deterministic: bool) -> ValueRule:
    """Returns the rule for an environment: one without bias wherever rewards or transitions may be random."""
    return searched_or_td if deterministic else searched_value


@dataclasses.dataclass(frozen=True)
class SearchedEdgeUbe:
    """The largest variance of the root edges of the search for the other targets."""

    @property
    def uses_search(self) -> bool:
        return True

    def __call__(self, context: TargetContext) -> Float[Array, "M"]:
        return context.searched.edge_variance

    def model_steps(self, num_actions: int, exploring: Planner, *, tabular: bool) -> int:
        return 0


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """The variance that an n-step UBE target ends with, and whether it takes an exploring search to compute it."""

    variance: BootstrapFn
    searches: bool


LOOKAHEAD = Bootstrap(lambda context, states: context.lookahead_variance(states), searches=False)
"""The largest variance of lookahead: of one step, the paper's non-root targets, or of more (`lookahead_depth`)."""

ROOT = Bootstrap(lambda context, states: context.explored(states).root_variance, searches=True)
"""The variance at the root of an exploring search: the paper's root targets."""

EDGE = Bootstrap(lambda context, states: context.explored(states).edge_variance, searches=True)
"""The largest variance of the root edges of an exploring search.

A root's variance is a mean over all simulations, also those that look elsewhere: over many steps it fades.
"""


@dataclasses.dataclass(frozen=True)
class NStepUbe:
    """`sum g^(2i) eta + g^(2n) boot`: the local variances of the next `n` steps of the trajectory, and a bootstrap.

    With `n` 0 it is the uncertainty Bellman equation at the state itself, whatever action the trajectory took there.
    """

    n: int
    bootstrap: Bootstrap

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError(f"a UBE target of {self.n} steps: give 0 or more")

    @property
    def uses_search(self) -> bool:
        return False

    def __call__(self, context: TargetContext) -> Float[Array, "M"]:
        trajectory, n = context.trajectory, self.n
        if n == 0:
            return self.bootstrap.variance(context, trajectory.state(0))
        window = n_step_window(trajectory, n)
        local = jnp.stack([context.local_variance(step) for step in range(n)], axis=1)
        bootstrap = self.bootstrap.variance(context, trajectory.state(window.length))
        return n_step_return(local, bootstrap, window, context.discount**2)

    def model_steps(self, num_actions: int, exploring: Planner, *, tabular: bool) -> int:
        return exploring.model_steps(num_actions) if self.bootstrap.searches else num_actions


@dataclasses.dataclass(frozen=True)
class PathUbe:
    """The uncertainty Bellman equation at each of the next `n` states of the trajectory, from the last one backwards.

    At each state the action of the trajectory has `eta + g^2 u`, with the `u` of the state after it that was computed
    before; the other actions have their lookahead. So one target reaches `n` steps, at the cost of `n` lookaheads, and
    no action counts only because it was taken. For deterministic environments: a state that was drawn stands for all.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a UBE target along a path of {self.n} steps: give at least 1")

    @property
    def uses_search(self) -> bool:
        return False

    def __call__(self, context: TargetContext) -> Float[Array, "M"]:
        trajectory, squared = context.trajectory, context.discount**2
        variance = context.lookahead_variance(trajectory.state(self.n))
        for step in reversed(range(self.n)):
            ahead = context.lookahead_variances(trajectory.state(step))
            terminated = trajectory.terminated[:, step]
            taken = context.local_variance(step) + jnp.where(terminated, 0.0, squared * variance)
            cut_off = trajectory.truncated[:, step] & ~terminated  # the state after it was not stored
            is_taken = jnp.arange(ahead.shape[-1])[None] == trajectory.actions[:, step, None]
            variance = jnp.max(jnp.where(is_taken & ~cut_off[:, None], taken[:, None], ahead), axis=-1)
        return variance

    def model_steps(self, num_actions: int, exploring: Planner, *, tabular: bool) -> int:
        return num_actions if tabular else num_actions * (self.n + 1)


@dataclasses.dataclass(frozen=True)
class Reanalyse:
    """How targets are made.

    A `beta` below 0 makes them pessimistic. A `fraction` of the policy targets is searched anew, the others are those
    of acting. `exploration_beta` and `exploration_temperature` shape the target of the exploration policy, a softmax
    over `q + beta * std` of the legal actions, in units of the return range. `exploring` is the search of UBE rules
    that explore, with that beta. `lookahead_depth` is the number of steps after which lookahead reads the UBE head.
    """

    planner: Planner
    value: ValueRule
    ube: UbeRule
    exploring: Planner
    num_steps: int = 1  # of trajectories
    beta: float = 0.0
    fraction: float = 1.0
    exploration_beta: float = 0.0
    exploration_temperature: float = 1.0
    uses_novelty: bool = True  # whether variances of the search for the other targets are used
    lookahead_depth: int = 1

    def __post_init__(self) -> None:
        if self.num_steps < 1:
            raise ValueError(f"num_steps is {self.num_steps}: give at least 1")
        if self.lookahead_depth < 1:
            raise ValueError(f"lookahead_depth is {self.lookahead_depth}: give at least 1")
        if not 0 <= self.fraction <= 1:
            raise ValueError(f"fraction is {self.fraction}: give a number from 0 to 1")
        if self.exploration_temperature <= 0:
            raise ValueError(
                f"exploration_temperature is {self.exploration_temperature}: give a number above 0"
            )

    def search(self, key: Key, model: PlanningModel[PyTree], states: PyTree) -> SearchEstimate:
        params = ExplorationParams.constant(states, beta=self.beta)
        return self._estimate(self.planner(key, model, states, params), model.return_range)

    def explore(self, key: Key, model: PlanningModel[PyTree], states: PyTree) -> SearchEstimate:
        params = ExplorationParams.constant(states, beta=self.exploration_beta, exploring=True)
        return self._estimate(self.exploring(key, model, states, params), model.return_range)

    def _estimate(self, plan: Plan, return_range: Scalar) -> SearchEstimate:
        chosen = jnp.take_along_axis(plan.qvalues, plan.action[:, None], axis=-1)[:, 0]
        scores = plan.qvalues + self.exploration_beta * plan.qvalue_stds
        scores = scores / (self.exploration_temperature * return_range)
        return SearchEstimate(
            value=chosen,
            policy=plan.policy,
            exploration=jax.nn.softmax(jnp.where(plan.invalid, jnp.finfo(scores.dtype).min, scores)),
            edge_variance=jnp.max(jnp.where(plan.invalid, 0.0, plan.qvalue_stds), axis=-1) ** 2,
            root_variance=plan.value_std**2,
        )

    def targets(self, keys: Key, context: TargetContext) -> Targets:
        trajectory, searched = context.trajectory, context.searched
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
