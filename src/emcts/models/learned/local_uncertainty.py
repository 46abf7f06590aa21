"""How a learned model tells the new from the known while it plans: by what it looks at, and what it learns from.

A plan passes latent states, in which novelty is hard to see. A sense looks past them, at the true states that the plan
would pass; or at them; or at how far an ensemble disagrees on what comes after them.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment
from emcts.models.world_model import Transition
from emcts.novelty import Fitted, NoiseAware, Novelty
from emcts.types import Key, Replaceable, record

Encode = Callable[[Any], Float[Array, "latent"]]


@record
class PlannedTransition(Replaceable):
    """A move of a plan: from a latent state, and what the path carried along before and after it."""

    latent: Float[Array, "latent"]
    action: Int[Array, ""]
    before: PyTree
    after: PyTree


@runtime_checkable
class LocalUncertainty(Protocol):
    """For one state; what a path carries along, beside its latent state, begins with `carry`."""

    @property
    def novelty(self) -> Novelty: ...

    @property
    def uses_simulator(self) -> bool:
        """Whether to follow a plan takes steps of the environment."""

    def carry(self, state: Any) -> PyTree: ...

    def follow(self, env: AnyEnvironment, carried: PyTree, action: Int[Array, ""], key: Key) -> PyTree: ...

    def variance(self, env: AnyEnvironment, novelty: PyTree, move: PlannedTransition) -> Float[Array, ""]:
        """eta of a move in a plan: how new it is."""

    def reward_variance(
        self, env: AnyEnvironment, novelty: PyTree, move: PlannedTransition
    ) -> Float[Array, ""]:
        """What is uncertain about the reward of a move in a plan: eta, and noise where the estimator knows of it."""

    def look(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, moves: Transition) -> PyTree:
        """The novelty estimator once it was shown these moves, which were made."""

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        """The novelty estimator once it was told what these moves paid."""


@dataclasses.dataclass(frozen=True)
class TrueStateNovelty:
    """The true model follows the plan, and the true states are new or not.

    This is help that a learner does not have: it shows what the rest can do when local uncertainty is right.
    `novelty_input` says what of a transition is new, given the states before and after.
    """

    novelty: Novelty
    novelty_input: Callable[[Any, Any, Int[Array, ""], Any], Array]

    @property
    def uses_simulator(self) -> bool:
        return True

    def carry(self, state: Any) -> PyTree:
        return state

    def follow(self, env: AnyEnvironment, carried: PyTree, action: Int[Array, ""], key: Key) -> PyTree:
        return env.step(carried, action, key)[0]

    def variance(self, env: AnyEnvironment, novelty: PyTree, move: PlannedTransition) -> Float[Array, ""]:
        seen = self.novelty_input(env, move.before, move.action, move.after)
        return self.novelty.variance(novelty, seen)

    def reward_variance(
        self, env: AnyEnvironment, novelty: PyTree, move: PlannedTransition
    ) -> Float[Array, ""]:
        if not isinstance(self.novelty, NoiseAware):
            return self.variance(env, novelty, move)
        seen = self.novelty_input(env, move.before, move.action, move.after)
        return self.novelty.reward_variances(novelty).at[seen].get(mode="fill", fill_value=0.0)

    def look(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, moves: Transition) -> PyTree:
        return self.novelty.update(novelty, self._seen(env, moves), moves.counts)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        if not isinstance(self.novelty, NoiseAware):
            return novelty
        return self.novelty.record_rewards(novelty, self._seen(env, moves), moves.reward, moves.counts)

    def _seen(self, env: AnyEnvironment, moves: Transition) -> Array:
        return jax.vmap(self.novelty_input, in_axes=(None, 0, 0, 0))(
            env, moves.before, moves.action, moves.after
        )


class _OfLatents:
    """Senses that look at latent states alone: paths carry nothing."""

    novelty: Novelty

    @property
    def uses_simulator(self) -> bool:
        return False

    def carry(self, state: Any) -> PyTree:
        return ()

    def follow(self, env: AnyEnvironment, carried: PyTree, action: Int[Array, ""], key: Key) -> PyTree:
        return ()

    def variance(self, env: AnyEnvironment, novelty: PyTree, move: PlannedTransition) -> Float[Array, ""]:
        return self.novelty.variance(novelty, with_action(move.latent, move.action, env.num_actions))

    def reward_variance(
        self, env: AnyEnvironment, novelty: PyTree, move: PlannedTransition
    ) -> Float[Array, ""]:
        return self.variance(env, novelty, move)

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        return novelty


@dataclasses.dataclass(frozen=True)
class LatentNovelty(_OfLatents):
    """Latent states and actions are new or not: learned of true states, asked of predicted ones.

    For models whose latent states mean something (anchored ones): what they get wrong then looks new, too.
    """

    novelty: Novelty

    def look(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, moves: Transition) -> PyTree:
        return self.novelty.update(novelty, _pairs(env, encode, moves), moves.counts)


@dataclasses.dataclass(frozen=True)
class EnsembleDisagreement(_OfLatents):
    """An ensemble learns to predict the latent state after each action; where it disagrees, there were no data.

    It needs neither a true model nor latent states that mean something. An end is a state of its own, all zeros: it
    has to be predicted like any other, and is no longer new once it was.
    """

    novelty: Fitted

    def look(self, env: AnyEnvironment, encode: Encode, novelty: PyTree, moves: Transition) -> PyTree:
        after = jnp.where(moves.over[:, None], 0.0, jax.vmap(encode)(moves.after))
        return self.novelty.fit(novelty, _pairs(env, encode, moves), after, moves.counts)


def with_action(
    latent: Float[Array, "latent"], action: Int[Array, ""], num_actions: int
) -> Float[Array, "inputs"]:
    """What a network of a state and an action reads."""
    return jnp.concatenate([latent, jax.nn.one_hot(action, num_actions)])


def _pairs(env: AnyEnvironment, encode: Encode, moves: Transition) -> Float[Array, "B inputs"]:
    latents = jax.vmap(encode)(moves.before)
    return jax.vmap(with_action, in_axes=(0, 0, None))(latents, moves.action, env.num_actions)
