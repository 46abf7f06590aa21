"""The AlphaZero family in Deep Sea: transitions are given; reward, value and their uncertainty are learned."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array

from emcts.agents.mcts.agent import (
    Agent,
    Evaluation,
    ExplorationSchedule,
    LossWeights,
    NoveltyUpdate,
    ReplayConfig,
    Schedule,
)
from emcts.agents.mcts.planners import Gumbel, Planner, Puct, UbeAtRoot, Uct, uniform
from emcts.agents.mcts.targets import (
    Bootstrap,
    NStep,
    NStepUbe,
    Reanalyse,
    ahead_variance,
    edge_variance,
    root_variance,
    value_rule,
)
from emcts.envs.base import is_deterministic
from emcts.models.codecs import Categorical, support
from emcts.models.evaluators import NoNovelty, TabularEvaluator
from emcts.models.layers import mlp
from emcts.models.learned.model import endless
from emcts.models.networks import indexed_networks
from emcts.models.simulator import SimulatorModel
from emcts.models.ube import horizon_factor
from emcts.models.world_model import WorldModel
from emcts.novelty import Counts, Ensemble, NoiseAware, Normalised, Novelty, RewardMoments, Rnd
from emcts.registry import lookup
from emcts.training.env_factory import DeepSeaFactory
from emcts.training.evaluation import episodes_solved
from emcts.training.replay import surprise, value_error
from emcts.types import Key

LIMIT = 10  # of the support of categorical heads


@dataclasses.dataclass(frozen=True)
class SeaSettings:
    """Of a training in Deep Sea, whatever the model. Steps are those of all episodes, of one seed."""

    size: int = 10
    stochastic: bool = False
    total_env_steps: int = 10_000
    """when training ends"""
    steps_between_evaluations: int = 200
    beta: float | None = None
    """what a standard deviation is worth to an episode that explores; left out 1, and 10 if rewards are stochastic"""
    episodes: int = 2
    """that run side by side"""
    exploring_episodes: int = 1
    """of those; the others exploit"""
    novelty: str = "counts"
    """counts, rnd or ensemble"""
    count_epsilon: float = 0.01
    """a transition that was seen n times has variance proportional to 1 / (n + this)"""
    unseen_variance: float = 3.0
    """of a transition that was never seen"""
    novelty_width: int = 1024
    """of the hidden layers of rnd's predictor; its target and the outputs of both have half as many units"""
    novelty_learning_rate: float = 5e-4
    novelty_epsilon: float = 0.01
    """of Adam, for rnd and ensemble: with less, what is sampled rarely is never quite learned (docs/agents.md)"""
    fresh_moves: int = 128
    """that rnd and ensemble are shown again with each batch, the latest ones"""
    novelty_power: float = 2.0
    """of rnd and ensemble: variances to this power, so that the half learned counts for little"""
    new_from: float | None = 0.4
    """of rnd and ensemble: the share of the first error from which on a transition is wholly new"""
    reward_noise: bool = True
    """whether the noise of rewards is learned, and uncertainty is that of a mean of draws: without noise it changes
    nothing"""
    leaf_horizon: str = "episode"
    """how long the unknown may go on behind a leaf: to the end of the episode, or endless"""
    discount: float = 0.995
    simulations: int = 50
    acting_rule: str = "puct"
    """of an epistemic agent when it acts: puct, gumbel, or uct, which has no prior and does not normalise values"""
    temperature: float = 0.0
    """of the actions of episodes that exploit; 0 takes the most visited"""
    value_moves: int = 0
    """rewards that a value target takes from the replay; 0 searches, and takes one reward if that is more and rewards
    are not stochastic"""
    ube_target: str = "ahead"
    """what a UBE target ends with: the largest variance one step ahead, or of a search: at its root, of its edges"""
    ube_moves: int = 0
    """moves that a UBE target takes from the replay before that"""
    reanalyse_rule: str = "gumbel"
    """the search that makes targets: gumbel or puct"""
    reanalysed: float = 1.0
    """share of the policy targets that are searched anew"""
    learning_rate: float = 1e-3
    batch_size: int = 256
    sequence: int = 1
    """steps in a row that each sample of the replay gives"""
    replay_capacity: int = 100_000
    priority_exponent: float = 0.6
    priority: str = "surprise"
    """what decides how often a step is learned from: value-error, or surprise"""
    correction: tuple[float, float] = (0.4, 1.0)
    value_weight: float = 0.5
    policy_weight: float = 0.5
    reward_weight: float = 1.0
    ube_weight: float = 0.125
    uncertainty_weight: float = 0.0
    """weights losses by 0.5 + sigmoid(-this * std): above 0, what is uncertain counts less"""
    moves_per_iteration: int = 5
    updates_per_iteration: int = 20
    target_every: int = 1
    """iterations after which the target network becomes the network"""
    warm_up: int = 100
    reanalyse_beta: float = 0.0
    """below 0, targets are pessimistic"""
    evaluation_beta: float = 0.0
    evaluation_episodes: int = 1


@dataclasses.dataclass(frozen=True)
class DeepSeaSettings(SeaSettings):
    """With the true model."""

    width: int = 256
    """of the two hidden layers of each network"""


PAPER = DeepSeaSettings(
    size=40,
    total_env_steps=45_000,
    beta=10.0,
    novelty="rnd",
    unseen_variance=1.0,
    novelty_epsilon=1e-8,
    reward_noise=False,
    priority="value-error",
    fresh_moves=0,
    warm_up=300,
    novelty_power=1.0,
    new_from=None,
    leaf_horizon="endless",
    temperature=1.0,
    value_moves=5,
    ube_moves=1,
    reanalyse_rule="puct",
    reanalysed=0.99,
    learning_rate=5e-4,
    sequence=5,
    updates_per_iteration=10,
    evaluation_episodes=8,
)
"""The paper's tables for the true model."""

BEST = DeepSeaSettings()
"""What worked best here: docs/agents.md says why."""


def az(settings: DeepSeaSettings) -> Agent:
    """AlphaZero: explores by Dirichlet noise and by drawing actions."""
    return _agent(settings, *plain_acting(settings), NoNovelty(), ube=False)


def az_ube(settings: DeepSeaSettings) -> Agent:
    """AlphaZero that explores by the score of one step ahead; its search knows of no uncertainty."""
    return _agent(settings, *ube_acting(settings), make_novelty(settings), ube=True)


def e_az(settings: DeepSeaSettings) -> Agent:
    """Epistemic AlphaZero: its search explores."""
    return _agent(settings, *epistemic_acting(settings), make_novelty(settings), ube=True)


def plain_acting(settings: SeaSettings) -> tuple[Planner, ExplorationSchedule]:
    """Dirichlet noise and drawn actions, in all episodes alike."""
    acting = Puct(settings.simulations, dirichlet_fraction=0.25, temperature=1.0)
    return acting, ExplorationSchedule((0.0,) * settings.episodes, (False,) * settings.episodes)


def ube_acting(settings: SeaSettings) -> tuple[Planner, ExplorationSchedule]:
    """Episodes that explore look at the uncertainty of one step ahead."""
    return UbeAtRoot(Puct(settings.simulations, temperature=settings.temperature)), _lanes(settings)


def epistemic_acting(settings: SeaSettings) -> tuple[Planner, ExplorationSchedule]:
    """Episodes that explore search for uncertainty."""
    rules: dict[str, Planner] = {
        "puct": Puct(settings.simulations, temperature=settings.temperature),
        "gumbel": Gumbel(settings.simulations, exploring_prior=uniform, gumbel_scale=0.0),
        "uct": Uct(settings.simulations),
    }
    return lookup(rules, settings.acting_rule, "acting_rule"), _lanes(settings)


def make_novelty(settings: SeaSettings) -> Novelty:
    """By the name in the settings."""
    make, _ = lookup(NOVELTIES, settings.novelty, "novelty")
    return noise_aware(settings, make(settings))


def noise_aware(settings: SeaSettings, novelty: Novelty) -> Novelty:
    """The same beside the moments of the rewards of each transition, where these may have noise."""
    return NoiseAware(novelty, RewardMoments(_num_pairs(settings))) if settings.reward_noise else novelty


def _agent(
    settings: DeepSeaSettings, acting: Planner, lanes: ExplorationSchedule, novelty: Novelty, *, ube: bool
) -> Agent:
    env = DeepSeaFactory(settings.size).example

    def make_networks(key: Key) -> Any:
        return indexed_networks(
            env.num_states,
            env.num_actions,
            widths=(settings.width,) * 2,
            values=values_of(settings),
            ube=ube,
            key=key,
        )

    left = steps_left(settings)

    def leaf_factor(leaf: Any) -> Any:
        return horizon_factor(settings.discount, left(leaf))

    world_model = SimulatorModel(TabularEvaluator(novelty), settings.discount, leaf_factor)
    return compose(settings, acting, lanes, world_model, make_networks)


def values_of(settings: SeaSettings) -> Categorical:
    """What heads of values and rewards predict."""
    return support(LIMIT, deterministic=not settings.stochastic)


def steps_left(settings: SeaSettings) -> Callable[[Any], Any]:
    """How long the unknown may go on behind a state."""

    if settings.discount == 1 and settings.leaf_horizon == "endless":
        raise ValueError(
            "a discount of 1 bounds no endless sum: give --leaf-horizon episode, or a discount below 1"
        )

    def of_episode(state: Any) -> Any:
        return (settings.size - state.row).astype(jnp.float32)

    return lookup({"episode": of_episode, "endless": endless}, settings.leaf_horizon, "leaf_horizon")


def compose(
    settings: SeaSettings,
    acting: Planner,
    lanes: ExplorationSchedule,
    world_model: WorldModel,
    make_networks: Callable[[Key], Any],
) -> Agent:
    """What agents in Deep Sea have in common, with or without the true model."""
    env_factory = DeepSeaFactory(settings.size, settings.stochastic)
    deterministic = is_deterministic(env_factory.example)
    rules: dict[str, Planner] = {
        "gumbel": Gumbel(settings.simulations),
        "puct": Puct(settings.simulations, temperature=0.0),
    }
    bootstraps: dict[str, Bootstrap] = {
        "ahead": ahead_variance,
        "root": root_variance,
        "edge": edge_variance,
    }
    greedy = Gumbel(settings.simulations, gumbel_scale=0.0)
    return Agent(
        env_factory=env_factory,
        world_model=world_model,
        make_networks=make_networks,
        acting=acting,
        lanes=lanes,
        seen=lookup(NOVELTIES, settings.novelty, "novelty")[1],
        reanalyse=Reanalyse(
            planner=lookup(rules, settings.reanalyse_rule, "reanalyse_rule"),
            value=NStep(settings.value_moves)
            if settings.value_moves
            else value_rule(deterministic=deterministic),
            ube=NStepUbe(settings.ube_moves, lookup(bootstraps, settings.ube_target, "ube_target")),
            moves=max(settings.value_moves, settings.ube_moves, 1),
            beta=settings.reanalyse_beta,
            fraction=settings.reanalysed,
            exploring=Puct(settings.simulations, temperature=0.0),
            exploring_beta=_beta(settings),
            needs_novelty=settings.reanalyse_beta != 0,
        ),
        weights=LossWeights(
            value=settings.value_weight,
            policy=settings.policy_weight,
            ube=settings.ube_weight,
            reward=settings.reward_weight,
            uncertainty_weight=settings.uncertainty_weight,
        ),
        optimiser=optax.adam(settings.learning_rate),
        memory=ReplayConfig(
            capacity=settings.replay_capacity,
            batch_size=settings.batch_size,
            sequence=settings.sequence,
            priority_exponent=settings.priority_exponent,
            correction=settings.correction,
            fresh=settings.fresh_moves,
            priority=lookup(PRIORITIES, settings.priority, "priority"),
        ),
        schedule=Schedule(
            settings.moves_per_iteration,
            settings.updates_per_iteration,
            warm_up=settings.warm_up,
            target_every=settings.target_every,
        ),
        evaluation=Evaluation(
            greedy,
            settings.evaluation_episodes,
            max_steps=settings.size,
            beta=settings.evaluation_beta,
            solved=episodes_solved,
        ),
    )


def _lanes(settings: SeaSettings) -> ExplorationSchedule:
    if not 0 <= settings.exploring_episodes <= max(settings.episodes, 1):
        raise ValueError(
            f"exploring_episodes is {settings.exploring_episodes}: give 0 to {settings.episodes}, "
            "the number of episodes"
        )
    exploring = tuple(lane < settings.exploring_episodes for lane in range(settings.episodes))
    return ExplorationSchedule(
        tuple(_beta(settings) if explores else 0.0 for explores in exploring), exploring
    )


def _beta(settings: SeaSettings) -> float:
    """More where rewards have noise: with 1, a seed in ten never went back to a goal whose first draws were bad."""
    if settings.beta is not None:
        return settings.beta
    return 10.0 if settings.stochastic else 1.0


def counts(settings: SeaSettings) -> Counts:
    return Counts(
        _num_pairs(settings),
        epsilon=settings.count_epsilon,
        scale=settings.unseen_variance * settings.count_epsilon,
    )


def _rnd(settings: SeaSettings) -> Novelty:
    pairs = _num_pairs(settings)
    return normalised(settings, distilled(settings, pairs, finite=True), lambda key: jnp.arange(pairs))


def _ensemble(settings: SeaSettings) -> Novelty:
    pairs = _num_pairs(settings)
    ensemble = Ensemble(
        member=lambda key: mlp(pairs, (64, 64, 8), key=key, finite=True),
        optimiser=novelty_optimiser(settings),
        size=10,
    )
    return normalised(settings, ensemble, lambda key: jnp.arange(pairs))


def distilled(settings: SeaSettings, num_inputs: int, *, finite: bool) -> Rnd:
    """RND over so many indices (`finite`) or numbers; with a width of 1024 it has the paper's networks."""
    width, half = settings.novelty_width, settings.novelty_width // 2
    if half < 1:
        raise ValueError(f"novelty_width is {width}: give at least 2")
    return Rnd(
        predictor=lambda key: mlp(num_inputs, (width, width, half), key=key, finite=finite),
        target=lambda key: mlp(num_inputs, (half, half), key=key, finite=finite),
        optimiser=novelty_optimiser(settings),
    )


def novelty_optimiser(settings: SeaSettings) -> optax.GradientTransformation:
    if not settings.novelty_epsilon > 0:
        raise ValueError(
            f"novelty_epsilon is {settings.novelty_epsilon}: give a positive number, 1e-8 for Adam as it comes"
        )
    return optax.adam(settings.novelty_learning_rate, eps=settings.novelty_epsilon)


def normalised(settings: SeaSettings, novelty: Novelty, probes: Callable[[Key], Array]) -> Normalised:
    """A learned estimator in units of what is unseen."""
    return Normalised(
        novelty,
        probes,
        scale=settings.unseen_variance,
        power=settings.novelty_power,
        new_from=settings.new_from,
    )


def _num_pairs(settings: SeaSettings) -> int:
    env = DeepSeaFactory(settings.size).example
    return env.num_states * env.num_actions


PRIORITIES = {"value-error": value_error, "surprise": surprise}
NOVELTIES = {
    "counts": (counts, NoveltyUpdate.ACTING),
    "rnd": (_rnd, NoveltyUpdate.TRAINING),
    "ensemble": (_ensemble, NoveltyUpdate.TRAINING),
}
