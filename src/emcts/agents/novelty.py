"""The table of novelty estimators by name: how each is made from the settings, for every task and model."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped

from emcts.agents.mcts.agent import NoveltyUpdate
from emcts.agents.settings import NoveltySettings
from emcts.models.layers import Mlp, mlp
from emcts.models.networks import InputSpec
from emcts.novelty import (
    Counts,
    Ensemble,
    HashCounts,
    HashSet,
    NoiseAware,
    Normalised,
    Novelty,
    RewardMoments,
    Rnd,
)
from emcts.registry import lookup
from emcts.types import Key

ENSEMBLE_OUTPUTS = 8  # of an ensemble that predicts nothing in particular


@dataclasses.dataclass(frozen=True)
class EstimatorInputs:
    """What an estimator reads: its shape, a sample of it to normalise by, and the number of steps of the run.

    `outputs` is the size of what an ensemble predicts. Without `probes`, estimators that need them are refused.
    """

    spec: InputSpec
    steps: int
    probes: Callable[[Key], Shaped[Array, "P ..."]] | None = None
    outputs: int = ENSEMBLE_OUTPUTS


@runtime_checkable
class MakeEstimator(Protocol):
    """Makes an estimator from the settings."""

    def __call__(self, settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty: ...


class Reads(enum.Enum):
    """What an estimator reads in a learned model: true states, latent states, or latent states that it predicts."""

    STATES = enum.auto()
    LATENTS = enum.auto()
    PREDICTIONS = enum.auto()


@dataclasses.dataclass(frozen=True)
class Estimator:
    """An entry of the table: how it is made, when it is updated, and what it reads in a learned model."""

    make: MakeEstimator
    update: NoveltyUpdate
    reads: Reads = Reads.STATES


def _counts(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    if inputs.spec.num_indices is None:
        raise ValueError("novelty.kind counts needs a finite environment: take hash-counts")
    scale = settings.unseen_variance * settings.count_epsilon
    return Counts(inputs.spec.num_indices, epsilon=settings.count_epsilon, scale=scale)


def _hash_set(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    return HashSet(settings.table_bits(inputs.steps), scale=settings.unseen_variance)


def _hash_counts(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    scale = settings.unseen_variance * settings.count_epsilon
    return HashCounts(settings.table_bits(inputs.steps), epsilon=settings.count_epsilon, scale=scale)


def _rnd(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    width, half = settings.rnd_width, settings.rnd_width // 2
    if half < 1:
        raise ValueError(f"novelty.rnd_width is {width}: give at least 2")
    return _normalised(
        settings,
        inputs,
        Rnd(
            predictor=lambda key: _network(inputs.spec, (width, width, half), key),
            target=lambda key: _network(inputs.spec, (half, half), key),
            optimiser=_optimiser(settings),
        ),
    )


def _ensemble(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    sizes = (*settings.ensemble_hidden, inputs.outputs)
    return _normalised(
        settings,
        inputs,
        Ensemble(
            member=lambda key: _network(inputs.spec, sizes, key),
            optimiser=_optimiser(settings),
            size=settings.ensemble_size,
        ),
    )


ESTIMATORS: dict[str, Estimator] = {
    "counts": Estimator(_counts, NoveltyUpdate.ACTING),
    "hash-set": Estimator(_hash_set, NoveltyUpdate.ACTING),
    "hash-counts": Estimator(_hash_counts, NoveltyUpdate.ACTING),
    "rnd": Estimator(_rnd, NoveltyUpdate.TRAINING, Reads.LATENTS),
    "ensemble": Estimator(_ensemble, NoveltyUpdate.TRAINING, Reads.PREDICTIONS),
}


def make_estimator(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    """Makes the estimator of the settings. In finite environments it comes with moments of the rewards."""
    novelty = lookup(ESTIMATORS, settings.kind, "novelty.kind").make(settings, inputs)
    if not settings.reward_noise or inputs.spec.num_indices is None:
        return novelty
    return NoiseAware(novelty, RewardMoments(inputs.spec.num_indices))


def novelty_update(settings: NoveltySettings) -> NoveltyUpdate:
    """Returns when the estimator is updated: by the settings, or as its kind needs it."""
    estimator = lookup(ESTIMATORS, settings.kind, "novelty.kind")
    if settings.update is None:
        return estimator.update
    update = lookup({one.value: one for one in NoveltyUpdate}, settings.update, "novelty.update")
    if update is NoveltyUpdate.ACTING and estimator.update is NoveltyUpdate.TRAINING:
        raise ValueError(
            f"{settings.kind} learns from the replay: give --novelty.update training, or another --novelty.kind"
        )
    return update


class _FloatInput(eqx.Module):
    """A network over a vector of any dtype."""

    body: Mlp

    def __call__(self, x: Shaped[Array, "F"]) -> Float[Array, "outputs"]:
        return self.body(x.astype(jnp.float32))


def _network(spec: InputSpec, sizes: tuple[int, ...], key: Key) -> Mlp | _FloatInput:
    body = mlp(spec.size, sizes, key=key, indexed=spec.is_indexed)
    return body if spec.is_indexed else _FloatInput(body)


def _optimiser(settings: NoveltySettings) -> optax.GradientTransformation:
    if not settings.adam_epsilon > 0:
        raise ValueError(
            f"novelty.adam_epsilon is {settings.adam_epsilon}: give a positive number, such as Adam's 1e-8"
        )
    return optax.adam(settings.learning_rate, eps=settings.adam_epsilon)


def _normalised(settings: NoveltySettings, inputs: EstimatorInputs, novelty: Novelty) -> Novelty:
    """An estimator whose variances are in units of those of unseen inputs."""
    if inputs.probes is None:
        raise ValueError(
            f"novelty.kind {settings.kind} has no inputs to be normalised by here: take hash-set or hash-counts"
        )
    return Normalised(
        novelty,
        inputs.probes,
        scale=settings.unseen_variance,
        power=settings.power,
        new_from=settings.saturation,
    )
