"""The losses of the heads against their targets, for a batch of trajectories."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from emcts.agents.mcts.agent import LossWeights
from emcts.agents.mcts.targets import Targets, Trajectory
from emcts.envs.base import AnyEnvironment
from emcts.models.evaluators import decode
from emcts.models.networks import Head
from emcts.models.world_model import WorldModel
from emcts.training.data_parallel import SINGLE_DEVICE, DataParallel
from emcts.types import Replaceable, record


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
    """The mean losses of a batch, and the absolute error of each value and of its standard deviation."""

    total: Float[Array, "..."]
    losses: Losses
    value_error: Float[Array, "..."]
    std_error: Float[Array, "..."]


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
    heads = world_model.heads(networks)

    def one(trajectory: Trajectory, target: Targets) -> tuple[Losses, Array, Array, Array]:
        over = trajectory.terminated[:, 0] | trajectory.truncated[:, 0]
        unroll = world_model.unroll(env, networks, trajectory.state(0), trajectory.actions[:, 0], over)
        raw = unroll.raw
        losses = Losses(
            value=_losses(heads.value, raw.value, target.value),
            policy=_losses(heads.policy, raw.policy, target.policy),
            exploration=_losses(heads.exploration, raw.exploration, target.exploration),
            ube=_losses(heads.ube, raw.ube, target.ube),
            reward=_losses(heads.reward, unroll.reward, target.reward),
            continuation=_losses(heads.continuation, unroll.continuation, 1.0 - target.terminated),
            consistency=unroll.consistency,
        )
        estimate = jax.vmap(lambda raw: decode(heads, raw))(raw)
        value_error = jnp.abs(estimate.value - target.value)
        std_error = jnp.abs(_std(estimate.ube) - _std(target.ube))
        return losses, value_error, std_error, unroll.valid

    losses, value_error, std_error, valid = jax.vmap(one)(trajectories, targets)

    def mean(values: Float[Array, "B K"]) -> Float[Array, ""]:
        return jnp.sum(jnp.where(valid, values, 0.0)) / jnp.maximum(data_parallel.sum(jnp.sum(valid)), 1)

    names = [field.name for field in dataclasses.fields(Losses)]
    total = sum(getattr(weights, name) * getattr(losses, name) for name in names)
    trust = 0.5 + jax.nn.sigmoid(-weights.uncertainty_weight * _std(targets.ube))
    weighted = mean(importance[:, None] * trust * total)
    return weighted, LossStats(weighted, jax.tree.map(mean, losses), value_error, std_error)


def _std(variance: Float[Array, "*B"]) -> Float[Array, "*B"]:
    return jnp.sqrt(jnp.maximum(variance, 0))


def _losses(head: Head | None, raw: Float[Array, "K outputs"] | None, targets: Array) -> Float[Array, "K"]:
    if head is None or raw is None:
        return jnp.zeros(targets.shape[0])
    return jax.vmap(head.codec.loss)(raw, targets)
