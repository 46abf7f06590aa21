"""The losses of the heads against their targets, for a batch of trajectories."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from emcts.agents.mcts.agent import LossWeights
from emcts.agents.mcts.targets import Targets, Trajectory
from emcts.envs.base import AnyEnvironment
from emcts.models.codecs import ScalarCodec
from emcts.models.evaluators import decode
from emcts.models.networks import Head, Networks
from emcts.models.world_model import WorldModel
from emcts.training.data_parallel import SINGLE_DEVICE, DataParallel
from emcts.types import Replaceable, Scalar, record


@record
class Losses(Replaceable):
    """The loss of each head, and the consistency loss of learned models; 0 where there is no such head."""

    value: Float[Array, "..."]
    policy: Float[Array, "..."]
    exploration: Float[Array, "..."]
    ube: Float[Array, "..."]
    reward: Float[Array, "..."]
    continuation: Float[Array, "..."]
    consistency: Float[Array, "..."]


@record
class LossStats(Replaceable):
    """The mean losses of a batch, and the absolute error of each value and of its standard deviation.

    `clipped_targets` is the fraction of states with a target of value, variance or reward that a head cannot represent.
    """

    total: Float[Array, "..."]
    losses: Losses
    value_error: Float[Array, "..."]
    std_error: Float[Array, "..."]
    clipped_targets: Float[Array, "..."]


def batch_loss(
    networks: PyTree,
    world_model: WorldModel[PyTree],
    env: AnyEnvironment,
    trajectories: Trajectory,
    targets: Targets,
    importance: Float[Array, "B"],
    weights: LossWeights,
    data_parallel: DataParallel = SINGLE_DEVICE,
) -> tuple[Float[Array, ""], LossStats]:
    """Returns the weighted mean loss over B trajectories, with targets for each of their K states.

    On several devices it is the contribution of this one: contributions and their gradients sum to the whole.
    """
    heads, return_range = world_model.heads(networks), world_model.return_range(networks)

    def one(trajectory: Trajectory, target: Targets) -> tuple[Losses, Array, Array, Array]:
        over = trajectory.terminated[:, 0] | trajectory.truncated[:, 0]
        unroll = world_model.unroll(env, networks, trajectory.state(0), trajectory.actions[:, 0], over)
        raw = unroll.raw
        losses = Losses(
            value=_losses(heads.value, raw.value, target.value),
            policy=_losses(heads.policy, raw.policy, target.policy),
            exploration=_losses(heads.exploration, raw.exploration, target.exploration),
            ube=_losses(heads.ube, raw.ube, target.ube / return_range**2),
            reward=_losses(heads.reward, unroll.reward, target.reward),
            continuation=_losses(heads.continuation, unroll.continuation, 1.0 - target.terminated),
            consistency=unroll.consistency,
        )
        estimate = jax.vmap(lambda raw: decode(heads, raw, return_range**2))(raw)
        value_error = jnp.abs(estimate.value - target.value)
        std_error = jnp.abs(_std(estimate.ube) - _std(target.ube))
        return losses, value_error, std_error, unroll.valid

    losses, value_error, std_error, valid = jax.vmap(one)(trajectories, targets)

    def mean(values: Float[Array, "B K"]) -> Float[Array, ""]:
        return jnp.sum(jnp.where(valid, values, 0.0)) / jnp.maximum(data_parallel.sum(jnp.sum(valid)), 1)

    names = [field.name for field in dataclasses.fields(Losses)]
    total = sum(getattr(weights, name) * getattr(losses, name) for name in names)
    trust = 0.5 + jax.nn.sigmoid(-weights.uncertainty_weight * _std(targets.ube) / return_range)
    weighted = mean(importance[:, None] * trust * total)
    clipped = mean(clipped_targets(heads, targets, return_range))
    return weighted, LossStats(weighted, jax.tree.map(mean, losses), value_error, std_error, clipped)


def clipped_targets(heads: Networks, targets: Targets, return_range: Scalar) -> Float[Array, "*B"]:
    """Returns 1 for each state with a target of value, variance or reward that its head cannot represent, else 0."""
    pairs = (
        (heads.value, targets.value),
        (heads.ube, targets.ube / return_range**2),
        (heads.reward, targets.reward),
    )
    clipped = jnp.zeros(targets.value.shape, bool)
    for head, target in pairs:
        if head is not None and isinstance(head.codec, ScalarCodec):
            clipped |= ~head.codec.represents(target)
    return clipped.astype(jnp.float32)


def _std(variance: Float[Array, "*B"]) -> Float[Array, "*B"]:
    return jnp.sqrt(jnp.maximum(variance, 0))


def _losses(head: Head | None, raw: Float[Array, "K outputs"] | None, targets: Array) -> Float[Array, "K"]:
    if head is None or raw is None:
        return jnp.zeros(targets.shape[0])
    return jax.vmap(head.codec.loss)(raw, targets)
