"""MuZero's planning model: a representation of the first state, and learned dynamics from there on."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment
from emcts.models.evaluators import Batch, NoNovelty, StateEstimate, all_states, decode
from emcts.models.learned.local_uncertainty import (
    LatentNovelty,
    LocalUncertainty,
    PlannedTransition,
    with_action,
)
from emcts.models.networks import Head, Networks
from emcts.models.ube import horizon_factor, leaf_variance
from emcts.models.world_model import PlanningModel, Prior, Transition, Unrolled, WorldModel
from emcts.novelty import Novelty
from emcts.types import Key, RecurrentFn, RecurrentFnOutput, Replaceable, RootFnOutput, record

Latent = Float[Array, "latent"]


class ModelNetworks(eqx.Module):
    """A learned world. The heads read latent states; reward and end read them with the action."""

    representation: Callable[[Array], Latent]
    dynamics: Callable[[Array], Latent]
    heads: Networks


@runtime_checkable
class DynamicsLoss(Protocol):
    """What ties predicted latent states to the world: which losses reach the dynamics."""

    def shown(self, latent: Latent) -> Latent:
        """What the heads see of a latent state."""

    def consistency(self, predicted: Latent, encoded: Latent) -> Float[Array, ""]:
        """The loss of a predicted state, given the representation of the state that was."""


@record
class LatentState(Replaceable):
    """A state of a plan."""

    latent: Any
    carried: PyTree  # by the sense
    steps_left: Any  # of the episode, if that is known; else without end


@dataclasses.dataclass(frozen=True)
class LearnedPlanningModel:
    """Embeddings are thoughts. The end of an episode is learned: discounts fade by the chance of it."""

    world_model: "LearnedMind"
    env: AnyEnvironment
    networks: ModelNetworks
    novelty: PyTree

    def root(self, states: Any, prior: Prior) -> RootFnOutput:
        nodes = jax.vmap(self._represent)(states)
        estimate = jax.vmap(self._estimate)(nodes.latent)
        variance = jnp.clip(estimate.ube, 0, self.world_model.largest_variance)
        logits = jnp.where(self.illegal(states), -jnp.inf, prior(estimate))
        return RootFnOutput(logits, estimate.value, nodes, variance)

    def illegal(self, states: Any) -> Bool[Array, "B A"]:
        """Known at the root alone: what a predicted state allows is not."""
        return ~jax.vmap(self.env.legal)(states)

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        def step(_: Any, key: Key, action: Int[Array, "B"], nodes: Any) -> tuple[RecurrentFnOutput, Any]:
            out, estimate, after = self._steps(nodes, action, key)
            return out.replace(prior_logits=prior(estimate)), after

        return step

    def estimate(self, states: Any) -> StateEstimate:
        return jax.vmap(lambda state: self._estimate(self._represent(state).latent))(states)

    def step(self, states: Any, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        out, _, _ = self._steps(jax.vmap(self._represent)(states), actions, key)
        return out

    def _represent(self, state: Any) -> LatentState:
        world_model = self.world_model
        latent = world_model.encode(self.env, self.networks, state)
        return LatentState(latent, world_model.local_uncertainty.carry(state), world_model.steps_left(state))

    def _estimate(self, latent: Latent) -> StateEstimate:
        return decode(self.networks.heads, self.networks.heads.state(latent))

    def _steps(self, nodes: Any, actions: Int[Array, "B"], key: Key) -> Any:
        return jax.vmap(self._step)(nodes, actions, jax.random.split(key, actions.shape[0]))

    def _step(
        self, node: LatentState, action: Int[Array, ""], key: Key
    ) -> tuple[Any, StateEstimate, LatentState]:
        world_model, heads = self.world_model, self.networks.heads
        pair = with_action(node.latent, action, self.env.num_actions)
        followed = world_model.local_uncertainty.follow(self.env, node.carried, action, key)
        passed = PlannedTransition(node.latent, action, node.carried, followed)
        eta = world_model.local_uncertainty.variance(self.env, self.novelty, passed)
        after = LatentState(self.networks.dynamics(pair), followed, jnp.maximum(node.steps_left - 1, 0))
        estimate = self._estimate(after.latent)
        reward, continuation = _needed(heads.reward, "reward"), _needed(heads.continuation, "going")
        out = RecurrentFnOutput(
            reward=reward.codec.decode(reward(pair)),
            discount=world_model.discount * continuation.codec.decode(continuation(pair)),
            prior_logits=None,
            value=estimate.value,
            reward_variance=world_model.local_uncertainty.reward_variance(self.env, self.novelty, passed),
            value_variance=leaf_variance(
                estimate.ube,
                eta,
                horizon_factor(world_model.discount, after.steps_left),
                world_model.largest_variance,
            ),
        )
        return out, estimate, after


def as_it_is(model: PlanningModel) -> PlanningModel:
    """No wrapper."""
    return model


def endless(state: Any) -> Float[Array, ""]:
    """Nobody knows when an episode ends."""
    return jnp.float32(jnp.inf)


@dataclasses.dataclass(frozen=True)
class LearnedModel:
    """Plans with a learned world.

    `observe` gives what the representation reads of a state. `steps_left` bounds how long the unknown may go on behind
    a leaf: the clock of an episode is no secret. With `few_states` the world numbers its states, and what is thought of
    each is computed once. `around` wraps each model, for rules like that of appendix B.
    """

    local_uncertainty: LocalUncertainty
    dynamics_loss: DynamicsLoss
    observe: Callable[[Any, Any], Array]
    discount: float
    steps_left: Callable[[Any], Float[Array, ""]] = endless
    largest_variance: float = float("inf")
    few_states: bool = False
    around: Callable[[PlanningModel], PlanningModel] = as_it_is

    def __post_init__(self) -> None:
        if self.discount == 1 and self.steps_left is endless:
            raise ValueError(
                "a discount of 1 bounds no endless sum: give `steps_left`, such as that of a time limit, "
                "or a discount below 1"
            )

    @property
    def novelty(self) -> Novelty:
        return self.local_uncertainty.novelty

    @property
    def uses_simulator(self) -> bool:
        return self.local_uncertainty.uses_simulator

    def heads(self, networks: ModelNetworks) -> Networks:
        return networks.heads

    def encode(self, env: AnyEnvironment, networks: ModelNetworks, state: Any) -> Latent:
        return networks.representation(self.observe(env, state))

    def models(self, env: AnyEnvironment, networks: ModelNetworks) -> Callable[[PyTree], PlanningModel]:
        return lambda novelty: self.around(LearnedPlanningModel(self, env, networks, novelty))

    def known(self) -> WorldModel:
        return dataclasses.replace(self, local_uncertainty=LatentNovelty(NoNovelty()))

    def unroll(
        self,
        env: AnyEnvironment,
        networks: ModelNetworks,
        states: Any,
        actions: Int[Array, "K"],
        over: Bool[Array, "K"],
    ) -> Unrolled:
        """From the first state on, the model is alone with the actions. What comes after an end does not count."""
        encoded = jax.vmap(lambda state: self.encode(env, networks, state))(states)

        def predicted(latent: Latent) -> Float[Array, "K latent"]:
            def step(latent: Latent, action: Int[Array, ""]) -> tuple[Latent, Latent]:
                pair = with_action(latent, action, env.num_actions)
                return half_gradient(networks.dynamics(pair)), latent

            return jax.lax.scan(step, latent, actions)[1]

        shown = jax.vmap(self.dynamics_loss.shown)(predicted(encoded[0]))
        pairs = jax.vmap(with_action, in_axes=(0, 0, None))(shown, actions, env.num_actions)
        heads = networks.heads
        # What is easy to predict is not what matters: drift trains the dynamics, and not the representation.
        strayed = predicted(jax.lax.stop_gradient(encoded[0]))
        consistency = jax.vmap(self.dynamics_loss.consistency)(strayed, encoded).at[0].set(0.0)
        before = jnp.cumsum(over) - over
        return Unrolled(
            raw=jax.vmap(heads.state)(shown),
            reward=jax.vmap(_needed(heads.reward, "reward"))(pairs),
            continuation=jax.vmap(_needed(heads.continuation, "going"))(pairs),
            consistency=consistency,
            counts=before == 0,
        )

    def look(
        self, env: AnyEnvironment, networks: ModelNetworks, novelty: PyTree, moves: Transition
    ) -> PyTree:
        return self.local_uncertainty.look(
            env, lambda state: self.encode(env, networks, state), novelty, moves
        )

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        return self.local_uncertainty.record_rewards(env, novelty, moves)

    def all_states(self, env: Any) -> Batch | None:
        return all_states(env) if self.few_states else None


def half_gradient(latent: Latent) -> Latent:
    """The same latent state; of the gradient half comes back, so that many steps do not weigh more than the first."""
    return 0.5 * latent + jax.lax.stop_gradient(0.5 * latent)


def _needed(head: Head | None, name: str) -> Head:
    if head is None:
        raise ValueError(f"a learned model predicts {name}: give networks with that head")
    return head
