"""The losses of the heads against their targets, for a batch of states."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from emcts.agents.agent import LossWeights
from emcts.agents.targets import Targets
from emcts.models.judges import Judge, decode
from emcts.models.networks import Networks
from emcts.types import Replaceable, record


@record
class Losses(Replaceable):
    """Of each head; 0 where there is no such head."""

    value: Float[Array, "*B"]
    policy: Float[Array, "*B"]
    exploration: Float[Array, "*B"]
    ube: Float[Array, "*B"]
    reward: Float[Array, "*B"]


@record
class Learned(Replaceable):
    """What a batch showed: the mean losses, and how far off each value and its standard deviation were."""

    total: Float[Array, "..."]
    losses: Losses
    value_error: Float[Array, "..."]
    std_error: Float[Array, "..."]


def batch_loss(
    networks: Networks,
    judge: Judge,
    env: Any,
    states: Any,
    actions: Int[Array, "B"],
    targets: Targets,
    importance: Float[Array, "B"],
    weights: LossWeights,
) -> tuple[Float[Array, ""], Learned]:
    """The weighted mean over the batch."""

    def one(state: Any, action: Int[Array, ""], target: Targets) -> Any:
        raw, raw_reward = judge.raw(env, networks, state, action)
        losses = Losses(
            value=networks.value.codec.loss(raw.value, target.value),
            policy=networks.policy.codec.loss(raw.policy, target.policy),
            exploration=_loss(networks.exploration, raw.exploration, target.exploration),
            ube=_loss(networks.ube, raw.ube, target.ube),
            reward=_loss(networks.reward, raw_reward, target.reward),
        )
        judged = decode(networks, raw)
        return losses, jnp.abs(judged.value - target.value), jnp.abs(_std(judged.ube) - _std(target.ube))

    losses, value_error, std_error = jax.vmap(one)(states, actions, targets)
    total = (
        weights.value * losses.value
        + weights.policy * losses.policy
        + weights.exploration * losses.exploration
        + weights.ube * losses.ube
        + weights.reward * losses.reward
    )
    trust = 0.5 + jax.nn.sigmoid(-weights.caution * _std(targets.ube))
    mean = jnp.mean(importance * trust * total)
    return mean, Learned(mean, jax.tree.map(jnp.mean, losses), value_error, std_error)


def _std(variance: Float[Array, "*B"]) -> Float[Array, "*B"]:
    return jnp.sqrt(jnp.maximum(variance, 0))


def _loss(head: Any, raw: Any, target: Array) -> Float[Array, ""]:
    return jnp.zeros(()) if head is None else head.codec.loss(raw, target)
