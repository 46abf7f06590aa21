"""The MuZero family on MinAtar: an abstract model of the game, learned from what the agent saw of it."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float

from emcts.agents import gumbel_family as family
from emcts.agents import minatar
from emcts.agents.gumbel_family import lanes_of, novelty_of
from emcts.agents.mcts.agent import Agent, ExplorationSchedule
from emcts.agents.mcts.planners import Gumbel, Planner, Puct, UbeAtRoot, exploration_head
from emcts.agents.minatar import MinAtarSettings
from emcts.envs.base import is_deterministic
from emcts.models.codecs import support
from emcts.models.evaluators import NoNovelty
from emcts.models.layers import ConvTorso, mlp
from emcts.models.learned.abstracted import Consistent, Sizes, ValueEquivalent, abstracted_networks
from emcts.models.learned.local_uncertainty import (
    EnsembleDisagreement,
    LatentNovelty,
    LocalUncertainty,
    TrueStateNovelty,
    with_action,
)
from emcts.models.learned.model import LearnedModel, ModelNetworks
from emcts.novelty import Ensemble, Normalised
from emcts.registry import lookup
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class LearnedMinAtarSettings(MinAtarSettings):
    """With a learned model."""

    novelty: str = "ensemble"
    """ensemble (disagreement on the next latent state), or set and counts, of true states that follow the plan"""
    seen: str = "training"
    sequence: int = 5
    """steps that the model is unrolled for when it learns"""
    batch_size: int = 820
    """samples of that many steps"""
    search: str = "gumbel"
    """that acts: gumbel, or puct, which mz gives Dirichlet noise"""
    dynamics: tuple[int, ...] = (128, 128)
    """hidden layers; latent states have the width of the other layers"""
    consistency: float = 1.0
    """weight of the loss that draws predicted latent states to the represented ones"""
    novelty_learning_rate: float = 1e-3
    ensemble_size: int = 5


PAPER = LearnedMinAtarSettings(hash_bits=24, consistency=0.0)
"""The paper's list for SUBLEQ and MinAtar, with a value-equivalent model; it has no MuZero here to compare with."""

BEST = LearnedMinAtarSettings()
"""Predicted states are also drawn to the represented ones. No better one was looked for."""


def mz(settings: LearnedMinAtarSettings) -> Agent:
    """MuZero."""
    lanes = ExplorationSchedule((0.0,) * settings.episodes, (False,) * settings.episodes)
    return _agent(settings, _search(settings, noise=0.25), lanes, LatentNovelty(NoNovelty()), uncertain=False)


def mz_ube(settings: LearnedMinAtarSettings) -> Agent:
    """MuZero that explores by the score of one step ahead; its search knows of no uncertainty."""
    acting = UbeAtRoot(_search(settings))
    return _agent(settings, acting, lanes_of(settings), make_local_uncertainty(settings), uncertain=True)


def e_mz(settings: LearnedMinAtarSettings) -> Agent:
    """Epistemic MuZero: its search explores, with a policy of its own."""
    return _agent(
        settings, _search(settings), lanes_of(settings), make_local_uncertainty(settings), uncertain=True
    )


def make_local_uncertainty(settings: LearnedMinAtarSettings) -> LocalUncertainty:
    """By the name of the novelty in the settings."""
    if settings.novelty == "ensemble":
        if settings.seen != "training":
            raise ValueError("an ensemble learns from the replay: give --seen training, or another novelty")
        return EnsembleDisagreement(_ensemble(settings))
    look = minatar.problem(settings).look
    return TrueStateNovelty(novelty_of(settings), lambda env, before, action, after: look(env, after))


def _search(settings: LearnedMinAtarSettings, *, noise: float = 0.0) -> Puct | Gumbel:
    rules: dict[str, Puct | Gumbel] = {
        "gumbel": Gumbel(settings.simulations),
        "puct": Puct(settings.simulations, exploring_prior=exploration_head, dirichlet_fraction=noise),
    }
    return lookup(rules, settings.search, "search")


def _agent(
    settings: LearnedMinAtarSettings,
    acting: Planner,
    lanes: ExplorationSchedule,
    local_uncertainty: LocalUncertainty,
    *,
    uncertain: bool,
) -> Agent:
    problem = minatar.problem(settings)
    world_model = LearnedModel(
        local_uncertainty,
        Consistent() if settings.consistency else ValueEquivalent(),
        problem.observe,
        settings.discount,
        largest_variance=problem.largest_variance,
    )
    agent = family.compose(settings, problem, acting, lanes, world_model, _networks(settings, uncertain))
    return dataclasses.replace(
        agent,
        weights=dataclasses.replace(agent.weights, consistency=settings.consistency),
        memory=dataclasses.replace(agent.memory, sequence=settings.sequence),
    )


class _Encoder(eqx.Module):
    """A convolution, and a layer from which latent states come."""

    torso: ConvTorso
    last: eqx.nn.Linear

    def __call__(self, image: Array) -> Float[Array, "latent"]:
        return self.last(self.torso(image))


def _networks(settings: LearnedMinAtarSettings, uncertain: bool) -> Callable[[Key], ModelNetworks]:
    env = minatar.problem(settings).env_factory.example
    shape = jax.eval_shape(env.observe, jax.eval_shape(env.init, jax.random.key(0))).shape
    width = settings.width
    sizes = Sizes(width, (), settings.dynamics, (width,), (width,))

    def make(key: Key) -> ModelNetworks:
        torso_key, last_key, rest_key = jax.random.split(key, 3)
        torso = ConvTorso(shape, settings.channels, width, key=torso_key)
        body = _Encoder(torso, eqx.nn.Linear(width, width, key=last_key))
        return abstracted_networks(
            body,
            env.num_actions,
            sizes=sizes,
            values=support(10, deterministic=is_deterministic(env)),
            ube=uncertain,
            exploration=uncertain,
            key=rest_key,
        )

    return make


def _ensemble(settings: LearnedMinAtarSettings) -> Normalised:
    num_actions = minatar.problem(settings).env_factory.example.num_actions
    width = settings.width

    def probes(key: Key) -> Array:
        latent_key, action_key = jax.random.split(key)
        latents = jax.random.normal(latent_key, (256, width))
        actions = jax.random.randint(action_key, (256,), 0, num_actions)
        return jax.vmap(with_action, in_axes=(0, 0, None))(latents, actions, num_actions)

    ensemble = Ensemble(
        member=lambda key: mlp(width + num_actions, (width, width, width), key=key, finite=False),
        optimiser=optax.adam(settings.novelty_learning_rate),
        size=settings.ensemble_size,
    )
    return Normalised(ensemble, probes, scale=settings.largest_variance)
