"""The variants of agents: {simulator, learned model} x {no uncertainty, UBE at the root, epistemic search}."""

import dataclasses
import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree, Shaped

from emcts.agents.mcts.agent import ReplayConfig
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import (
    Gumbel,
    Planner,
    Puct,
    UbeAtRoot,
    Uct,
    exploration_prior,
    uniform_prior,
)
from emcts.agents.mcts.targets import (
    EDGE,
    LOOKAHEAD,
    ROOT,
    NStep,
    NStepUbe,
    Reanalyse,
    SearchedEdgeUbe,
    UbeRule,
    value_rule,
)
from emcts.agents.novelty import ESTIMATORS, EstimatorInputs, Reads, make_estimator, novelty_update
from emcts.agents.settings import LearnedModelSettings, NetworkSettings, Settings
from emcts.agents.task import Task, observe
from emcts.envs.base import AnyEnvironment, FiniteEnvironment
from emcts.models.beyond_known import BeyondKnownPlanning
from emcts.models.codecs import support
from emcts.models.evaluators import (
    NetworkEvaluator,
    NoNovelty,
    NoveltyInput,
    TabularEvaluator,
    all_states,
    pair_index,
)
from emcts.models.learned.local_uncertainty import (
    EnsembleDisagreement,
    LatentNovelty,
    LocalUncertainty,
    TrueStateNovelty,
    with_action,
)
from emcts.models.learned.model import LearnedModel, Wrapper, unknown_horizon, unwrapped
from emcts.models.learned.networks import (
    Anchored,
    Consistent,
    Sizes,
    ValueEquivalent,
    abstracted_networks,
    anchored_networks,
)
from emcts.models.networks import HeadSpec, InputSpec, make_encoder, make_networks
from emcts.models.simulator import LeafFactor, SimulatorModel
from emcts.models.ube import horizon_factor
from emcts.models.world_model import WorldModel
from emcts.novelty import Fitted, Novelty
from emcts.registry import lookup
from emcts.training.learner import EvaluationConfig, ExplorationSchedule, UpdateSchedule, check_positive
from emcts.training.replay import surprise, value_error
from emcts.types import Key

SUPPORT_LIMIT = 10  # of categorical heads
NUM_PROBES = 256  # inputs that a learned novelty estimator is normalised by, if states are not finite
AnySettings = Settings[PyTree, PyTree]
Networks = Callable[[Key], PyTree]


@runtime_checkable
class MakeModel(Protocol):
    """Makes the world model and its networks. Without `uncertainty` there is no novelty, and no UBE head."""

    def __call__(
        self, task: Task, settings: AnySettings, *, uncertainty: bool
    ) -> tuple[WorldModel[PyTree], Networks]: ...


@dataclasses.dataclass(frozen=True)
class Acting:
    """How a variant acts: its planner, and how its parallel episodes explore."""

    planner: Callable[[AnySettings], Planner]
    exploration: Callable[[Task, AnySettings], ExplorationSchedule]
    uncertainty: bool


@dataclasses.dataclass(frozen=True)
class Variant:
    """An entry of the table: what the agent plans with, and what its acting does with uncertainty."""

    description: str
    model: MakeModel
    acting: Acting


def compose(variant: Variant, task: Task, settings: AnySettings) -> MctsLearner:
    """Makes the agent of a variant, for any task."""
    check_positive(settings.schedule, "schedule", "num_envs")
    world_model, networks = variant.model(task, settings, uncertainty=variant.acting.uncertainty)
    replay, evaluation, schedule = settings.replay, settings.evaluation, settings.schedule
    return MctsLearner(
        env_factory=task.env_factory,
        world_model=world_model,
        make_networks=networks,
        planner=variant.acting.planner(settings),
        exploration=variant.acting.exploration(task, settings),
        novelty_update=novelty_update(settings.novelty),
        reanalyse=_reanalyse(task, settings),
        loss_weights=settings.loss,
        optimiser=optax.adam(settings.optimiser.learning_rate),
        replay=ReplayConfig(
            capacity=replay.capacity,
            batch_size=replay.batch_size,
            sequence=replay.sequence,
            priority_exponent=replay.priority_exponent,
            importance=replay.importance,
            priority=lookup(PRIORITIES, replay.priority, "replay.priority"),
            recent=replay.recent,
        ),
        schedule=UpdateSchedule(
            schedule.rollout_length, schedule.updates, schedule.warmup_steps, schedule.target_period
        ),
        evaluation=EvaluationConfig(
            evaluation.episodes,
            task.max_steps if evaluation.max_steps is None else evaluation.max_steps,
            evaluation.beta,
            task.solved,
        ),
        evaluation_planner=Gumbel(settings.search.simulations, gumbel_scale=0.0),
    )


PRIORITIES = {"value-error": value_error, "surprise": surprise}


def _beta(task: Task, settings: AnySettings) -> float:
    """Larger where rewards are noisy: with 1, one seed in ten never returned to a goal whose first draws were bad."""
    if settings.exploration.beta is not None:
        return settings.exploration.beta
    return 1.0 if task.is_deterministic else 10.0


def _search(settings: AnySettings, *, noise: bool = False) -> Planner:
    """The search of the settings. With `noise`, puct explores by Dirichlet noise and by sampled actions."""
    search = settings.search
    prior = exploration_prior if settings.exploration.policy_head else uniform_prior
    planners: dict[str, Planner] = {
        "puct": Puct(
            search.simulations,
            prior,
            dirichlet_fraction=search.dirichlet_fraction if noise else 0.0,
            temperature=1.0 if noise else search.temperature,
        ),
        "gumbel": Gumbel(search.simulations, prior, gumbel_scale=search.gumbel_scale),
        "uct": Uct(search.simulations),
    }
    return lookup(planners, search.policy, "search.policy")


def _ube_at_root(settings: AnySettings) -> Planner:
    planner = _search(settings)
    if not isinstance(planner, Puct | Gumbel):
        raise ValueError(f"search.policy {settings.search.policy} has no root scores: take puct or gumbel")
    return UbeAtRoot(planner)


def _no_exploration(task: Task, settings: AnySettings) -> ExplorationSchedule:
    num_envs = settings.schedule.num_envs
    return ExplorationSchedule((0.0,) * num_envs, (False,) * num_envs)


def _exploration(task: Task, settings: AnySettings) -> ExplorationSchedule:
    exploiting, num_envs = settings.exploration.num_exploiting, settings.schedule.num_envs
    if not 0 <= exploiting <= num_envs:
        raise ValueError(
            f"exploration.num_exploiting is {exploiting}: give 0 to {num_envs}, the number of parallel episodes"
        )
    schedules = {"constant": _constant_betas, "spaced": _spaced_betas}
    make = lookup(schedules, settings.exploration.betas, "exploration.betas")
    return make(_beta(task, settings), num_envs - exploiting, exploiting)


def _constant_betas(beta: float, exploring: int, exploiting: int) -> ExplorationSchedule:
    """Exploring episodes come first, with the same beta."""
    return ExplorationSchedule(
        (beta,) * exploring + (0.0,) * exploiting, (True,) * exploring + (False,) * exploiting
    )


def _spaced_betas(beta: float, exploring: int, exploiting: int) -> ExplorationSchedule:
    """Betas rise from 0; episodes that exploit come first."""
    betas = tuple(float(one) for one in np.linspace(0, beta, exploring + 1)[1:])
    return ExplorationSchedule((0.0,) * exploiting + betas, (False,) * exploiting + (True,) * exploring)


def _reanalyse(task: Task, settings: AnySettings) -> Reanalyse:
    targets, simulations = settings.targets, settings.search.simulations
    planners: dict[str, Planner] = {
        "gumbel": Gumbel(simulations),
        "puct": Puct(simulations, temperature=0.0),
    }
    ube = _ube_rule(settings)
    return Reanalyse(
        planner=lookup(planners, targets.search, "targets.search"),
        value=NStep(targets.value_steps)
        if targets.value_steps
        else value_rule(deterministic=task.is_deterministic),
        ube=ube,
        exploring=Puct(simulations, temperature=0.0),
        num_steps=max(targets.value_steps, targets.ube_steps, 1),
        beta=targets.beta,
        fraction=targets.fraction,
        exploration_beta=_beta(task, settings),
        exploration_temperature=settings.exploration.temperature,
        uses_novelty=targets.beta != 0 or settings.exploration.policy_head or ube.uses_search,
    )


def _ube_rule(settings: AnySettings) -> UbeRule:
    steps = settings.targets.ube_steps
    rules: dict[str, Callable[[], UbeRule]] = {
        "lookahead": lambda: NStepUbe(steps, LOOKAHEAD),
        "root": lambda: NStepUbe(steps, ROOT),
        "edge": lambda: NStepUbe(steps, EDGE),
        "search-edge": SearchedEdgeUbe,
    }
    if settings.targets.ube == "search-edge" and steps:
        raise ValueError(
            f"targets.ube search-edge takes no steps of the replay, got targets.ube_steps {steps}: take edge, or give 0"
        )
    return lookup(rules, settings.targets.ube, "targets.ube")()


def _heads(task: Task, settings: AnySettings, uncertainty: bool) -> HeadSpec:
    return HeadSpec(
        num_actions=task.env.num_actions,
        values=support(SUPPORT_LIMIT, deterministic=task.is_deterministic),
        bounded=task.bounded_returns,
        ube=uncertainty,
        exploration=uncertainty and settings.exploration.policy_head,
    )


def _steps_left(task: Task, settings: AnySettings) -> Callable[[PyTree], Float[Array, ""]]:
    """The steps that uncertainty accumulates over behind a state."""

    limit: Callable[[PyTree], Array] | None = getattr(task.env, "steps_left", None)

    def of_episode(state: PyTree) -> Float[Array, ""]:
        assert limit is not None, "checked below"
        return jnp.float32(limit(state))

    horizons = {"episode": of_episode, "endless": unknown_horizon}
    horizon = lookup(horizons, settings.novelty.leaf_horizon, "novelty.leaf_horizon")
    if horizon is unknown_horizon and settings.search.discount == 1:
        raise ValueError(
            "a discount of 1 bounds no endless sum: give --novelty.leaf-horizon episode, or a discount below 1"
        )
    if horizon is of_episode and limit is None:
        raise ValueError(
            "novelty.leaf_horizon episode needs an environment with `steps_left`: add it, wrap it in a TimeLimit, "
            "or take endless"
        )
    return horizon


def _leaf_factor(task: Task, settings: AnySettings) -> LeafFactor:
    """The leaf rule's `c`: 1, or the discounted number of steps that uncertainty accumulates over."""
    if settings.novelty.leaf_horizon == "single":
        return lambda leaf: jnp.float32(1)
    steps_left = _steps_left(task, settings)
    return lambda leaf: horizon_factor(settings.search.discount, steps_left(leaf))


def _max_variance(settings: AnySettings) -> float:
    given = settings.novelty.max_variance
    return math.inf if given is None else given


def _novelty_input(task: Task, settings: AnySettings) -> NoveltyInput:
    inputs, name = task.novelty_inputs, settings.novelty.input
    return lookup(inputs, next(iter(inputs)) if name is None else name, "novelty.input")


def simulator(task: Task, settings: AnySettings, *, uncertainty: bool) -> tuple[WorldModel[PyTree], Networks]:
    """Plans with the environment itself, as AlphaZero does."""
    model: NetworkSettings = settings.model
    heads, spec = _heads(task, settings, uncertainty), task.input_spec
    novelty = _simulator_novelty(task, settings) if uncertainty else NoNovelty()
    world_model = SimulatorModel(
        TabularEvaluator(novelty)
        if task.is_finite
        else NetworkEvaluator(novelty, observe, _novelty_input(task, settings)),
        settings.search.discount,
        _leaf_factor(task, settings),
        _max_variance(settings),
    )
    return world_model, lambda key: make_networks(
        spec, heads, width=model.width, channels=model.channels, key=key
    )


def _simulator_novelty(task: Task, settings: AnySettings) -> Novelty:
    env = task.env
    if isinstance(env, FiniteEnvironment):
        pairs: int = env.num_states * env.num_actions
        inputs = EstimatorInputs(
            InputSpec(num_indices=pairs), settings.steps, probes=lambda key: jnp.arange(pairs)
        )
    else:
        look = _novelty_input(task, settings)
        shape = jax.eval_shape(lambda state: look(env, state), task.example_state()).shape
        inputs = EstimatorInputs(InputSpec(shape), settings.steps)
    return make_estimator(settings.novelty, inputs)


def learned(task: Task, settings: AnySettings, *, uncertainty: bool) -> tuple[WorldModel[PyTree], Networks]:
    """Plans with a learned model, as MuZero does."""
    latents = lookup(LATENTS, settings.model.kind, "model.kind")(
        task, settings, _heads(task, settings, uncertainty)
    )
    steps_left = _steps_left(task, settings)
    uncertainties = _local_uncertainty(task, settings, latents) if uncertainty else LatentNovelty(NoNovelty())
    world_model = LearnedModel(
        uncertainties,
        latents.loss,
        latents.observe,
        settings.search.discount,
        steps_left=steps_left,
        max_variance=_max_variance(settings),
        tabular=task.is_finite,
        wrap=_beyond_known(settings) if settings.model.beyond_known else unwrapped,
    )
    return world_model, latents.networks


@dataclasses.dataclass(frozen=True)
class Latents:
    """What makes one kind of learned model differ from the other: `encode` gives a latent state without networks."""

    size: int
    loss: ValueEquivalent
    observe: NoveltyInput
    networks: Networks
    encode: NoveltyInput | None


def _sizes(model: LearnedModelSettings) -> Sizes:
    return Sizes(model.latent, model.representation, model.dynamics, model.heads, model.ube_head)


def _abstracted(task: Task, settings: AnySettings, heads: HeadSpec) -> Latents:
    model, spec = settings.model, task.input_spec

    def networks(key: Key) -> PyTree:
        encoder_key, rest_key = jax.random.split(key)
        encoder = make_encoder(
            spec, model.representation, model.latent, channels=model.channels, key=encoder_key
        )
        return abstracted_networks(encoder, heads, sizes=_sizes(model), key=rest_key)

    loss = Consistent() if settings.loss.consistency else ValueEquivalent()
    return Latents(model.latent, loss, observe, networks, None)


def _anchored(task: Task, settings: AnySettings, heads: HeadSpec) -> Latents:
    anchor = task.anchor
    if anchor is None:
        raise ValueError("this task has no anchored model: take --model.kind abstracted")
    if not settings.loss.consistency:
        raise ValueError("loss.consistency alone trains an anchored model: give a number above 0")

    def networks(key: Key) -> PyTree:
        return anchored_networks(anchor.size, heads, sizes=_sizes(settings.model), key=key)

    return Latents(anchor.size, Anchored(), anchor.encode, networks, anchor.encode)


LATENTS = {"abstracted": _abstracted, "anchored": _anchored}


def _local_uncertainty(task: Task, settings: AnySettings, latents: Latents) -> LocalUncertainty:
    """Latent states or true states, as the estimator reads them."""
    env = task.env
    reads = lookup(ESTIMATORS, settings.novelty.kind, "novelty.kind").reads
    if reads is Reads.STATES:
        return TrueStateNovelty(_simulator_novelty(task, settings), _transition_input(task, settings))
    inputs = EstimatorInputs(
        InputSpec((latents.size + env.num_actions,)),
        settings.steps,
        probes=lambda key: _probes(env, latents, key),
        outputs=latents.size,
    )
    novelty = make_estimator(settings.novelty, inputs)
    if reads is Reads.LATENTS:
        return LatentNovelty(novelty)
    if not isinstance(novelty, Fitted):
        raise TypeError(f"{type(novelty).__name__} learns no targets: an estimator that predicts needs `fit`")
    return EnsembleDisagreement(novelty)


def _transition_input(task: Task, settings: AnySettings) -> Callable[..., Shaped[Array, "..."]]:
    if task.is_finite:
        return lambda env, before, action, after: pair_index(env, before, action)
    look = _novelty_input(task, settings)
    return lambda env, before, action, after: look(env, after)


def _probes(env: AnyEnvironment, latents: Latents, key: Key) -> Float[Array, "P inputs"]:
    """Inputs like those to come: encoded states, or standardised latent states, each with some action."""
    latent_key, action_key = jax.random.split(key)
    count = env.num_states if isinstance(env, FiniteEnvironment) else NUM_PROBES
    encode = latents.encode
    if encode is not None and isinstance(env, FiniteEnvironment):
        states = jax.vmap(lambda state: encode(env, state))(all_states(env))
    else:
        states = jax.random.normal(latent_key, (count, latents.size))
    actions: Int[Array, "P"] = jax.random.randint(action_key, (count,), 0, env.num_actions)
    return jax.vmap(with_action, in_axes=(0, 0, None))(states, actions, env.num_actions)


def _beyond_known(settings: AnySettings) -> Wrapper:
    """A transition with at least half of the unseen variance is unknown: one visit removes more than that."""
    unseen = settings.novelty.unseen_variance
    return lambda model: BeyondKnownPlanning(
        model, r_max=math.sqrt(unseen), gamma=settings.search.discount, unknown_at=unseen / 2
    )


PLAIN = Acting(lambda settings: _search(settings, noise=True), _no_exploration, uncertainty=False)
UBE = Acting(_ube_at_root, _exploration, uncertainty=True)
EPISTEMIC = Acting(_search, _exploration, uncertainty=True)

VARIANTS: dict[str, Variant] = {
    "e-az": Variant(
        "Epistemic AlphaZero: its search propagates uncertainty, and explores by it", simulator, EPISTEMIC
    ),
    "az-ube": Variant("AlphaZero that explores by the uncertainty of one-step lookahead", simulator, UBE),
    "az": Variant("AlphaZero, without uncertainty", simulator, PLAIN),
    "e-mz": Variant("Epistemic MuZero: the same with a learned model", learned, EPISTEMIC),
    "mz-ube": Variant("MuZero that explores by the uncertainty of one-step lookahead", learned, UBE),
    "mz": Variant("MuZero, without uncertainty", learned, PLAIN),
}
