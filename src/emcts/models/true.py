"""AlphaZero's planning model: the environment's own transitions, judged by network and novelty estimator."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.envs.base import AnyEnvironment
from emcts.models.judges import StateJudge, StateJudgement, StepJudge
from emcts.models.ube import leaf_variance
from emcts.types import Key, RecurrentFn, RecurrentFnOutput, RootFnOutput

Prior = Callable[[StateJudgement], Float[Array, "B A"]]
LeafFactor = Callable[[Any], Float[Array, ""]]


@dataclasses.dataclass(frozen=True)
class TrueModel:
    """Embeddings are states of `env`.

    The variance of a leaf's value is `max(u, leaf_factor(leaf) * novelty)`, at most `largest_variance` (`eq:ube_max`),
    where the novelty is that of the transition into the leaf. Past the end of an episode there is nothing.
    """

    env: AnyEnvironment
    judge_state: StateJudge
    judge_step: StepJudge
    discount: float
    leaf_factor: LeafFactor
    largest_variance: float

    def root(self, states: Any, prior: Prior) -> RootFnOutput:
        judged = jax.vmap(self.judge_state)(states)
        variance = jnp.clip(judged.ube, 0, self.largest_variance)
        return RootFnOutput(self._legal_only(prior(judged), states), judged.value, states, variance)

    def illegal(self, states: Any) -> Bool[Array, "B A"]:
        """The actions that a search must not take from these states."""
        return ~jax.vmap(self.env.legal)(states)

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        def step(_: Any, key: Key, action: Int[Array, "B"], states: Any) -> tuple[RecurrentFnOutput, Any]:
            keys = jax.random.split(key, action.shape[0])
            out, judged, after = jax.vmap(self._step)(states, action, keys)
            return out.replace(prior_logits=self._legal_only(prior(judged), after)), after

        return step

    def step_stds(self, states: Any, key: Key) -> Float[Array, "B A"]:
        """`sqrt(eta(s,a) + gamma^2 max(u(s'), c * eta(s,a)))` of every action: the uncertainty one step ahead."""
        keys = jax.random.split(key, jax.tree.leaves(states)[0].shape[0])

        def of_action(action: Int[Array, ""]) -> Float[Array, "B"]:
            out, _, _ = jax.vmap(self._step, in_axes=(0, None, 0))(states, action, keys)
            return jnp.sqrt(out.reward_variance + out.discount**2 * out.value_variance)

        return jax.lax.map(of_action, jnp.arange(self.env.num_actions)).T

    def _legal_only(self, logits: Float[Array, "B A"], states: Any) -> Float[Array, "B A"]:
        return jnp.where(self.illegal(states), -jnp.inf, logits)

    def _step(self, state: Any, action: Int[Array, ""], key: Key) -> tuple[Any, StateJudgement, Any]:
        after, outcome = self.env.step(state, action, key)
        step = self.judge_step(state, action, after, outcome)
        judged = self.judge_state(after)
        out = RecurrentFnOutput(
            reward=step.reward,
            discount=jnp.where(outcome.terminated, 0.0, self.discount),
            prior_logits=None,
            value=judged.value,
            reward_variance=step.reward_variance,
            value_variance=leaf_variance(
                judged.ube, step.novelty, self.leaf_factor(after), self.largest_variance
            ),
        )
        return out, judged, after
