"""The anchored model: latent states are the world's own, and the dynamics learn to predict them, nothing else."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emcts.envs import DeepSea
from emcts.models.codecs import Categorical
from emcts.models.layers import mlp
from emcts.models.learned.abstracted import Consistent, Sizes, latent_heads
from emcts.models.learned.model import Latent, ModelNetworks
from emcts.models.networks import Identity
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class Anchored(Consistent):
    """The distance from the true states alone trains the dynamics; the heads learn from them, detached."""

    def shown(self, latent: Latent) -> Latent:
        return jax.lax.stop_gradient(latent)


def row_and_column(env: DeepSea, state: Any) -> Float[Array, "latent"]:
    """The cell of Deep Sea as two one-hot vectors; all zeros once the episode is over."""
    continuation = state.row < env.size
    cell = jnp.concatenate([jax.nn.one_hot(state.row, env.size), jax.nn.one_hot(state.column, env.size)])
    return jnp.where(continuation, cell, 0.0)


def anchored_networks(
    latent: int, num_actions: int, *, sizes: Sizes, values: Categorical, ube: bool, key: Key
) -> ModelNetworks:
    """Latent states are observed as they are."""
    dynamics_key, heads_key = jax.random.split(key)
    dynamics = mlp(latent + num_actions, (*sizes.dynamics, latent), key=dynamics_key, finite=False)
    heads = latent_heads(
        latent, num_actions, sizes=sizes, values=values, ube=ube, exploration=False, key=heads_key
    )
    return ModelNetworks(Identity(), dynamics, heads)
