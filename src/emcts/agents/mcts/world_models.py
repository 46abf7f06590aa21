"""The world models of agents: the simulator and learned models, made for a task with their networks and novelty."""

import dataclasses
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, Shaped

from emcts.agents.novelty import (
    ESTIMATORS,
    OBSERVATION_FEATURES,
    EstimatorInputs,
    Reads,
    make_estimator,
)
from emcts.agents.settings import LearnedModelSettings, NetworkSettings, Settings
from emcts.agents.task import Task, observe
from emcts.envs.base import AnyEnvironment, FiniteEnvironment, is_on_host
from emcts.envs.rollout import random_states
from emcts.models.beyond_known import BeyondKnownPlanning
from emcts.models.codecs import support
from emcts.models.encoders import Encoder, InputSpec, Spec, own_encoder
from emcts.models.evaluators import (
    NetworkEvaluator,
    NoNovelty,
    NoveltyInput,
    Observe,
    TabularEvaluator,
    all_states,
    pair_index,
)
from emcts.models.layers import Projected
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
from emcts.models.networks import ENCODERS, TORSOS, HeadSpec, encoded_networks, indexed_networks
from emcts.models.simulator import LeafFactor, SimulatorModel
from emcts.models.statistics import Statistics, new_statistics, with_statistics
from emcts.models.ube import horizon_factor, single_step_factor
from emcts.models.world_model import WorldModel
from emcts.novelty import Fitted, Novelty
from emcts.registry import lookup
from emcts.training.learner import check_positive
from emcts.types import Key

NUM_PROBES = 256  # inputs that a learned novelty estimator is normalised by, if states are not finite
AnySettings = Settings[PyTree, PyTree]
Networks = Callable[[Key], PyTree]


def _heads(task: Task, settings: AnySettings, uncertainty: bool) -> HeadSpec:
    name, fixed_range = settings.model.support, _fixed_range(settings)
    unit = 1.0 if fixed_range is None else fixed_range
    return HeadSpec(
        num_actions=task.env.num_actions,
        values=support(name, deterministic=task.is_deterministic, unit=unit),
        bounded=task.bounded_returns,
        ube=uncertainty,
        exploration=uncertainty and settings.exploration.policy_head,
        variances=support(name, deterministic=True),
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


def _fixed_range(settings: AnySettings) -> float | None:
    given: float | None = settings.novelty.return_range
    if given is not None and not 0 < given < math.inf:
        raise ValueError(
            f"novelty.return_range is {given}: give a positive number, or leave it out to follow the rewards"
        )
    return given


def _num_outcomes(settings: AnySettings) -> int:
    given: int | None = settings.search.outcomes
    if given is None or given < 1:
        raise ValueError(f"search.outcomes is {given}: give a number of at least 1")
    return given


def _new_statistics(settings: AnySettings, spec: Spec) -> Statistics | None:
    """The statistics of new networks. An index is read as it is."""
    indexed = isinstance(spec, InputSpec) and spec.is_indexed
    return new_statistics(
        follow_returns=settings.novelty.return_range is None,
        observed=spec if settings.model.normalise_observations and not indexed else None,
    )


def simulator(task: Task, settings: AnySettings, *, uncertainty: bool) -> tuple[WorldModel[PyTree], Networks]:
    """Plans with the environment itself, as AlphaZero does."""
    if is_on_host(task.env):
        raise ValueError(
            "this agent searches the environment itself, whose simulator runs on the host, where JAX cannot step it: "
            "take --agent mz, mz-ube, e-mz or bdqn"
        )
    model: NetworkSettings = settings.model
    heads = _heads(task, settings, uncertainty)
    novelty = _simulator_novelty(task, settings) if uncertainty else NoNovelty()
    world_model = SimulatorModel(
        TabularEvaluator(novelty)
        if task.is_finite
        else NetworkEvaluator(novelty, observe, task.novelty_input(settings.novelty.input)),
        settings.search.discount,
        _leaf_factor(task, settings),
        _max_variance(settings),
        _fixed_range(settings),
        _num_outcomes(settings),
    )
    networks = _simulator_networks(task, model, heads)
    return world_model, lambda key: with_statistics(networks(key), _new_statistics(settings, task.input_spec))


def _simulator_networks(task: Task, model: NetworkSettings, heads: HeadSpec) -> Networks:
    """A user's encoder with heads, look-ups in a finite environment, else layers by the shape of the observation."""
    check_positive(model, "model", "width", "depth", "channels")
    env, widths = task.env, (model.width,) * model.depth
    num_pairs = env.num_states * env.num_actions if isinstance(env, FiniteEnvironment) else None
    if task.encoder is not None:
        encoder = own_encoder(task.encoder, task.input_spec)

        def encoded(key: Key) -> PyTree:
            encoder_key, heads_key = jax.random.split(key)
            size, module = encoder.size, encoder(encoder_key)
            return encoded_networks(
                module, size, heads, width=model.width, num_pairs=num_pairs, key=heads_key
            )

        return encoded
    if isinstance(env, FiniteEnvironment):
        num_states: int = env.num_states
        return lambda key: indexed_networks(num_states, heads, widths=widths, key=key)
    make = lookup(TORSOS, model.torso, "model.torso")
    spec = task.input_spec
    return lambda key: make(spec, heads, widths=widths, channels=model.channels, key=key)


def _simulator_novelty(task: Task, settings: AnySettings) -> Novelty:
    env = task.env
    if isinstance(env, FiniteEnvironment):
        pairs: int = env.num_states * env.num_actions
        inputs = EstimatorInputs(
            InputSpec(num_indices=pairs), settings.steps, probes=lambda key: jnp.arange(pairs)
        )
    else:
        look = task.novelty_input(settings.novelty.input)
        size = jax.eval_shape(lambda state: look(env, state), task.example_state()).size
        inputs = EstimatorInputs(
            InputSpec((size,)),
            settings.steps,
            probes=lambda key: jax.vmap(lambda state: look(env, state))(random_states(env, key)),
            features=OBSERVATION_FEATURES,
        )
    return make_estimator(settings.novelty, inputs)


def learned(task: Task, settings: AnySettings, *, uncertainty: bool) -> tuple[WorldModel[PyTree], Networks]:
    """Plans with a learned model, as MuZero does."""
    if (outcomes := _num_outcomes(settings)) > 1:
        raise ValueError(
            f"search.outcomes is {outcomes}, and a learned model predicts one outcome of each action: "
            "give 1, or take --agent az, az-ube or e-az"
        )
    latents = lookup(LATENTS, settings.model.kind, "model.kind")(
        task, settings, _heads(task, settings, uncertainty)
    )
    single = settings.novelty.leaf_horizon == "single"
    uncertainties = _local_uncertainty(task, settings, latents) if uncertainty else LatentNovelty(NoNovelty())
    world_model = LearnedModel(
        uncertainties,
        latents.loss,
        latents.observe,
        settings.search.discount,
        steps_left=unknown_horizon if single else _steps_left(task, settings),
        max_variance=_max_variance(settings),
        tabular=task.is_finite,
        wrap=_beyond_known(settings) if settings.model.beyond_known else unwrapped,
        fixed_range=_fixed_range(settings),
        leaf_factor=single_step_factor if single else horizon_factor,
    )
    return world_model, lambda key: with_statistics(
        latents.networks(key), _new_statistics(settings, latents.spec)
    )


@dataclasses.dataclass(frozen=True)
class Latents:
    """What makes one kind of learned model differ from the other: `encode` gives a latent state without networks."""

    size: int
    loss: ValueEquivalent
    observe: Observe
    spec: Spec  # of what is observed
    networks: Networks
    encode: NoveltyInput | None


def _sizes(model: LearnedModelSettings) -> Sizes:
    return Sizes(model.latent, model.representation, model.dynamics, model.heads, model.ube_head)


def _abstracted(task: Task, settings: AnySettings, heads: HeadSpec) -> Latents:
    model, spec = settings.model, task.input_spec

    check_positive(model, "model", "latent", "channels")
    encoder = _representation(task, model)

    def networks(key: Key) -> PyTree:
        encoder_key, rest_key = jax.random.split(key)
        return abstracted_networks(encoder(encoder_key), heads, sizes=_sizes(model), key=rest_key)

    loss = Consistent() if settings.loss.consistency else ValueEquivalent()
    return Latents(model.latent, loss, observe, spec, networks, None)


def _representation(task: Task, model: LearnedModelSettings) -> Callable[[Key], Encoder]:
    """A user's encoder with a linear layer to the latent state, else layers by the shape of the observation."""
    spec, latent = task.input_spec, model.latent
    if task.encoder is None:
        make = lookup(ENCODERS, model.torso, "model.torso")
        return lambda key: make(spec, model.representation, latent, channels=model.channels, key=key)
    encoder = own_encoder(task.encoder, spec)

    def projected(key: Key) -> Encoder:
        encoder_key, last_key = jax.random.split(key)
        return Projected(encoder(encoder_key), eqx.nn.Linear(encoder.size, latent, key=last_key))

    return projected


def _anchored(task: Task, settings: AnySettings, heads: HeadSpec) -> Latents:
    anchor = task.anchor
    if anchor is None:
        raise ValueError(
            "an anchored model predicts what is observed, which is too large here, or an index: "
            "take --model.kind abstracted"
        )
    if task.encoder is not None:
        raise ValueError(
            "an anchored model predicts what is observed, and encodes nothing: take --model.kind abstracted"
        )
    if not settings.loss.consistency:
        raise ValueError("loss.consistency alone trains an anchored model: give a number above 0")

    def networks(key: Key) -> PyTree:
        return anchored_networks(anchor.size, heads, sizes=_sizes(settings.model), key=key)

    encode = None if settings.model.normalise_observations else anchor.encode
    return Latents(anchor.size, Anchored(), anchor.encode, InputSpec((anchor.size,)), networks, encode)


LATENTS = {"abstracted": _abstracted, "anchored": _anchored}


def _local_uncertainty(task: Task, settings: AnySettings, latents: Latents) -> LocalUncertainty:
    """Latent states or true states, as the estimator reads them."""
    env = task.env
    reads = lookup(ESTIMATORS, settings.novelty.kind, "novelty.kind").reads
    if reads is Reads.STATES:
        if is_on_host(env):
            raise ValueError(
                f"novelty.kind {settings.novelty.kind} follows plans through the environment, whose simulator runs on "
                "the host, where JAX cannot step it: take --novelty.kind ensemble or rnd"
            )
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
    look = task.novelty_input(settings.novelty.input)
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
        model,
        r_max=math.sqrt(unseen) * model.return_range,
        gamma=settings.search.discount,
        unknown_at=unseen / 2 * model.return_range**2,
    )
