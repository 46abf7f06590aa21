"""What is thought of a state, and of a transition: network and novelty estimator put together.

In a world of few states a judge asks the network about every state once, and looks answers up; a search of
many simulations then costs no more network than that.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment, Outcome
from emcts.models.networks import Head, Networks, pair_index
from emcts.novelty import NoiseAware, Novelty
from emcts.types import Replaceable, record

Batch = PyTree


@record
class StateEstimate(Replaceable):
    """Of one state: logits of both policies (one and the same without the second head), value and its variance."""

    policy: Any
    exploration: Any
    value: Any
    ube: Any


@record
class TransitionEstimate(Replaceable):
    """Of one transition: its reward, the variance of that, and how new the place is that it leads to."""

    reward: Any
    reward_variance: Any
    novelty: Any


@record
class Transition(Replaceable):
    """Moves that were made [B]. Where one ended the episode, `after` is whatever the world made of it."""

    before: Any
    action: Int[Array, "B"]
    reward: Float[Array, "B"]
    after: Any
    over: Bool[Array, "B"]
    counts: Bool[Array, "B"]  # the others are padding


EvaluateState = Callable[[Any], StateEstimate]
EvaluateTransition = Callable[[Any, Int[Array, ""], Any, Outcome], TransitionEstimate]


@runtime_checkable
class Evaluator(Protocol):
    """Turns networks and the state of a novelty estimator into functions of one state or transition."""

    @property
    def novelty(self) -> Novelty: ...

    def states(self, env: AnyEnvironment, networks: Networks) -> EvaluateState: ...

    def steps(self, env: AnyEnvironment, networks: Networks) -> Callable[[PyTree], EvaluateTransition]:
        """The judge of transitions, given the state of the novelty estimator, which changes more often."""

    def raw(self, env: AnyEnvironment, networks: Networks, state: Any, action: Int[Array, ""]) -> Any:
        """The undecoded outputs that losses are made of: of the heads on `state`, and of the reward head."""

    def novelty_input(self, env: AnyEnvironment, before: Any, action: Int[Array, ""], after: Any) -> Array:
        """What the novelty estimator is shown of a transition."""

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        """The state of the novelty estimator once it was told what these moves paid."""

    def all_states(self, env: AnyEnvironment) -> Batch | None:
        """All states, by their index, where the world has so few that each is better thought of once; else None."""

    def known(self) -> "Judge":
        """The same judge without novelty, for searches that have no use for it."""


class NoNovelty:
    """The novelty estimator of agents that have none: nothing is new."""

    def init(self, key: Any) -> PyTree:
        return ()

    def variance(self, state: PyTree, x: Array) -> Array:
        return jnp.zeros(())

    def update(self, state: PyTree, xs: Array, mask: Array) -> PyTree:
        return state


@dataclasses.dataclass(frozen=True)
class TabularEvaluator:
    """For worlds that number their states (`env.index`). Rewards are learned, and transitions are new or not."""

    novelty: Novelty

    def states(self, env: Any, networks: Networks) -> EvaluateState:
        table = jax.vmap(lambda index: decode(networks, networks.state(index)))(jnp.arange(env.num_states))
        return lambda state: row(table, env.index(state))

    def steps(self, env: Any, networks: Networks) -> Callable[[PyTree], EvaluateTransition]:
        pairs = jnp.arange(env.num_states * env.num_actions)
        head = _reward_head(networks)
        reward = jax.vmap(lambda pair: head.codec.decode(head(pair)))(pairs)

        def with_novelty(novelty: PyTree) -> EvaluateTransition:
            eta = jax.vmap(lambda pair: self.novelty.variance(novelty, pair))(pairs)
            variance = self.novelty.reward_variances(novelty) if isinstance(self.novelty, NoiseAware) else eta
            table = TransitionEstimate(reward, variance, eta)
            return lambda before, action, after, outcome: row(
                table, self.novelty_input(env, before, action, after)
            )

        return with_novelty

    def raw(self, env: Any, networks: Networks, state: Any, action: Int[Array, ""]) -> Any:
        index = env.index(state)
        return networks.state(index), _reward_head(networks)(pair_index(index, action, env.num_actions))

    def novelty_input(self, env: Any, before: Any, action: Int[Array, ""], after: Any) -> Array:
        return pair_index(env.index(before), action, env.num_actions)

    def record_rewards(self, env: Any, novelty: PyTree, moves: Transition) -> PyTree:
        if not isinstance(self.novelty, NoiseAware):
            return novelty
        pairs = jax.vmap(self.novelty_input, in_axes=(None, 0, 0, 0))(
            env, moves.before, moves.action, moves.after
        )
        return self.novelty.record_rewards(novelty, pairs, moves.reward, moves.counts)

    def all_states(self, env: Any) -> Batch | None:
        return all_states(env)

    def known(self) -> Evaluator:
        return TabularEvaluator(NoNovelty())


@dataclasses.dataclass(frozen=True)
class NetworkEvaluator:
    """For any other world. Rewards are known, and states are new or not: `look` says what of them to look at."""

    novelty: Novelty
    observe: Callable[[AnyEnvironment, Any], Array]
    look: Callable[[AnyEnvironment, Any], Array]

    def states(self, env: AnyEnvironment, networks: Networks) -> EvaluateState:
        return lambda state: decode(networks, networks.state(self.observe(env, state)))

    def steps(self, env: AnyEnvironment, networks: Networks) -> Callable[[PyTree], EvaluateTransition]:
        def with_novelty(novelty: PyTree) -> EvaluateTransition:
            return lambda before, action, after, outcome: TransitionEstimate(
                reward=outcome.reward,
                reward_variance=jnp.zeros_like(outcome.reward),
                novelty=self.novelty.variance(novelty, self.look(env, after)),
            )

        return with_novelty

    def raw(self, env: AnyEnvironment, networks: Networks, state: Any, action: Int[Array, ""]) -> Any:
        return networks.state(self.observe(env, state)), None

    def novelty_input(self, env: AnyEnvironment, before: Any, action: Int[Array, ""], after: Any) -> Array:
        return self.look(env, after)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        """Rewards are known."""
        return novelty

    def all_states(self, env: AnyEnvironment) -> Batch | None:
        return None

    def known(self) -> Evaluator:
        return dataclasses.replace(self, novelty=NoNovelty())


def decode(networks: Networks, raw: Any) -> StateEstimate:
    """What raw outputs mean. Without the heads of uncertainty, exploring is exploiting and nothing is uncertain."""
    value = networks.value.codec.decode(raw.value)
    return StateEstimate(
        policy=raw.policy,
        exploration=raw.policy if raw.exploration is None else raw.exploration,
        value=value,
        ube=jnp.zeros_like(value) if networks.ube is None else networks.ube.codec.decode(raw.ube),
    )


def _reward_head(networks: Networks) -> Head:
    if networks.reward is None:
        raise ValueError("a FiniteJudge learns the reward: give networks with a reward head")
    return networks.reward


def all_states(env: Any) -> Batch:
    """Of a world that numbers them."""
    return jax.vmap(env.state_at)(jnp.arange(env.num_states))


def row(table: PyTree, index: Int[Array, ""]) -> Any:
    """What was computed for each state of a world of few, looked up."""
    return jax.tree.map(lambda leaf: leaf.at[index].get(mode="clip"), table)
