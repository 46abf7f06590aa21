"""MuZero's planning model: a representation of the first state, and learned dynamics from there on."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment
from emcts.models.evaluators import Batch, StateJudgement, Unaware, all_states, decode
from emcts.models.learned.local_uncertainty import Latents, Passed, Sense, with_action
from emcts.models.networks import Head, Networks
from emcts.models.ube import horizon_factor, leaf_variance
from emcts.models.world_model import Mind, Moves, PlanningModel, Prior, Unrolled
from emcts.novelty import Novelty
from emcts.types import Key, RecurrentFn, RecurrentFnOutput, Replaceable, RootFnOutput, record

Latent = Float[Array, "latent"]


class WorldNetworks(eqx.Module):
    """A learned world. The heads read latent states; reward and end read them with the action."""

    representation: Callable[[Array], Latent]
    dynamics: Callable[[Array], Latent]
    heads: Networks


@runtime_checkable
class Grounding(Protocol):
    """What ties predicted latent states to the world: which losses reach the dynamics."""

    def shown(self, latent: Latent) -> Latent:
        """What the heads see of a latent state."""

    def drift(self, predicted: Latent, encoded: Latent) -> Float[Array, ""]:
        """The loss of a predicted state, given the representation of the state that was."""


@record
class Thought(Replaceable):
    """A state of a plan."""

    latent: Any
    carried: PyTree  # by the sense
    steps_left: Any  # of the episode, if that is known; else without end


@dataclasses.dataclass(frozen=True)
class LearnedModel:
    """Embeddings are thoughts. The end of an episode is learned: discounts fade by the chance of it."""

    mind: "LearnedMind"
    env: AnyEnvironment
    networks: WorldNetworks
    novelty: PyTree

    def root(self, states: Any, prior: Prior) -> RootFnOutput:
        thoughts = jax.vmap(self._think)(states)
        judged = jax.vmap(self._judge)(thoughts.latent)
        variance = jnp.clip(judged.ube, 0, self.mind.largest_variance)
        logits = jnp.where(self.illegal(states), -jnp.inf, prior(judged))
        return RootFnOutput(logits, judged.value, thoughts, variance)

    def illegal(self, states: Any) -> Bool[Array, "B A"]:
        """Known at the root alone: what a predicted state allows is not."""
        return ~jax.vmap(self.env.legal)(states)

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        def step(_: Any, key: Key, action: Int[Array, "B"], thoughts: Any) -> tuple[RecurrentFnOutput, Any]:
            out, judged, after = self._steps(thoughts, action, key)
            return out.replace(prior_logits=prior(judged)), after

        return step

    def judged(self, states: Any) -> StateJudgement:
        return jax.vmap(lambda state: self._judge(self._think(state).latent))(states)

    def step(self, states: Any, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        out, _, _ = self._steps(jax.vmap(self._think)(states), actions, key)
        return out

    def _think(self, state: Any) -> Thought:
        mind = self.mind
        latent = mind.encode(self.env, self.networks, state)
        return Thought(latent, mind.sense.carry(state), mind.steps_left(state))

    def _judge(self, latent: Latent) -> StateJudgement:
        return decode(self.networks.heads, self.networks.heads.state(latent))

    def _steps(self, thoughts: Any, actions: Int[Array, "B"], key: Key) -> Any:
        return jax.vmap(self._step)(thoughts, actions, jax.random.split(key, actions.shape[0]))

    def _step(
        self, thought: Thought, action: Int[Array, ""], key: Key
    ) -> tuple[Any, StateJudgement, Thought]:
        mind, heads = self.mind, self.networks.heads
        pair = with_action(thought.latent, action, self.env.num_actions)
        followed = mind.sense.follow(self.env, thought.carried, action, key)
        passed = Passed(thought.latent, action, thought.carried, followed)
        eta = mind.sense.variance(self.env, self.novelty, passed)
        after = Thought(self.networks.dynamics(pair), followed, jnp.maximum(thought.steps_left - 1, 0))
        judged = self._judge(after.latent)
        reward, going = _needed(heads.reward, "reward"), _needed(heads.going, "going")
        out = RecurrentFnOutput(
            reward=reward.codec.decode(reward(pair)),
            discount=mind.discount * going.codec.decode(going(pair)),
            prior_logits=None,
            value=judged.value,
            reward_variance=mind.sense.reward_variance(self.env, self.novelty, passed),
            value_variance=leaf_variance(
                judged.ube, eta, horizon_factor(mind.discount, after.steps_left), mind.largest_variance
            ),
        )
        return out, judged, after


def as_it_is(model: PlanningModel) -> PlanningModel:
    """No wrapper."""
    return model


def endless(state: Any) -> Float[Array, ""]:
    """Nobody knows when an episode ends."""
    return jnp.float32(jnp.inf)


@dataclasses.dataclass(frozen=True)
class LearnedMind:
    """Plans with a learned world.

    `observe` gives what the representation reads of a state. `steps_left` bounds how long the unknown may go on behind
    a leaf: the clock of an episode is no secret. With `few_states` the world numbers its states, and what is thought of
    each is computed once. `around` wraps each model, for rules like that of appendix B.
    """

    sense: Sense
    grounding: Grounding
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
        return self.sense.novelty

    @property
    def uses_simulator(self) -> bool:
        return self.sense.uses_simulator

    def heads(self, networks: WorldNetworks) -> Networks:
        return networks.heads

    def encode(self, env: AnyEnvironment, networks: WorldNetworks, state: Any) -> Latent:
        return networks.representation(self.observe(env, state))

    def models(self, env: AnyEnvironment, networks: WorldNetworks) -> Callable[[PyTree], PlanningModel]:
        return lambda novelty: self.around(LearnedModel(self, env, networks, novelty))

    def known(self) -> Mind:
        return dataclasses.replace(self, sense=Latents(Unaware()))

    def unroll(
        self,
        env: AnyEnvironment,
        networks: WorldNetworks,
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

        shown = jax.vmap(self.grounding.shown)(predicted(encoded[0]))
        pairs = jax.vmap(with_action, in_axes=(0, 0, None))(shown, actions, env.num_actions)
        heads = networks.heads
        # What is easy to predict is not what matters: drift trains the dynamics, and not the representation.
        strayed = predicted(jax.lax.stop_gradient(encoded[0]))
        drift = jax.vmap(self.grounding.drift)(strayed, encoded).at[0].set(0.0)
        before = jnp.cumsum(over) - over
        return Unrolled(
            raw=jax.vmap(heads.state)(shown),
            reward=jax.vmap(_needed(heads.reward, "reward"))(pairs),
            going=jax.vmap(_needed(heads.going, "going"))(pairs),
            drift=drift,
            counts=before == 0,
        )

    def look(self, env: AnyEnvironment, networks: WorldNetworks, novelty: PyTree, moves: Moves) -> PyTree:
        return self.sense.look(env, lambda state: self.encode(env, networks, state), novelty, moves)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Moves) -> PyTree:
        return self.sense.record_rewards(env, novelty, moves)

    def every_state(self, env: Any) -> Batch | None:
        return all_states(env) if self.few_states else None


def half_gradient(latent: Latent) -> Latent:
    """The same latent state; of the gradient half comes back, so that many steps do not weigh more than the first."""
    return 0.5 * latent + jax.lax.stop_gradient(0.5 * latent)


def _needed(head: Head | None, name: str) -> Head:
    if head is None:
        raise ValueError(f"a learned model predicts {name}: give networks with that head")
    return head
