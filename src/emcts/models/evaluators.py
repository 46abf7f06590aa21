"""Evaluators: estimates of a state and of a transition, by networks and novelty estimator together.

In a tabular environment an evaluator applies the network to every state once, and looks estimates up: a search of many
simulations then costs no more network evaluations than that.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from emcts.envs.base import AnyEnvironment, FiniteEnvironment, Outcome
from emcts.models.networks import Head, Networks, RawOutputs
from emcts.novelty import NoiseAware, Novelty
from emcts.types import Key, Replaceable, Scalar, record

T = TypeVar("T")
AnyFinite = FiniteEnvironment[PyTree]
Env_contra = TypeVar("Env_contra", contravariant=True)


@record
class StateEstimate(Replaceable):
    """Estimates of a state: logits of both policies (the same without an exploration head), value and its variance."""

    policy: Float[Array, "*B A"]
    exploration: Float[Array, "*B A"]
    value: Float[Array, "*B"]
    ube: Float[Array, "*B"]


@record
class TransitionEstimate(Replaceable):
    """Estimates of a transition: its reward, the variance of that, and the novelty of the transition."""

    reward: Float[Array, "*B"]
    reward_variance: Float[Array, "*B"]
    novelty: Float[Array, "*B"]


@record
class Transition(Replaceable):
    """Transitions that were experienced [B]. Where one ended the episode, `after` is the final state.

    A state in which an episode was cut off (truncated) is a state like any other.
    """

    before: PyTree
    action: Int[Array, "B"]
    reward: Float[Array, "B"]
    after: PyTree
    terminated: Bool[Array, "B"]
    truncated: Bool[Array, "B"]
    valid: Bool[Array, "B"]  # the others are padding

    @property
    def over(self) -> Bool[Array, "B"]:
        return self.terminated | self.truncated


EvaluateState = Callable[[PyTree], StateEstimate]
EvaluateTransition = Callable[[PyTree, Int[Array, ""], PyTree, Outcome], TransitionEstimate]
Observe = Callable[[PyTree, PyTree], PyTree]  # what networks read, of an environment and a state
NoveltyInput = Callable[[PyTree, PyTree], Shaped[Array, "..."]]  # of an environment and a state


@runtime_checkable
class Evaluator(Protocol[Env_contra]):
    """Makes functions of one state, and of one transition, from networks and the state of a novelty estimator."""

    @property
    def novelty(self) -> Novelty: ...

    def state_fn(self, env: Env_contra, networks: Networks, variance_unit: Scalar = 1.0) -> EvaluateState:
        """Returns the evaluation of states. The UBE head predicts variances in terms of `variance_unit`."""

    def transition_fn(
        self, env: Env_contra, networks: Networks, variance_unit: Scalar = 1.0
    ) -> Callable[[PyTree], EvaluateTransition]:
        """Returns the evaluation of transitions, given the novelty state, which changes more often than networks.

        Novelty is estimated in terms of `variance_unit`.
        """

    def raw_outputs(
        self, env: Env_contra, networks: Networks, state: PyTree, action: Int[Array, ""]
    ) -> tuple[RawOutputs, Float[Array, "outputs"] | None]:
        """Returns the undecoded outputs that losses need: of the heads on `state`, and of the reward head."""

    def observe(self, env: Env_contra, state: PyTree) -> PyTree:
        """Returns what networks read of a state."""

    def novelty_input(
        self, env: Env_contra, before: PyTree, action: Int[Array, ""], after: PyTree
    ) -> Shaped[Array, "..."]:
        """Returns what the novelty estimator reads of a transition."""

    def record_rewards(self, env: Env_contra, novelty: PyTree, transitions: Transition) -> PyTree:
        """Returns the novelty state after the rewards of these transitions were recorded."""

    def all_states(self, env: Env_contra) -> PyTree | None:
        """Returns all states by their index if the environment is tabular, to evaluate each once; else None."""

    def without_novelty(self) -> "Evaluator[Env_contra]":
        """Returns the same evaluator with a novelty of 0, for searches that do not use it."""


class NoNovelty:
    """The novelty estimator of agents without one: the variance is always 0."""

    def init(self, key: Key) -> PyTree:
        return ()

    def variance(self, state: PyTree, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        return jnp.zeros(())

    def update(self, state: PyTree, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> PyTree:
        return state


@dataclasses.dataclass(frozen=True)
class TabularEvaluator:
    """For tabular environments. Rewards are learned, and the novelty is that of the pair of state and action."""

    novelty: Novelty

    def state_fn(self, env: AnyFinite, networks: Networks, variance_unit: Scalar = 1.0) -> EvaluateState:
        indices = jnp.arange(env.num_states)
        table = jax.vmap(lambda index: decode(networks, networks.outputs(index), variance_unit))(indices)
        return lambda state: look_up(table, env.index(state))

    def transition_fn(
        self, env: AnyFinite, networks: Networks, variance_unit: Scalar = 1.0
    ) -> Callable[[PyTree], EvaluateTransition]:
        pairs = jnp.arange(env.num_states * env.num_actions)
        head = _reward_head(networks)
        reward = jax.vmap(lambda pair: head.codec.decode(head(pair)))(pairs)

        def with_novelty(novelty: PyTree) -> EvaluateTransition:
            eta = variance_unit * jax.vmap(lambda pair: self.novelty.variance(novelty, pair))(pairs)
            variance = (
                self.novelty.reward_variances(novelty, variance_unit)
                if isinstance(self.novelty, NoiseAware)
                else eta
            )
            table = TransitionEstimate(reward, variance, eta)
            return lambda before, action, after, outcome: look_up(table, pair_index(env, before, action))

        return with_novelty

    def raw_outputs(
        self, env: AnyFinite, networks: Networks, state: PyTree, action: Int[Array, ""]
    ) -> tuple[RawOutputs, Float[Array, "outputs"] | None]:
        return networks.outputs(env.index(state)), _reward_head(networks)(pair_index(env, state, action))

    def observe(self, env: AnyFinite, state: PyTree) -> Int[Array, ""]:
        return env.index(state)

    def novelty_input(
        self, env: AnyFinite, before: PyTree, action: Int[Array, ""], after: PyTree
    ) -> Int[Array, ""]:
        return pair_index(env, before, action)

    def record_rewards(self, env: AnyFinite, novelty: PyTree, transitions: Transition) -> PyTree:
        if not isinstance(self.novelty, NoiseAware):
            return novelty
        pairs = jax.vmap(pair_index, in_axes=(None, 0, 0))(env, transitions.before, transitions.action)
        return self.novelty.record_rewards(novelty, pairs, transitions.reward, transitions.valid)

    def all_states(self, env: AnyFinite) -> PyTree | None:
        return all_states(env)

    def without_novelty(self) -> Evaluator[AnyFinite]:
        return TabularEvaluator(NoNovelty())


@dataclasses.dataclass(frozen=True)
class NetworkEvaluator:
    """For any other environment. Rewards are the simulator's, and the novelty is that of the state after a step.

    `observe` gives what networks read of a state, `input_of_state` what the novelty estimator reads.
    """

    novelty: Novelty
    observe: Observe
    input_of_state: NoveltyInput

    def state_fn(self, env: AnyEnvironment, networks: Networks, variance_unit: Scalar = 1.0) -> EvaluateState:
        return lambda state: decode(networks, networks.outputs(self.observe(env, state)), variance_unit)

    def transition_fn(
        self, env: AnyEnvironment, networks: Networks, variance_unit: Scalar = 1.0
    ) -> Callable[[PyTree], EvaluateTransition]:
        def with_novelty(novelty: PyTree) -> EvaluateTransition:
            return lambda before, action, after, outcome: TransitionEstimate(
                reward=outcome.reward,
                reward_variance=jnp.zeros_like(outcome.reward),
                novelty=variance_unit * self.novelty.variance(novelty, self.input_of_state(env, after)),
            )

        return with_novelty

    def raw_outputs(
        self, env: AnyEnvironment, networks: Networks, state: PyTree, action: Int[Array, ""]
    ) -> tuple[RawOutputs, Float[Array, "outputs"] | None]:
        return networks.outputs(self.observe(env, state)), None

    def novelty_input(
        self, env: AnyEnvironment, before: PyTree, action: Int[Array, ""], after: PyTree
    ) -> Shaped[Array, "..."]:
        return self.input_of_state(env, after)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, transitions: Transition) -> PyTree:
        """Returns the novelty state as it is: rewards are known."""
        return novelty

    def all_states(self, env: AnyEnvironment) -> PyTree | None:
        return None

    def without_novelty(self) -> Evaluator[AnyEnvironment]:
        return dataclasses.replace(self, novelty=NoNovelty())


def decode(networks: Networks, raw: RawOutputs, variance_unit: Scalar = 1.0) -> StateEstimate:
    """Decodes raw outputs. Without an exploration head it is the policy; without a UBE head variances are 0."""
    value = networks.value.codec.decode(raw.value)
    return StateEstimate(
        policy=raw.policy,
        exploration=raw.policy if raw.exploration is None else raw.exploration,
        value=value,
        ube=jnp.zeros_like(value)
        if networks.ube is None or raw.ube is None
        else variance_unit * networks.ube.codec.decode(raw.ube),
    )


def _reward_head(networks: Networks) -> Head:
    if networks.reward is None:
        raise ValueError("a TabularEvaluator learns the reward: give networks with a reward head")
    return networks.reward


def all_states(env: AnyFinite) -> PyTree:
    """Returns the states of a tabular environment, by their index."""
    return jax.vmap(env.state_at)(jnp.arange(env.num_states))


def look_up(table: T, index: Int[Array, ""]) -> T:
    """Returns one row of what was computed for every state."""
    return jax.tree.map(lambda leaf: leaf.at[index].get(mode="clip"), table)


def pair_index(env: AnyFinite, state: PyTree, action: Int[Array, ""]) -> Int[Array, ""]:
    """Returns the number of a pair of state and action."""
    return env.index(state) * env.num_actions + action
