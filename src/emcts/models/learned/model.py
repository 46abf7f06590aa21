"""MuZero's planning model: a representation of the first state, and learned dynamics from there on."""

import dataclasses
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment, FiniteEnvironment
from emcts.models.evaluators import NoNovelty, Observe, StateEstimate, Transition, all_states, decode
from emcts.models.learned.local_uncertainty import (
    LatentNovelty,
    LocalUncertainty,
    PlannedTransition,
    with_action,
)
from emcts.models.networks import Head, Networks
from emcts.models.statistics import Statistics, normalise, normalises, return_range, update_statistics
from emcts.models.ube import horizon_factor, leaf_variance
from emcts.models.world_model import PlanningModel, Prior, Unroll, WorldModel
from emcts.novelty import Novelty
from emcts.types import (
    Key,
    Params,
    RecurrentFn,
    RecurrentFnOutput,
    Replaceable,
    RootFnOutput,
    Scalar,
    record,
)

MOST_UNROLLED = 8  # steps: without a loop XLA finds that two unrolls of the same states are one

Latent = Float[Array, "latent"]
StepsLeft = Callable[[PyTree], Float[Array, ""]]
Wrapper = Callable[[PlanningModel[PyTree]], PlanningModel[PyTree]]


class ModelNetworks(eqx.Module):
    """The networks of a learned model. Heads read latent states; reward and continuation also read the action."""

    representation: Callable[[PyTree], Latent]
    dynamics: Callable[[Array], Latent]
    heads: Networks
    statistics: Statistics | None = None


@runtime_checkable
class DynamicsLoss(Protocol):
    """Which losses train the dynamics."""

    def head_input(self, latent: Latent) -> Latent:
        """Returns a latent state as heads read it, with or without a gradient."""

    def consistency(self, predicted: Latent, encoded: Latent) -> Float[Array, ""]:
        """Returns the loss of a predicted state, given the representation of the state that followed."""


@record
class LatentState(Replaceable):
    """The embedding of a node."""

    latent: Float[Array, "*B latent"]
    carry: PyTree  # of the local uncertainty
    steps_left: Float[Array, "*B"] | Int[Array, "*B"]  # of the episode if that is known, else infinite


@dataclasses.dataclass(frozen=True)
class LearnedPlanningModel:
    """A planning model over latent states. Discounts are multiplied by the predicted probability of continuation."""

    world_model: "LearnedModel"
    env: AnyEnvironment
    networks: ModelNetworks
    novelty: PyTree

    @property
    def return_range(self) -> Scalar:
        return self.world_model.return_range(self.networks)

    @property
    def _largest_variance(self) -> Scalar:
        return self.world_model.max_variance * self.return_range**2

    def root(self, states: PyTree, prior: Prior) -> RootFnOutput:
        nodes = jax.vmap(self._represent)(states)
        estimate = jax.vmap(self._estimate)(nodes.latent)
        variance = jnp.clip(estimate.ube, 0, self._largest_variance)
        logits = jnp.where(self.invalid_actions(states), -jnp.inf, prior(estimate))
        return RootFnOutput(logits, estimate.value, nodes, variance)

    def invalid_actions(self, states: PyTree) -> Bool[Array, "B A"]:
        """Returns the illegal actions, known at the root alone: those of a predicted state are not."""
        return ~jax.vmap(self.env.legal)(states)

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        def step(
            _: Params, key: Key, action: Int[Array, "B"], nodes: LatentState
        ) -> tuple[RecurrentFnOutput, LatentState]:
            out, estimate, after = self._steps(nodes, action, key)
            return out.replace(prior_logits=prior(estimate)), after

        return step

    def estimate(self, states: PyTree) -> StateEstimate:
        return jax.vmap(lambda state: self._estimate(self._represent(state).latent))(states)

    def stands_for(self, embeddings: LatentState, states: PyTree) -> Bool[Array, "B"]:
        """Returns True: a predicted latent state is not compared with the one that came."""
        return jnp.ones(embeddings.latent.shape[:1], bool)

    def step(self, states: PyTree, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        out, _, _ = self._steps(jax.vmap(self._represent)(states), actions, key)
        return out

    def _represent(self, state: PyTree) -> LatentState:
        model = self.world_model
        latent = model.encode(self.env, self.networks, state)
        return LatentState(latent, model.local_uncertainty.init_carry(state), model.steps_left(state))

    def _estimate(self, latent: Latent) -> StateEstimate:
        heads = self.networks.heads
        if not self.world_model.predicts_variances:
            heads = dataclasses.replace(heads, ube=None)
        return decode(heads, heads.outputs(latent), self.return_range**2)

    def _steps(
        self, nodes: LatentState, actions: Int[Array, "B"], key: Key
    ) -> tuple[RecurrentFnOutput, StateEstimate, LatentState]:
        return jax.vmap(self._step)(nodes, actions, jax.random.split(key, actions.shape[0]))

    def _step(
        self, node: LatentState, action: Int[Array, ""], key: Key
    ) -> tuple[RecurrentFnOutput, StateEstimate, LatentState]:
        model, heads = self.world_model, self.networks.heads
        uncertainty = model.local_uncertainty
        pair = with_action(node.latent, action, self.env.num_actions)
        carry = uncertainty.step_carry(self.env, node.carry, action, key)
        transition = PlannedTransition(node.latent, action, node.carry, carry)
        variance_unit = self.return_range**2
        eta = variance_unit * uncertainty.variance(self.env, self.novelty, transition)
        after = LatentState(self.networks.dynamics(pair), carry, jnp.maximum(node.steps_left - 1, 0))
        estimate = self._estimate(after.latent)
        reward = _required(heads.reward, "reward")
        continuation = _required(heads.continuation, "continuation")
        factor = model.leaf_factor(model.discount, after.steps_left)
        out = RecurrentFnOutput(
            reward=reward.codec.decode(reward(pair)),
            discount=model.discount * continuation.codec.decode(continuation(pair)),
            prior_logits=None,
            value=estimate.value,
            reward_variance=uncertainty.reward_variance(self.env, self.novelty, transition, variance_unit),
            value_variance=leaf_variance(estimate.ube, eta, factor, self._largest_variance),
        )
        return out, estimate, after


def unwrapped(model: PlanningModel[PyTree]) -> PlanningModel[PyTree]:
    """Returns the planning model as it is."""
    return model


def unknown_horizon(state: PyTree) -> Float[Array, ""]:
    """Returns infinity: the number of remaining steps is not known."""
    return jnp.float32(jnp.inf)


@dataclasses.dataclass(frozen=True)
class LearnedModel:
    """Plans with learned dynamics.

    `observe` gives what the representation reads of a state. `steps_left` bounds for how many steps uncertainty can
    accumulate behind a leaf: the number of remaining steps is known. With `tabular`, estimates of every state are
    computed once. `wrap` is applied to each planning model, for rules such as that of appendix B. Variances are in
    units of the squared `fixed_range`; None is the range of the returns that was seen. `leaf_factor` is the leaf rule's
    `c`, given the discount and the steps left. Without `predicts_variances` the UBE head is not run: variances are 0.
    """

    local_uncertainty: LocalUncertainty
    dynamics_loss: DynamicsLoss
    observe: Observe
    discount: float
    steps_left: StepsLeft = unknown_horizon
    max_variance: float = float("inf")
    tabular: bool = False
    wrap: Wrapper = unwrapped
    fixed_range: float | None = 1.0
    leaf_factor: Callable[[float, Float[Array, "*B"] | Int[Array, "*B"]], Float[Array, "*B"]] = horizon_factor
    predicts_variances: bool = True

    def __post_init__(self) -> None:
        if self.discount == 1 and self.steps_left is unknown_horizon:
            raise ValueError(
                "a discount of 1 bounds no endless sum: give `steps_left`, such as that of a time limit, "
                "or a discount below 1"
            )

    @property
    def novelty(self) -> Novelty:
        return self.local_uncertainty.novelty

    @property
    def simulator_steps(self) -> int:
        return int(self.local_uncertainty.uses_simulator)

    @property
    def reads_state_after(self) -> bool:
        return self.local_uncertainty.reads_state_after

    def heads(self, networks: ModelNetworks) -> Networks:
        return networks.heads

    def return_range(self, networks: ModelNetworks) -> Scalar:
        return return_range(networks, self.fixed_range)

    def encode(self, env: AnyEnvironment, networks: ModelNetworks, state: PyTree) -> Latent:
        return networks.representation(normalise(networks.statistics, self.observe(env, state)))

    def planning_models(
        self, env: AnyEnvironment, networks: ModelNetworks
    ) -> Callable[[PyTree], PlanningModel[PyTree]]:
        return lambda novelty: self.wrap(LearnedPlanningModel(self, env, networks, novelty))

    def without_novelty(self) -> WorldModel[PyTree]:
        return dataclasses.replace(
            self, local_uncertainty=LatentNovelty(NoNovelty()), predicts_variances=False
        )

    def unroll(
        self,
        env: AnyEnvironment,
        networks: ModelNetworks,
        states: PyTree,
        actions: Int[Array, "K"],
        over: Bool[Array, "K"],
    ) -> Unroll:
        """Predicts from the first state on, given the actions. States after the end of the episode are not valid."""
        encoded = jax.vmap(lambda state: self.encode(env, networks, state))(states)

        def predicted(dynamics: Callable[[Array], Latent], latent: Latent) -> Float[Array, "K latent"]:
            def step(latent: Latent, action: Int[Array, ""]) -> tuple[Latent, Latent]:
                pair = with_action(latent, action, env.num_actions)
                return half_gradient(dynamics(pair)), latent

            return jax.lax.scan(step, latent, actions, unroll=min(len(actions), MOST_UNROLLED))[1]

        # A representation that is easy to predict may be useless: consistency trains the dynamics alone.
        from_first = predicted(networks.dynamics, jax.lax.stop_gradient(encoded[0]))
        to_first = predicted(jax.lax.stop_gradient(networks.dynamics), encoded[0])
        # The same numbers, with the gradients of both: into the dynamics, and into the first state.
        latents = from_first + (to_first - jax.lax.stop_gradient(to_first))
        inputs = jax.vmap(self.dynamics_loss.head_input)(latents)
        pairs = jax.vmap(with_action, in_axes=(0, 0, None))(inputs, actions, env.num_actions)
        heads = networks.heads
        consistency = jax.vmap(self.dynamics_loss.consistency)(from_first, encoded).at[0].set(0.0)
        ends_before = jnp.cumsum(over) - over
        return Unroll(
            raw=jax.vmap(heads.outputs)(inputs),
            reward=jax.vmap(_required(heads.reward, "reward"))(pairs),
            continuation=jax.vmap(_required(heads.continuation, "continuation"))(pairs),
            consistency=consistency,
            valid=ends_before == 0,
        )

    def update_novelty(
        self, env: AnyEnvironment, networks: ModelNetworks, novelty: PyTree, transitions: Transition
    ) -> PyTree:
        def encode(state: PyTree) -> Latent:
            return self.encode(env, networks, state)

        return self.local_uncertainty.update(env, encode, novelty, transitions)

    def update_statistics(
        self,
        env: AnyEnvironment,
        networks: ModelNetworks,
        transitions: Transition,
        returns: Float[Array, "B"],
    ) -> ModelNetworks:
        if not normalises(networks):
            return update_statistics(networks, returns)
        observed = jax.vmap(lambda state: self.observe(env, state))(transitions.before)
        return update_statistics(networks, returns, observed)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, transitions: Transition) -> PyTree:
        return self.local_uncertainty.record_rewards(env, novelty, transitions)

    def all_states(self, env: AnyEnvironment) -> PyTree | None:
        return all_states(env) if self.tabular and isinstance(env, FiniteEnvironment) else None


def half_gradient(latent: Latent) -> Latent:
    """Returns the latent state with half of its gradient, so that long unrolls do not outweigh the first step."""
    return 0.5 * latent + jax.lax.stop_gradient(0.5 * latent)


def _required(head: Head | None, name: str) -> Head:
    if head is None:
        raise ValueError(f"a learned model predicts {name}: give networks with that head")
    return head
