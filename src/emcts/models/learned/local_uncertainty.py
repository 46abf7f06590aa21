"""Local uncertainty of a learned model: where the variance of a planned transition comes from.

A plan goes through latent states, whose novelty is hard to estimate. It is estimated from the true states that the plan
would go through, from the latent states, or from the disagreement of an ensemble that predicts the next latent state.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, Shaped

from emcts.envs.base import AnyEnvironment
from emcts.models.evaluators import Transition
from emcts.novelty import Fitted, NoiseAware, Novelty
from emcts.types import Key, Replaceable, Scalar, record

Encode = Callable[[PyTree], Float[Array, "latent"]]
TransitionInput = Callable[[AnyEnvironment, PyTree, Int[Array, ""], PyTree], Shaped[Array, "..."]]


@record
class PlannedTransition(Replaceable):
    """A transition of a plan: the latent state and action, and what the path carries before and after it."""

    latent: Float[Array, "latent"]
    action: Int[Array, ""]
    before: PyTree
    after: PyTree


@runtime_checkable
class LocalUncertainty(Protocol):
    """The uncertainty of one planned transition. Beside its latent state, a path carries what `init_carry` begins."""

    @property
    def novelty(self) -> Novelty: ...

    @property
    def uses_simulator(self) -> bool:
        """Whether `step_carry` takes a step of the environment."""

    @property
    def reads_state_after(self) -> bool:
        """Whether `update` reads the states that transitions lead to."""

    def init_carry(self, state: PyTree) -> PyTree: ...

    def step_carry(self, env: AnyEnvironment, carry: PyTree, action: Int[Array, ""], key: Key) -> PyTree: ...

    def variance(
        self, env: AnyEnvironment, novelty: PyTree, transition: PlannedTransition
    ) -> Float[Array, ""]:
        """Returns the novelty eta of a planned transition."""

    def reward_variance(
        self, env: AnyEnvironment, novelty: PyTree, transition: PlannedTransition, variance_unit: Scalar = 1.0
    ) -> Float[Array, ""]:
        """Returns the variance of the reward: `variance_unit * eta`, and that of noise if the estimator records it."""

    def update(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, transitions: Transition) -> PyTree:
        """Returns the novelty state after an update with experienced transitions."""

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, transitions: Transition) -> PyTree:
        """Returns the novelty state after the rewards of experienced transitions were recorded."""


@dataclasses.dataclass(frozen=True)
class TrueStateNovelty:
    """The novelty of the true states of a plan, which the simulator follows.

    A learner does not have this: it shows what the rest can do when local uncertainty is right. `input_of` gives what
    the novelty estimator reads of a transition.
    """

    novelty: Novelty
    input_of: TransitionInput

    @property
    def uses_simulator(self) -> bool:
        return True

    @property
    def reads_state_after(self) -> bool:
        return True

    def init_carry(self, state: PyTree) -> PyTree:
        return state

    def step_carry(self, env: AnyEnvironment, carry: PyTree, action: Int[Array, ""], key: Key) -> PyTree:
        return env.step(carry, action, key)[0]

    def variance(
        self, env: AnyEnvironment, novelty: PyTree, transition: PlannedTransition
    ) -> Float[Array, ""]:
        x = self.input_of(env, transition.before, transition.action, transition.after)
        return self.novelty.variance(novelty, x)

    def reward_variance(
        self, env: AnyEnvironment, novelty: PyTree, transition: PlannedTransition, variance_unit: Scalar = 1.0
    ) -> Float[Array, ""]:
        if not isinstance(self.novelty, NoiseAware):
            return variance_unit * self.variance(env, novelty, transition)
        x = self.input_of(env, transition.before, transition.action, transition.after)
        variances = self.novelty.reward_variances(novelty, variance_unit)
        return variances.at[x].get(mode="fill", fill_value=0.0)

    def update(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, transitions: Transition) -> PyTree:
        return self.novelty.update(novelty, self._inputs(env, transitions), transitions.valid)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, transitions: Transition) -> PyTree:
        if not isinstance(self.novelty, NoiseAware):
            return novelty
        inputs = self._inputs(env, transitions)
        return self.novelty.record_rewards(novelty, inputs, transitions.reward, transitions.valid)

    def _inputs(self, env: AnyEnvironment, transitions: Transition) -> Shaped[Array, "B ..."]:
        return jax.vmap(self.input_of, in_axes=(None, 0, 0, 0))(
            env, transitions.before, transitions.action, transitions.after
        )


class _FromLatents:
    """Local uncertainty that reads latent states alone: paths carry nothing."""

    novelty: Novelty

    @property
    def uses_simulator(self) -> bool:
        return False

    def init_carry(self, state: PyTree) -> PyTree:
        return ()

    def step_carry(self, env: AnyEnvironment, carry: PyTree, action: Int[Array, ""], key: Key) -> PyTree:
        return ()

    def variance(
        self, env: AnyEnvironment, novelty: PyTree, transition: PlannedTransition
    ) -> Float[Array, ""]:
        x = with_action(transition.latent, transition.action, env.num_actions)
        return self.novelty.variance(novelty, x)

    def reward_variance(
        self, env: AnyEnvironment, novelty: PyTree, transition: PlannedTransition, variance_unit: Scalar = 1.0
    ) -> Float[Array, ""]:
        return variance_unit * self.variance(env, novelty, transition)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, transitions: Transition) -> PyTree:
        return novelty


@dataclasses.dataclass(frozen=True)
class LatentNovelty(_FromLatents):
    """The novelty of latent states with actions: updated with encoded states, evaluated on predicted ones.

    For models whose latent states have a meaning of their own (anchored ones): wrong predictions then look novel too.
    """

    novelty: Novelty

    @property
    def reads_state_after(self) -> bool:
        return False

    def update(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, transitions: Transition) -> PyTree:
        return self.novelty.update(novelty, _pairs(env, encode, transitions), transitions.valid)


@dataclasses.dataclass(frozen=True)
class EnsembleDisagreement(_FromLatents):
    """The disagreement of an ensemble that learns to predict the latent state after each action.

    It needs neither a simulator nor meaningful latent states. The end of an episode by its rules is a latent state of
    its own, all zeros: it is predicted like any other, and not novel once it was learned. Where an episode was cut off,
    the next latent state is that of the state that was reached.
    """

    novelty: Fitted

    @property
    def reads_state_after(self) -> bool:
        return True

    def update(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, transitions: Transition) -> PyTree:
        after = jnp.where(transitions.terminated[:, None], 0.0, jax.vmap(encode)(transitions.after))
        return self.novelty.fit(novelty, _pairs(env, encode, transitions), after, transitions.valid)


def with_action(
    latent: Float[Array, "latent"], action: Int[Array, ""], num_actions: int
) -> Float[Array, "inputs"]:
    """Concatenates a latent state and a one-hot action: the input of networks of a pair."""
    return jnp.concatenate([latent, jax.nn.one_hot(action, num_actions)])


def _pairs(env: AnyEnvironment, encode: Encode, transitions: Transition) -> Float[Array, "B inputs"]:
    latents = jax.vmap(encode)(transitions.before)
    return jax.vmap(with_action, in_axes=(0, 0, None))(latents, transitions.action, env.num_actions)
