"""The MuZero family in Deep Sea: transitions are learned too, in an abstract space or in that of rows and columns."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from emcts.agents import deep_sea
from emcts.agents.deep_sea import SeaSettings, compose, steps_left, values_of
from emcts.agents.mcts.agent import Agent, ExplorationSchedule
from emcts.agents.mcts.planners import Planner
from emcts.envs import DeepSea
from emcts.models.beyond_known import BeyondKnownPlanning
from emcts.models.evaluators import NoNovelty
from emcts.models.layers import mlp
from emcts.models.learned.abstracted import Consistent, Sizes, ValueEquivalent, abstracted_networks
from emcts.models.learned.anchored import Anchored, anchored_networks, row_and_column
from emcts.models.learned.local_uncertainty import (
    EnsembleDisagreement,
    LatentNovelty,
    LocalUncertainty,
    TrueStateNovelty,
    with_action,
)
from emcts.models.learned.model import DynamicsLoss, LearnedModel, ModelNetworks, as_it_is
from emcts.models.networks import pair_index
from emcts.models.world_model import PlanningModel
from emcts.novelty import Ensemble, Normalised
from emcts.registry import lookup
from emcts.training.env_factory import DeepSeaFactory
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class LearnedSeaSettings(SeaSettings):
    """With a learned model."""

    beta: float | None = 1.0
    """what a standard deviation is worth to an episode that explores"""
    sequence: int = 5
    """steps that the model is unrolled for when it learns"""
    batch_size: int = 64
    """samples of that many steps"""
    model: str = "abstracted"
    """abstracted (latent states that serve values, rewards and policies) or anchored (rows and columns)"""
    latent: int = 100
    """numbers in an abstract latent state"""
    representation: tuple[int, ...] = (256,)
    """hidden layers of the abstracted model's representation"""
    dynamics: tuple[int, ...] = (256, 256)
    """hidden layers"""
    heads: tuple[int, ...] = (128, 128)
    """hidden layers of value, policy, reward and end"""
    ube_head: tuple[int, ...] = (128, 128, 128)
    """hidden layers"""
    consistency: float = 0.0
    """weight of the loss that draws predicted abstract states to the represented ones"""
    going_weight: float = 1.0
    """of the loss of the episode's end"""
    beyond_known: bool = False
    """past the first unknown transition of a plan, everything is as uncertain as it can be (appendix B)"""


BEST = LearnedSeaSettings(consistency=1.0, latent=256, ube_weight=4.0)
"""What worked best here with the abstracted model: docs/agents.md says why."""

ANCHORED = LearnedSeaSettings(model="anchored", novelty="rnd", beta=10.0, new_from=0.2, novelty_epsilon=1e-8)
"""The same for the anchored model, whose novelty is seen in what it predicts; no other epsilon was run with it."""

PAPER_ABSTRACTED = LearnedSeaSettings(
    size=40,
    total_env_steps=35_000,
    count_epsilon=0.5,
    unseen_variance=2.0,
    reward_noise=False,
    priority="value-error",
    warm_up=300,
    leaf_horizon="endless",
    temperature=1.0,
    value_moves=5,
    ube_target="root",
    ube_moves=1,
    reanalyse_rule="puct",
    reanalysed=0.99,
    learning_rate=5e-4,
    batch_size=256,
    ube_weight=0.25,
    updates_per_iteration=10,
    evaluation_episodes=8,
    representation=(512, 512),
    dynamics=(1024, 1024, 1024),
)
"""The paper's tables for the abstracted model."""

PAPER_ANCHORED = dataclasses.replace(
    PAPER_ABSTRACTED,
    model="anchored",
    total_env_steps=45_000,
    beta=10.0,
    novelty="rnd",
    unseen_variance=0.001,
    novelty_epsilon=1e-8,
    fresh_moves=0,
    novelty_power=1.0,
    new_from=None,
    ube_target="ahead",
    ube_weight=0.125,
    heads=(256, 256),
    ube_head=(256, 256),
)
"""The paper's tables for the anchored model."""


def mz(settings: LearnedSeaSettings) -> Agent:
    """MuZero: explores by Dirichlet noise and by drawing actions."""
    return _agent(settings, *deep_sea.plain_acting(settings), LatentNovelty(NoNovelty()), ube=False)


def mz_ube(settings: LearnedSeaSettings) -> Agent:
    """MuZero that explores by the score of one step ahead; its search knows of no uncertainty."""
    return _agent(settings, *deep_sea.ube_acting(settings), make_local_uncertainty(settings), ube=True)


def e_mz(settings: LearnedSeaSettings) -> Agent:
    """Epistemic MuZero: its search explores."""
    return _agent(settings, *deep_sea.epistemic_acting(settings), make_local_uncertainty(settings), ube=True)


def make_local_uncertainty(settings: LearnedSeaSettings) -> LocalUncertainty:
    """By the name of the novelty in the settings."""
    senses: dict[str, Callable[[], LocalUncertainty]] = {
        "counts": lambda: TrueStateNovelty(deep_sea.noise_aware(settings, deep_sea.counts(settings)), _pair),
        "rnd": lambda: LatentNovelty(_rnd(settings)),
        "ensemble": lambda: EnsembleDisagreement(_ensemble(settings)),
    }
    return lookup(senses, settings.novelty, "novelty")()


def _agent(
    settings: LearnedSeaSettings,
    acting: Planner,
    lanes: ExplorationSchedule,
    local_uncertainty: LocalUncertainty,
    *,
    ube: bool,
) -> Agent:
    model = lookup(MODELS, settings.model, "model")(settings)
    world_model = LearnedModel(
        local_uncertainty,
        model.dynamics_loss,
        model.observe,
        settings.discount,
        steps_left=steps_left(settings),
        few_states=True,
        around=_beyond_known(settings) if settings.beyond_known else as_it_is,
    )
    agent = compose(settings, acting, lanes, world_model, lambda key: model.networks(key, ube))
    weights = dataclasses.replace(
        agent.weights, continuation=settings.going_weight, consistency=model.drift_weight
    )
    return dataclasses.replace(agent, weights=weights)


def _beyond_known(settings: LearnedSeaSettings) -> Callable[[PlanningModel], PlanningModel]:
    """What has half of the variance of the unseen, or more, is unknown: one visit takes more than that away."""
    unseen = settings.unseen_variance
    return lambda model: BeyondKnownPlanning(
        model, r_max=math.sqrt(unseen), gamma=settings.discount, unknown_at=unseen / 2
    )


@dataclasses.dataclass(frozen=True)
class Model:
    """What makes the one learned model differ from the other."""

    dynamics_loss: DynamicsLoss
    observe: Callable[[Any, Any], Array]
    networks: Callable[[Key, bool], ModelNetworks]
    drift_weight: float


def _sizes(settings: LearnedSeaSettings) -> Sizes:
    return Sizes(
        settings.latent, settings.representation, settings.dynamics, settings.heads, settings.ube_head
    )


def _abstracted(settings: LearnedSeaSettings) -> Model:
    env = DeepSeaFactory(settings.size).example
    sizes = _sizes(settings)

    def networks(key: Key, ube: bool) -> ModelNetworks:
        body_key, rest_key = jax.random.split(key)
        body = mlp(env.num_states, (*sizes.representation, sizes.latent), key=body_key, finite=True)
        return abstracted_networks(
            body,
            env.num_actions,
            sizes=sizes,
            values=values_of(settings),
            ube=ube,
            exploration=False,
            key=rest_key,
        )

    dynamics_loss = Consistent() if settings.consistency else ValueEquivalent()
    return Model(dynamics_loss, lambda env, state: env.index(state), networks, settings.consistency)


def _anchored(settings: LearnedSeaSettings) -> Model:
    env = DeepSeaFactory(settings.size).example

    def networks(key: Key, ube: bool) -> ModelNetworks:
        return anchored_networks(
            _latent_size(settings),
            env.num_actions,
            sizes=_sizes(settings),
            values=values_of(settings),
            ube=ube,
            key=key,
        )

    return Model(Anchored(), row_and_column, networks, 1.0)


MODELS = {"abstracted": _abstracted, "anchored": _anchored}


def _latent_size(settings: LearnedSeaSettings) -> int:
    return 2 * settings.size if settings.model == "anchored" else settings.latent


def _pair(env: Any, before: Any, action: Any, after: Any) -> Array:
    return pair_index(env.index(before), action, env.num_actions)


def _inputs(settings: LearnedSeaSettings) -> int:
    return _latent_size(settings) + DeepSeaFactory(settings.size).example.num_actions


def _rnd(settings: LearnedSeaSettings) -> Normalised:
    rnd = deep_sea.distilled(settings, _inputs(settings), finite=False)
    return deep_sea.normalised(settings, rnd, lambda key: _probes(settings, key))


def _ensemble(settings: LearnedSeaSettings) -> Normalised:
    sizes = (256, 256, _latent_size(settings))
    ensemble = Ensemble(
        member=lambda key: mlp(_inputs(settings), sizes, key=key, finite=False),
        optimiser=deep_sea.novelty_optimiser(settings),
        size=5,
    )
    return deep_sea.normalised(settings, ensemble, lambda key: _probes(settings, key))


def _probes(settings: LearnedSeaSettings, key: Key) -> Array:
    """Inputs like those to come: cells, or standardised latent states, each with some action."""
    env = DeepSea(settings.size)
    state_key, action_key = jax.random.split(key)
    states = jax.vmap(env.state_at)(jnp.arange(env.num_states))
    if settings.model == "anchored":
        latents = jax.vmap(lambda state: row_and_column(env, state))(states)
    else:
        latents = jax.random.normal(state_key, (env.num_states, settings.latent))
    actions = jax.random.randint(action_key, (env.num_states,), 0, env.num_actions)
    return jax.vmap(with_action, in_axes=(0, 0, None))(latents, actions, env.num_actions)
