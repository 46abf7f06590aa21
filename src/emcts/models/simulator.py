"""AlphaZero's planning model: the environment's own transitions, judged by network and novelty estimator."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment
from emcts.models.evaluators import Batch, EvaluateState, EvaluateTransition, Evaluator, StateEstimate
from emcts.models.networks import Networks
from emcts.models.ube import leaf_variance
from emcts.models.world_model import Prior, Transition, Unrolled, WorldModel
from emcts.novelty import Novelty
from emcts.types import Key, RecurrentFn, RecurrentFnOutput, RootFnOutput

LeafFactor = Callable[[Any], Float[Array, ""]]


@dataclasses.dataclass(frozen=True)
class SimulatorPlanningModel:
    """Embeddings are states of `env`.

    The variance of a leaf's value is `max(u, leaf_factor(leaf) * novelty)`, at most `largest_variance` (`eq:ube_max`),
    where the novelty is that of the transition into the leaf. Past the end of an episode there is nothing. An episode
    that was cut off is not over: the edge to its last state counts that state's value in full, and leads no further.
    """

    env: AnyEnvironment
    evaluate_state: EvaluateState
    evaluate_transition: EvaluateTransition
    discount: float
    leaf_factor: LeafFactor
    largest_variance: float

    def root(self, states: Any, prior: Prior) -> RootFnOutput:
        estimate = self.estimate(states)
        variance = jnp.clip(estimate.ube, 0, self.largest_variance)
        return RootFnOutput(self._legal_only(prior(estimate), states), estimate.value, states, variance)

    def illegal(self, states: Any) -> Bool[Array, "B A"]:
        return ~jax.vmap(self.env.legal)(states)

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        def step(_: Any, key: Key, action: Int[Array, "B"], states: Any) -> tuple[RecurrentFnOutput, Any]:
            keys = jax.random.split(key, action.shape[0])
            out, estimate, after, cut_off = jax.vmap(self._step)(states, action, keys)
            logits = self._legal_only(prior(estimate), after)
            return bootstrap_where(cut_off, out.replace(prior_logits=logits)), after

        return step

    def estimate(self, states: Any) -> StateEstimate:
        return jax.vmap(self.evaluate_state)(states)

    def step(self, states: Any, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        return jax.vmap(self._step)(states, actions, jax.random.split(key, actions.shape[0]))[0]

    def _legal_only(self, logits: Float[Array, "B A"], states: Any) -> Float[Array, "B A"]:
        return jnp.where(self.illegal(states), -jnp.inf, logits)

    def _step(
        self, state: Any, action: Int[Array, ""], key: Key
    ) -> tuple[Any, StateEstimate, Any, Bool[Array, ""]]:
        after, outcome = self.env.step(state, action, key)
        step = self.evaluate_transition(state, action, after, outcome)
        estimate = self.evaluate_state(after)
        out = RecurrentFnOutput(
            reward=step.reward,
            discount=jnp.where(outcome.terminated, 0.0, self.discount),
            prior_logits=None,
            value=estimate.value,
            reward_variance=step.reward_variance,
            value_variance=leaf_variance(
                estimate.ube, step.novelty, self.leaf_factor(after), self.largest_variance
            ),
        )
        return out, estimate, after, outcome.cut_off


def bootstrap_where(cut_off: Bool[Array, "B"], step: RecurrentFnOutput) -> RecurrentFnOutput:
    """Steps that end where an episode was cut off: `r + g * v` is their reward, and a discount of 0 ends the search.

    Its variance is that of independent estimates.
    """
    variance = step.reward_variance + step.discount**2 * step.value_variance
    return step.replace(
        reward=jnp.where(cut_off, step.reward + step.discount * step.value, step.reward),
        reward_variance=jnp.where(cut_off, variance, step.reward_variance),
        discount=jnp.where(cut_off, 0.0, step.discount),
    )


@dataclasses.dataclass(frozen=True)
class SimulatorModel:
    """Plans with the environment itself. `leaf_factor` gives the leaf rule's `c`, of a leaf's state."""

    evaluator: Evaluator
    discount: float
    leaf_factor: LeafFactor
    largest_variance: float = float("inf")

    @property
    def novelty(self) -> Novelty:
        return self.evaluator.novelty

    @property
    def uses_simulator(self) -> bool:
        return True

    def heads(self, networks: Networks) -> Networks:
        return networks

    def models(self, env: AnyEnvironment, networks: Networks) -> Callable[[PyTree], SimulatorPlanningModel]:
        evaluate_state = self.evaluator.states(env, networks)
        with_novelty = self.evaluator.steps(env, networks)
        rule = (self.discount, self.leaf_factor, self.largest_variance)
        return lambda novelty: SimulatorPlanningModel(env, evaluate_state, with_novelty(novelty), *rule)

    def known(self) -> WorldModel:
        return dataclasses.replace(self, evaluator=self.evaluator.known())

    def unroll(
        self,
        env: AnyEnvironment,
        networks: Networks,
        states: Any,
        actions: Int[Array, "K"],
        over: Bool[Array, "K"],
    ) -> Unrolled:
        """Each state speaks for itself: an end in between changes nothing."""
        raw, reward = jax.vmap(self.evaluator.raw, in_axes=(None, None, 0, 0))(env, networks, states, actions)
        return Unrolled(raw, reward, None, jnp.zeros(over.shape), jnp.ones_like(over))

    def look(self, env: AnyEnvironment, networks: Networks, novelty: PyTree, moves: Transition) -> PyTree:
        seen = jax.vmap(self.evaluator.novelty_input, in_axes=(None, 0, 0, 0))(
            env, moves.before, moves.action, moves.after
        )
        return self.evaluator.novelty.update(novelty, seen, moves.counts)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        return self.evaluator.record_rewards(env, novelty, moves)

    def all_states(self, env: AnyEnvironment) -> Batch | None:
        return self.evaluator.all_states(env)
