"""How a search is run for a batch of states, and how an action is chosen from it.

A planner is called as `planner(key, model, states, brief)`. A brief says, for each of the states, how much
uncertainty is worth (`beta`) and whether the episode explores.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

import emcts
from emcts.models.evaluators import StateEstimate
from emcts.models.world_model import PlanningModel, Prior
from emcts.types import Key, Replaceable, record


@record
class ExplorationParams(Replaceable):
    """What a search is for."""

    beta: Float[Array, "B"]
    exploring: Bool[Array, "B"]


@record
class Plan(Replaceable):
    """What a search found. Statistics are of its root; `policy` is the target of a policy head."""

    action: Int[Array, "B"]
    policy: Float[Array, "B A"]
    qvalues: Float[Array, "B A"]  # completed: untried actions have the root's value
    qvalue_stds: Float[Array, "B A"]
    value: Float[Array, "B"]
    value_std: Float[Array, "B"]
    invalid: Bool[Array, "B A"]  # actions that are not legal


ExploringPrior = Callable[[StateEstimate], Float[Array, "B A"]]


def uniform(estimate: StateEstimate) -> Float[Array, "B A"]:
    """No prior: all actions alike."""
    return jnp.zeros_like(estimate.policy)


def exploiting_prior(estimate: StateEstimate) -> Float[Array, "B A"]:
    """The prior of searches that do not explore: the policy itself."""
    return estimate.policy


def exploration_head(estimate: StateEstimate) -> Float[Array, "B A"]:
    """The prior that the exploration policy gives."""
    return estimate.exploration


@runtime_checkable
class Planner(Protocol):
    def __call__(self, key: Key, model: PlanningModel, states: Any, params: ExplorationParams) -> Plan: ...

    def model_steps(self, num_actions: int) -> int:
        """How many steps of the model it takes to plan for one state."""


@dataclasses.dataclass(frozen=True)
class Puct:
    """MuZero's search, EPUCT with `beta`.

    Episodes that explore take the most visited action; the others draw one by visits.
    """

    num_simulations: int
    exploring_prior: ExploringPrior = uniform
    dirichlet_fraction: float = 0.0
    dirichlet_alpha: float = 0.3
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _check_simulations(self.num_simulations)

    def model_steps(self, num_actions: int) -> int:
        return self.num_simulations

    def __call__(self, key: Key, model: PlanningModel, states: Any, params: ExplorationParams) -> Plan:
        return self.plan(self.search(key, model, states, params), params)

    def plan(self, out: Any, params: ExplorationParams) -> Plan:
        best = jnp.argmax(out.action_weights, axis=-1)
        return _plan(out, jnp.where(params.exploring, best, out.action))

    def search(self, key: Key, model: PlanningModel, states: Any, params: ExplorationParams) -> Any:
        return _search(
            emcts.muzero_policy,
            key,
            model,
            states,
            params,
            _prior(self.exploring_prior, params),
            self.num_simulations,
            dirichlet_fraction=self.dirichlet_fraction,
            dirichlet_alpha=self.dirichlet_alpha,
            temperature=self.temperature,
        )


@dataclasses.dataclass(frozen=True)
class Uct:
    """EUCT: no prior and no normalisation of values, `c` times the confidence bound; the most visited action."""

    num_simulations: int
    c: float = 1.0

    def __post_init__(self) -> None:
        _check_simulations(self.num_simulations)

    def model_steps(self, num_actions: int) -> int:
        return self.num_simulations

    def __call__(self, key: Key, model: PlanningModel, states: Any, params: ExplorationParams) -> Plan:
        prior = _prior(uniform, params)
        out = _search(
            emcts.uct_policy,
            key,
            model,
            states,
            params,
            prior,
            self.num_simulations,
            c=self.c,
        )
        return _plan(out, out.action)


@dataclasses.dataclass(frozen=True)
class Gumbel:
    """Gumbel MuZero's search, its epistemic form with `beta`. `gumbel_scale` 0 takes the noise away."""

    num_simulations: int
    exploring_prior: ExploringPrior = exploration_head
    max_considered_actions: int = 16
    gumbel_scale: float = 1.0

    def __post_init__(self) -> None:
        _check_simulations(self.num_simulations)

    def model_steps(self, num_actions: int) -> int:
        return self.num_simulations

    def __call__(self, key: Key, model: PlanningModel, states: Any, params: ExplorationParams) -> Plan:
        return self.plan(self.search(key, model, states, params), params)

    def plan(self, out: Any, params: ExplorationParams) -> Plan:
        return _plan(out, out.action)

    def search(self, key: Key, model: PlanningModel, states: Any, params: ExplorationParams) -> Any:
        return _search(
            emcts.gumbel_muzero_policy,
            key,
            model,
            states,
            params,
            _prior(self.exploring_prior, params),
            self.num_simulations,
            max_num_considered_actions=self.max_considered_actions,
            gumbel_scale=self.gumbel_scale,
        )


@dataclasses.dataclass(frozen=True)
class UbeAtRoot:
    """AZ+UBE: a search that ignores uncertainty.

    Episodes that explore take the action with the best score of one step ahead (`eq:only_ube`).
    """

    planner: Puct | Gumbel

    def model_steps(self, num_actions: int) -> int:
        return self.planner.model_steps(num_actions) + num_actions

    def __call__(self, key: Key, model: PlanningModel, states: Any, params: ExplorationParams) -> Plan:
        search_key, score_key = jax.random.split(key)
        plain = params.replace(beta=jnp.zeros_like(params.beta))
        out = self.planner.search(search_key, model, states, plain)
        root, step = model.root(states, exploiting_prior), model.recurrent_fn(exploiting_prior)
        scores = emcts.ube_root_scores(None, score_key, root, step, out.search_tree, beta=params.beta)
        plan = self.planner.plan(out, plain)
        return plan.replace(action=jnp.where(params.exploring, jnp.argmax(scores, axis=-1), plan.action))


def no_exploration(states: Any, beta: float = 0.0) -> ExplorationParams:
    """For searches that evaluate or make targets."""
    batch = jax.tree.leaves(states)[0].shape[0]
    return ExplorationParams(jnp.full(batch, beta), jnp.zeros(batch, bool))


def _check_simulations(number: int) -> None:
    if number < 1:
        raise ValueError(f"a search of {number} simulations finds nothing: give at least 1")


def _search(
    policy: Callable[..., Any],
    key: Key,
    model: PlanningModel,
    states: Any,
    params: ExplorationParams,
    prior: Prior,
    num_simulations: int,
    **rule: Any,
) -> Any:
    """A search policy of the library, run on a model; `rule` is what only this policy asks for."""
    root, step = model.root(states, prior), model.recurrent_fn(prior)
    return policy(None, key, root, step, num_simulations, model.illegal(states), beta=params.beta, **rule)


def _prior(exploring_prior: ExploringPrior, params: ExplorationParams) -> Prior:
    return lambda estimate: jnp.where(params.exploring[:, None], exploring_prior(estimate), estimate.policy)


def _plan(out: Any, action: Int[Array, "B"]) -> Plan:
    summary = out.search_tree.summary()
    tried = summary.visit_counts > 0
    return Plan(
        action=action.astype(jnp.int32),
        policy=out.action_weights,
        qvalues=jnp.where(tried, summary.qvalues, summary.value[:, None]),
        qvalue_stds=jnp.where(tried, summary.qvalues_std, summary.value_std[:, None]),
        value=summary.value,
        value_std=summary.value_std,
        invalid=out.search_tree.root_invalid_actions,
    )
