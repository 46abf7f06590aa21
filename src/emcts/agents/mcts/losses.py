"""The losses of the heads against their targets, for a batch of stories."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.agents.mcts.agent import LossWeights
from emcts.agents.mcts.targets import Targets, Trajectory
from emcts.models.evaluators import decode
from emcts.models.world_model import WorldModel
from emcts.training.data_parallel import SINGLE_DEVICE, DataParallel
from emcts.types import Replaceable, record


@record
class Losses(Replaceable):
    """Of each head; 0 where there is no such head. `consistency` is how far a learned model strayed from what was."""

    value: Float[Array, "..."]
    policy: Float[Array, "..."]
    exploration: Float[Array, "..."]
    ube: Float[Array, "..."]
    reward: Float[Array, "..."]
    continuation: Float[Array, "..."]
    consistency: Float[Array, "..."]


@record
class UpdateStats(Replaceable):
    """What a batch showed: the mean losses, and how far off each value and its standard deviation were."""

    total: Float[Array, "..."]
    losses: Losses
    value_error: Float[Array, "..."]
    std_error: Float[Array, "..."]


def batch_loss(
    networks: Any,
    world_model: WorldModel,
    env: Any,
    trajectories: Trajectory,
    targets: Targets,
    importance: Float[Array, "B"],
    weights: LossWeights,
    data_parallel: DataParallel = SINGLE_DEVICE,
) -> tuple[Float[Array, ""], UpdateStats]:
    """The weighted mean over the batch: B stories, and targets for each of their K states.

    On several devices it is this one's share of that mean: the shares, and their gradients, add up to the whole.
    """
    heads = world_model.heads(networks)

    def one(trajectory: Trajectory, target: Targets) -> Any:
        over = trajectory.terminated[:, 0] | trajectory.truncated[:, 0]
        said = world_model.unroll(env, networks, trajectory.state(0), trajectory.actions[:, 0], over)
        losses = Losses(
            value=_losses(heads.value, said.raw.value, target.value),
            policy=_losses(heads.policy, said.raw.policy, target.policy),
            exploration=_losses(heads.exploration, said.raw.exploration, target.exploration),
            ube=_losses(heads.ube, said.raw.ube, target.ube),
            reward=_losses(heads.reward, said.reward, target.reward),
            continuation=_losses(heads.continuation, said.continuation, 1.0 - target.terminated),
            consistency=said.consistency,
        )
        estimate = jax.vmap(lambda raw: decode(heads, raw))(said.raw)
        value_error = jnp.abs(estimate.value - target.value)
        std_error = jnp.abs(_std(estimate.ube) - _std(target.ube))
        return losses, value_error, std_error, said.counts

    losses, value_error, std_error, counts = jax.vmap(one)(trajectories, targets)

    def mean(values: Float[Array, "B K"]) -> Float[Array, ""]:
        return jnp.sum(jnp.where(counts, values, 0.0)) / jnp.maximum(data_parallel.total(jnp.sum(counts)), 1)

    names = [field.name for field in dataclasses.fields(Losses)]
    total = sum(getattr(weights, name) * getattr(losses, name) for name in names)
    trust = 0.5 + jax.nn.sigmoid(-weights.uncertainty_weight * _std(targets.ube))
    weighted = mean(importance[:, None] * trust * total)
    return weighted, UpdateStats(weighted, jax.tree.map(mean, losses), value_error, std_error)


def _std(variance: Float[Array, "*B"]) -> Float[Array, "*B"]:
    return jnp.sqrt(jnp.maximum(variance, 0))


def _losses(head: Any, raw: Any, targets: Array) -> Float[Array, "K"]:
    if head is None or raw is None:
        return jnp.zeros(targets.shape[0])
    return jax.vmap(head.codec.loss)(raw, targets)
