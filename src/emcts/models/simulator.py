"""AlphaZero's planning model: the environment's own transitions, evaluated by networks and novelty estimator."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment, Outcome, is_deterministic
from emcts.models.evaluators import EvaluateState, EvaluateTransition, Evaluator, StateEstimate, Transition
from emcts.models.networks import Networks
from emcts.models.statistics import normalises, return_range, update_statistics
from emcts.models.ube import leaf_variance
from emcts.models.world_model import Prior, Unroll, WorldModel
from emcts.novelty import Novelty
from emcts.types import (
    Key,
    Params,
    RecurrentFn,
    RecurrentFnOutput,
    RootFnOutput,
    SampledOutcomes,
    Scalar,
)

ROUNDING = 1e-5
LeafFactor = Callable[[PyTree], Float[Array, ""]]


@dataclasses.dataclass(frozen=True)
class SimulatorPlanningModel:
    """A planning model whose embeddings are states of `env`.

    The variance of a leaf's value is `max(u, leaf_factor(leaf) * novelty)`, at most `max_variance` (`eq:ube_max`),
    where the novelty is that of the transition into the leaf. Values and variances are not backed up past a terminal
    state. An episode that was cut off is not over: the edge to its last state counts that state's value in full, and
    the search goes no further. `return_range` is the unit of the return: `max_variance` is in terms of its square.
    A search samples `num_outcomes` outcomes of each action.
    """

    env: AnyEnvironment
    evaluate_state: EvaluateState
    evaluate_transition: EvaluateTransition
    discount: float
    leaf_factor: LeafFactor
    max_variance: float
    return_range: Scalar = 1.0
    num_outcomes: int = 1

    @property
    def _largest_variance(self) -> Scalar:
        return self.max_variance * self.return_range**2

    def root(self, states: PyTree, prior: Prior) -> RootFnOutput:
        estimate = self.estimate(states)
        variance = jnp.clip(estimate.ube, 0, self._largest_variance)
        return RootFnOutput(self._mask_invalid(prior(estimate), states), estimate.value, states, variance)

    def invalid_actions(self, states: PyTree) -> Bool[Array, "B A"]:
        return ~jax.vmap(self.env.legal)(states)

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        return self._one_outcome(prior) if self.num_outcomes == 1 else self._sampled_outcomes(prior)

    def _one_outcome(self, prior: Prior) -> RecurrentFn:
        def step(
            _: Params, key: Key, action: Int[Array, "B"], states: PyTree
        ) -> tuple[RecurrentFnOutput, PyTree]:
            keys = jax.random.split(key, action.shape[0])
            out, estimate, after, cut_off = jax.vmap(self._step)(states, action, keys)
            logits = self._mask_invalid(prior(estimate), after)
            return bootstrap_where(cut_off, out.replace(prior_logits=logits)), after

        return step

    def _sampled_outcomes(self, prior: Prior) -> SampledOutcomes[PyTree, Outcome]:
        def draw(_: Params, key: Key, action: Int[Array, ""], state: PyTree) -> tuple[Outcome, PyTree]:
            after, outcome = self.env.step(state, action, key)
            return outcome, after

        def evaluate(
            _: Params, action: Int[Array, "B"], before: PyTree, outcome: Outcome, after: PyTree
        ) -> RecurrentFnOutput:
            out, estimate = jax.vmap(self._evaluate)(before, action, after, outcome)
            logits = self._mask_invalid(prior(estimate), after)
            return bootstrap_where(outcome.cut_off, out.replace(prior_logits=logits))

        return SampledOutcomes(draw, evaluate, self.num_outcomes)

    def estimate(self, states: PyTree) -> StateEstimate:
        return jax.vmap(self.evaluate_state)(states)

    def with_variance(self, ube: Callable[[PyTree], Float[Array, ""]]) -> "SimulatorPlanningModel":
        """Returns the same model with another variance of each state's value, in place of the UBE head's."""

        def evaluate(state: PyTree) -> StateEstimate:
            return self.evaluate_state(state).replace(ube=ube(state))

        return dataclasses.replace(self, evaluate_state=evaluate)

    def stands_for(self, embeddings: PyTree, states: PyTree) -> Bool[Array, "B"]:
        """Returns whether they are equal: a stochastic step may have led elsewhere than the one in the tree."""
        batch = jax.tree.leaves(states)[0].shape[:1]
        if is_deterministic(self.env):
            return jnp.ones(batch, bool)
        same = jax.tree.leaves(jax.tree.map(_equal_rows, embeddings, states))
        return functools.reduce(jnp.logical_and, same)

    def step(self, states: PyTree, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        return jax.vmap(self._step)(states, actions, jax.random.split(key, actions.shape[0]))[0]

    def _mask_invalid(self, logits: Float[Array, "B A"], states: PyTree) -> Float[Array, "B A"]:
        return jnp.where(self.invalid_actions(states), -jnp.inf, logits)

    def _step(
        self, state: PyTree, action: Int[Array, ""], key: Key
    ) -> tuple[RecurrentFnOutput, StateEstimate, PyTree, Bool[Array, ""]]:
        after, outcome = self.env.step(state, action, key)
        out, estimate = self._evaluate(state, action, after, outcome)
        return out, estimate, after, outcome.cut_off

    def _evaluate(
        self, state: PyTree, action: Int[Array, ""], after: PyTree, outcome: Outcome
    ) -> tuple[RecurrentFnOutput, StateEstimate]:
        transition = self.evaluate_transition(state, action, after, outcome)
        estimate = self.evaluate_state(after)
        out = RecurrentFnOutput(
            reward=transition.reward,
            discount=jnp.where(outcome.terminated, 0.0, self.discount),
            prior_logits=None,
            value=estimate.value,
            reward_variance=transition.reward_variance,
            value_variance=leaf_variance(
                estimate.ube, transition.novelty, self.leaf_factor(after), self._largest_variance
            ),
        )
        return out, estimate


def _equal_rows(one: Array, two: Array) -> Bool[Array, "B"]:
    """Returns which rows are equal but for the rounding of two programs."""
    if jax.dtypes.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, two = jax.random.key_data(one), jax.random.key_data(two)
    if jnp.issubdtype(one.dtype, jnp.inexact):
        equal = jnp.isclose(one, two, rtol=ROUNDING, atol=ROUNDING, equal_nan=True)
    else:
        equal = one == two
    return jnp.all(equal.reshape(len(equal), -1), axis=1)


def bootstrap_where(cut_off: Bool[Array, "B"], step: RecurrentFnOutput) -> RecurrentFnOutput:
    """Makes `r + g * v` the reward of steps after which an episode was cut off, and their discount 0.

    The variance is that of independent estimates.
    """
    variance = step.reward_variance + step.discount**2 * step.value_variance
    return step.replace(
        reward=jnp.where(cut_off, step.reward + step.discount * step.value, step.reward),
        reward_variance=jnp.where(cut_off, variance, step.reward_variance),
        discount=jnp.where(cut_off, 0.0, step.discount),
    )


@dataclasses.dataclass(frozen=True)
class SimulatorModel:
    """Plans with the environment itself. `leaf_factor` gives the leaf rule's `c`, as a function of the leaf's state.

    Variances are in units of the squared `fixed_range`; None is the range of the returns that was seen. A search
    samples `num_outcomes` outcomes of each action.
    """

    evaluator: Evaluator[PyTree]
    discount: float
    leaf_factor: LeafFactor
    max_variance: float = float("inf")
    fixed_range: float | None = 1.0
    num_outcomes: int = 1

    @property
    def novelty(self) -> Novelty:
        return self.evaluator.novelty

    @property
    def simulator_steps(self) -> int:
        return self.num_outcomes

    @property
    def reads_state_after(self) -> bool:
        return True

    def heads(self, networks: Networks) -> Networks:
        return networks

    def return_range(self, networks: Networks) -> Scalar:
        return return_range(networks, self.fixed_range)

    def planning_models(
        self, env: AnyEnvironment, networks: Networks
    ) -> Callable[[PyTree], SimulatorPlanningModel]:
        unit = self.return_range(networks)
        evaluate_state = self.evaluator.state_fn(env, networks, unit**2)
        with_novelty = self.evaluator.transition_fn(env, networks, unit**2)
        rule = (self.discount, self.leaf_factor, self.max_variance, unit, self.num_outcomes)
        return lambda novelty: SimulatorPlanningModel(env, evaluate_state, with_novelty(novelty), *rule)

    def without_novelty(self) -> WorldModel[PyTree]:
        return dataclasses.replace(self, evaluator=self.evaluator.without_novelty())

    def unroll(
        self,
        env: AnyEnvironment,
        networks: Networks,
        states: PyTree,
        actions: Int[Array, "K"],
        over: Bool[Array, "K"],
    ) -> Unroll:
        """Evaluates each state by itself: an end of an episode between them changes nothing."""
        raw, reward = jax.vmap(self.evaluator.raw_outputs, in_axes=(None, None, 0, 0))(
            env, networks, states, actions
        )
        return Unroll(raw, reward, None, jnp.zeros(over.shape), jnp.ones_like(over))

    def update_novelty(
        self, env: AnyEnvironment, networks: Networks, novelty: PyTree, transitions: Transition
    ) -> PyTree:
        inputs = jax.vmap(self.evaluator.novelty_input, in_axes=(None, 0, 0, 0))(
            env, transitions.before, transitions.action, transitions.after
        )
        return self.evaluator.novelty.update(novelty, inputs, transitions.valid)

    def update_statistics(
        self, env: AnyEnvironment, networks: Networks, transitions: Transition, returns: Float[Array, "B"]
    ) -> Networks:
        if not normalises(networks):
            return update_statistics(networks, returns)
        observed = jax.vmap(lambda state: self.evaluator.observe(env, state))(transitions.before)
        return update_statistics(networks, returns, observed)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, transitions: Transition) -> PyTree:
        return self.evaluator.record_rewards(env, novelty, transitions)

    def all_states(self, env: AnyEnvironment) -> PyTree | None:
        return self.evaluator.all_states(env)
