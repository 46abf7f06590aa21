"""Planners: how an action is chosen for a batch of states, by a search.

A planner is called as `planner(key, model, states, params)`. `params` has the beta of each state, and whether its
episode explores.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

import emcts
from emcts.models.evaluators import StateEstimate
from emcts.models.world_model import PlanningModel, Prior
from emcts.search.tree import Tree
from emcts.training.learner import ExplorationSchedule
from emcts.types import Key, LoopFn, PolicyOutput, RecurrentState, Replaceable, Scalar, record

SearchTree = Tree[RecurrentState]
SearchOutput = PolicyOutput[SearchTree]


@record
class ExplorationParams(Replaceable):
    """The beta of each search, and whether its episode explores."""

    beta: Float[Array, "B"]
    exploring: Bool[Array, "B"]

    @classmethod
    def of(cls, schedule: ExplorationSchedule) -> "ExplorationParams":
        return cls(jnp.array(schedule.betas, jnp.float32), jnp.array(schedule.exploring))

    @classmethod
    def constant(cls, states: PyTree, *, beta: float = 0.0, exploring: bool = False) -> "ExplorationParams":
        """Returns the same for all states of a batch."""
        batch = jax.tree.leaves(states)[0].shape[0]
        return cls(jnp.full(batch, beta), jnp.full(batch, exploring))


@record
class Plan(Replaceable):
    """The result of a search. Statistics are those of its root; `policy` is the target of the policy head."""

    action: Int[Array, "B"]
    policy: Float[Array, "B A"]
    qvalues: Float[Array, "B A"]  # completed: unvisited actions have the root's value
    qvalue_stds: Float[Array, "B A"]
    value: Float[Array, "B"]
    value_std: Float[Array, "B"]
    invalid: Bool[Array, "B A"]  # actions that are not legal


def uniform_prior(estimate: StateEstimate) -> Float[Array, "B A"]:
    """Returns the same logit for all actions."""
    return jnp.zeros_like(estimate.policy)


def policy_prior(estimate: StateEstimate) -> Float[Array, "B A"]:
    """Returns the logits of the policy: the prior of searches that do not explore."""
    return estimate.policy


def exploration_prior(estimate: StateEstimate) -> Float[Array, "B A"]:
    """Returns the logits of the exploration policy."""
    return estimate.exploration


def mixed_with_uniform(logits: Float[Array, "B A"], fraction: float) -> Float[Array, "B A"]:
    """Returns the logits of a mixture of a policy and a `fraction` of the uniform one."""
    if not fraction:
        return logits
    policy = jax.nn.log_softmax(logits) + jnp.log1p(-fraction)
    return jnp.logaddexp(policy, jnp.log(fraction / logits.shape[-1]))


@runtime_checkable
class Planner(Protocol):
    """Plans for a batch of states."""

    def __call__(
        self, key: Key, model: PlanningModel[PyTree], states: PyTree, params: ExplorationParams
    ) -> Plan: ...

    def grow(
        self,
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        tree: SearchTree | None,
    ) -> tuple[Plan, SearchTree]:
        """Plans by searches that go on in `tree`, and returns what became of it: of the same size, also without one."""

    def model_steps(self, num_actions: int) -> int:
        """Returns the number of model steps that planning for one state takes."""


@dataclasses.dataclass(frozen=True)
class SearchPlanner(abc.ABC):
    """A planner that is one search of the library. `exploring_prior` is the prior of episodes that explore.

    The prior of the others is the policy, mixed with a `uniform_fraction` of the uniform policy: an action that the
    policy head has all but excluded can then still be chosen for its value. `backup` is how stds are backed up.
    `loop_fn` runs the simulations: another one can look at the tree between two of them.
    """

    num_simulations: int
    exploring_prior: Prior = uniform_prior
    uniform_fraction: float = dataclasses.field(default=0.0, kw_only=True)
    backup: emcts.Backup = dataclasses.field(default=emcts.mean_backup, kw_only=True)
    loop_fn: LoopFn = dataclasses.field(default=jax.lax.fori_loop, kw_only=True)

    def __post_init__(self) -> None:
        if self.num_simulations < 1:
            raise ValueError(f"a search of {self.num_simulations} simulations: give at least 1")

    def model_steps(self, num_actions: int) -> int:
        return self.num_simulations

    def __call__(
        self, key: Key, model: PlanningModel[PyTree], states: PyTree, params: ExplorationParams
    ) -> Plan:
        return self.plan(self.search(key, model, states, params), params)

    def grow(
        self,
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        tree: SearchTree | None,
    ) -> tuple[Plan, SearchTree]:
        out = self.search(key, model, states, params, tree=tree, max_nodes=self.room)
        return self.plan(out, params), out.search_tree

    @property
    def room(self) -> int:
        """The nodes of a tree that lives on: for the simulations, and for as many nodes of the tree before."""
        return 2 * self.num_simulations + 1

    def plan(self, out: SearchOutput, params: ExplorationParams) -> Plan:
        return _plan(out, out.action)

    @abc.abstractmethod
    def search(
        self,
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        *,
        tree: SearchTree | None = None,
        max_nodes: int | None = None,
    ) -> SearchOutput:
        """Runs the search. With a `tree` it goes on from there."""

    def _run(
        self,
        policy: Callable[..., SearchOutput],
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        *,
        tree: SearchTree | None,
        max_nodes: int | None,
        **options: Scalar,
    ) -> SearchOutput:
        """Runs a search policy of the library on a model."""

        def prior(estimate: StateEstimate) -> Float[Array, "B A"]:
            policy = mixed_with_uniform(estimate.policy, self.uniform_fraction)
            return jnp.where(params.exploring[:, None], self.exploring_prior(estimate), policy)

        root, step = model.root(states, prior), model.recurrent_fn(prior)
        invalid = model.invalid_actions(states)
        return policy(
            None,
            key,
            root,
            step,
            self.num_simulations,
            invalid,
            loop_fn=self.loop_fn,
            beta=params.beta,
            backup=self.backup,
            tree=tree,
            max_nodes=max_nodes,
            **options,
        )


@dataclasses.dataclass(frozen=True)
class Puct(SearchPlanner):
    """MuZero's search, EPUCT with `beta`.

    Episodes that explore take the most visited action; the others sample one by visits.
    """

    dirichlet_fraction: float = 0.0
    dirichlet_alpha: float = 0.3
    temperature: float = 1.0

    def plan(self, out: SearchOutput, params: ExplorationParams) -> Plan:
        best = jnp.argmax(out.action_weights, axis=-1)
        return _plan(out, jnp.where(params.exploring, best, out.action))

    def search(
        self,
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        *,
        tree: SearchTree | None = None,
        max_nodes: int | None = None,
    ) -> SearchOutput:
        return self._run(
            emcts.muzero_policy,
            key,
            model,
            states,
            params,
            tree=tree,
            max_nodes=max_nodes,
            dirichlet_fraction=self.dirichlet_fraction,
            dirichlet_alpha=self.dirichlet_alpha,
            temperature=self.temperature,
        )


@dataclasses.dataclass(frozen=True)
class Uct(SearchPlanner):
    """EUCT: no prior and no normalisation of values, the most visited action.

    The confidence bound counts `c` times the unit of the return.
    """

    c: float = 1.0

    def search(
        self,
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        *,
        tree: SearchTree | None = None,
        max_nodes: int | None = None,
    ) -> SearchOutput:
        return self._run(
            emcts.uct_policy,
            key,
            model,
            states,
            params,
            tree=tree,
            max_nodes=max_nodes,
            c=self.c * model.return_range,
        )


@dataclasses.dataclass(frozen=True)
class Gumbel(SearchPlanner):
    """Gumbel MuZero's search, its epistemic form with `beta`. A `gumbel_scale` of 0 removes the noise."""

    exploring_prior: Prior = exploration_prior
    max_considered_actions: int = 16
    gumbel_scale: float = 1.0

    def search(
        self,
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        *,
        tree: SearchTree | None = None,
        max_nodes: int | None = None,
    ) -> SearchOutput:
        return self._run(
            emcts.gumbel_muzero_policy,
            key,
            model,
            states,
            params,
            tree=tree,
            max_nodes=max_nodes,
            max_num_considered_actions=self.max_considered_actions,
            gumbel_scale=self.gumbel_scale,
        )


@dataclasses.dataclass(frozen=True)
class UbeAtRoot:
    """AZ+UBE: a search that ignores uncertainty.

    Episodes that explore take the action with the best one-step score (`eq:only_ube`).
    """

    planner: Puct | Gumbel

    def model_steps(self, num_actions: int) -> int:
        return self.planner.model_steps(num_actions) + num_actions

    def __call__(
        self, key: Key, model: PlanningModel[PyTree], states: PyTree, params: ExplorationParams
    ) -> Plan:
        search_key, score_key = jax.random.split(key)
        out = self.planner.search(search_key, model, states, _without_beta(params))
        return self._choose(score_key, model, states, params, out)

    def grow(
        self,
        key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        tree: SearchTree | None,
    ) -> tuple[Plan, SearchTree]:
        search_key, score_key = jax.random.split(key)
        plain, room = _without_beta(params), self.planner.room
        out = self.planner.search(search_key, model, states, plain, tree=tree, max_nodes=room)
        return self._choose(score_key, model, states, params, out), out.search_tree

    def _choose(
        self,
        score_key: Key,
        model: PlanningModel[PyTree],
        states: PyTree,
        params: ExplorationParams,
        out: SearchOutput,
    ) -> Plan:
        """Returns the plan of a search, with the action of the best score in episodes that explore."""
        root, step = model.root(states, policy_prior), model.recurrent_fn(policy_prior)
        scores = emcts.ube_root_scores(None, score_key, root, step, out.search_tree, beta=params.beta)
        plan = self.planner.plan(out, _without_beta(params))
        return plan.replace(action=jnp.where(params.exploring, jnp.argmax(scores, axis=-1), plan.action))


def _without_beta(params: ExplorationParams) -> ExplorationParams:
    return params.replace(beta=jnp.zeros_like(params.beta))


def _plan(out: SearchOutput, action: Int[Array, "B"]) -> Plan:
    summary = out.search_tree.summary()
    visited = summary.visit_counts > 0
    return Plan(
        action=action.astype(jnp.int32),
        policy=out.action_weights,
        qvalues=jnp.where(visited, summary.qvalues, summary.value[:, None]),
        qvalue_stds=jnp.where(visited, summary.qvalues_std, summary.value_std[:, None]),
        value=summary.value,
        value_std=summary.value_std,
        invalid=out.search_tree.root_invalid_actions,
    )
