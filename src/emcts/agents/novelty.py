"""The table of novelty estimators by name: how each is made from the settings, for every task and model."""

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Shaped

from emcts.agents.mcts.agent import NoveltyUpdate
from emcts.agents.settings import MAX_BITS, NoveltySettings
from emcts.agents.task import Task
from emcts.envs.rollout import QUICK_TO_COMPILE, random_states
from emcts.models.layers import Mlp, mlp
from emcts.models.networks import InputSpec
from emcts.novelty import (
    Binned,
    Counts,
    Ensemble,
    HashCounts,
    HashSet,
    NoiseAware,
    Normalised,
    Novelty,
    NoveltyTable,
    RandomFeatures,
    RewardMoments,
    Rnd,
    SimHash,
    Whitened,
    Xxh32Hash,
)
from emcts.novelty.hash_functions import Hash
from emcts.registry import lookup
from emcts.types import Key

ENSEMBLE_OUTPUTS = 8  # of an ensemble that predicts nothing in particular
OBSERVATION_FEATURES = 256  # that networks read in place of observations themselves
MOST_VALUES = 32  # of a float, in a sample of 256, for the same ones to come again
MOST_BINNED = 8  # numbers: in a grid of more, hardly any cell is seen twice
BINS_OF_ONE = (
    4.0  # cells per standard deviation, if there is a single number; with more numbers, each has fewer
)
SIMHASH_BINS = 8.0  # cells that are small enough not to change directions


@dataclasses.dataclass(frozen=True)
class EstimatorInputs:
    """What an estimator reads: its shape, a sample of it to normalise by, and the number of steps of the run.

    `outputs` is the size of what an ensemble predicts, and `features` the number of random features that networks read
    unless the settings say it. Without `probes`, estimators that need them are refused.
    """

    spec: InputSpec
    steps: int
    probes: Callable[[Key], Shaped[Array, "P ..."]] | None = None
    outputs: int = ENSEMBLE_OUTPUTS
    features: int = 0


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
    bits = settings.table_bits(inputs.steps)
    return _binned(settings, inputs, HashSet(bits, _hash(settings), settings.unseen_variance))


def _hash_counts(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    epsilon, bits = settings.count_epsilon, settings.table_bits(inputs.steps)
    table = HashCounts(bits, _hash(settings), epsilon, settings.unseen_variance * epsilon)
    return _binned(settings, inputs, table)


def _hash(settings: NoveltySettings) -> Hash:
    hashes: dict[str, Callable[[], Hash]] = {
        "xxh32": Xxh32Hash,
        "simhash": lambda: SimHash(settings.simhash_bits),
    }
    return lookup(hashes, "xxh32" if settings.hash is None else settings.hash, "novelty.hash")()


def _binned(settings: NoveltySettings, inputs: EstimatorInputs, table: NoveltyTable) -> Novelty:
    """A table of inputs as they are, or of the cells that they are in."""
    if not settings.bins:
        return table
    if inputs.spec.is_indexed:
        raise ValueError(
            f"novelty.bins is {settings.bins}, but the states of this environment have numbers: leave it out"
        )
    return Binned(table, _probes(settings, inputs), settings.bins)


def _rnd(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    width, half = settings.rnd_width, settings.rnd_width // 2
    if half < 1:
        raise ValueError(f"novelty.rnd_width is {width}: give at least 2")
    spec = _network_input(settings, inputs)
    # Features are a hidden layer of their own: with two more, little is learned of what was seen a dozen times.
    hidden = (width,) if _num_features(settings, inputs) else (width, width)
    return _normalised(
        settings,
        inputs,
        Rnd(
            predictor=lambda key: _network(spec, (*hidden, half), key),
            target=lambda key: _network(spec, (half, half), key),
            optimiser=_optimiser(settings),
        ),
    )


def _ensemble(settings: NoveltySettings, inputs: EstimatorInputs) -> Novelty:
    sizes = (*settings.ensemble_hidden, inputs.outputs)
    spec = _network_input(settings, inputs)
    return _normalised(
        settings,
        inputs,
        Ensemble(
            member=lambda key: _network(spec, sizes, key),
            optimiser=_optimiser(settings),
            size=settings.ensemble_size,
            prior_scale=settings.ensemble_prior,
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


def default_kind(
    task: Task, *, learned: bool, kind: str | None = None, input_name: str | None = None
) -> Mapping[str, str | float]:
    """Returns the estimator that suits what is observed in a task, as values of `NoveltySettings` by name.

    `kind` and `input_name` are those of the settings, if they are given there. Random steps show what is observed.
    """
    if kind is None and (learned or task.is_finite):
        return {"kind": "ensemble" if learned else "counts"}
    if kind not in (None, *MAX_BITS) or task.is_finite or task.is_on_host:
        return {}
    sample = _sample(task, input_name)
    table, size = kind or "hash-counts", math.prod(sample.shape[1:])
    if _repeats(sample):
        return {"kind": table, "hash": "xxh32", "bins": 0.0}
    if size <= MOST_BINNED:
        return {"kind": table, "hash": "xxh32", "bins": BINS_OF_ONE / size}
    return {"kind": "rnd"} if kind is None else {"hash": "simhash", "bins": SIMHASH_BINS}


def _sample(task: Task, input_name: str | None) -> np.ndarray:
    look = task.novelty_input(input_name)

    def sample(key: Key) -> Shaped[Array, "P ..."]:
        return jax.vmap(lambda state: look(task.env, state))(random_states(task.env, key))

    return np.asarray(jax.jit(sample, compiler_options=QUICK_TO_COMPILE)(jax.random.key(0)))


def _repeats(sample: np.ndarray) -> bool:
    """Whether the same numbers come again: integers, or floats of which few are different."""
    if not np.issubdtype(sample.dtype, np.floating):
        return True
    columns = np.sort(sample.reshape(len(sample), -1), axis=0)
    return bool(np.max(1 + np.sum(columns[1:] != columns[:-1], axis=0)) <= MOST_VALUES)


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
    """A network over an array of any shape and dtype."""

    body: Mlp

    def __call__(self, x: Shaped[Array, "..."]) -> Float[Array, "outputs"]:
        return self.body(x.reshape(-1).astype(jnp.float32))


def _network(spec: InputSpec, sizes: tuple[int, ...], key: Key) -> Mlp | _FloatInput:
    body = mlp(spec.size, sizes, key=key, indexed=spec.is_indexed)
    return body if spec.is_indexed else _FloatInput(body)


def _optimiser(settings: NoveltySettings) -> optax.GradientTransformation:
    if not settings.adam_epsilon > 0:
        raise ValueError(
            f"novelty.adam_epsilon is {settings.adam_epsilon}: give a positive number, such as Adam's 1e-8"
        )
    return optax.adam(settings.learning_rate, eps=settings.adam_epsilon)


def _num_features(settings: NoveltySettings, inputs: EstimatorInputs) -> int:
    if inputs.spec.is_indexed:
        return 0
    return inputs.features if settings.features is None else settings.features


def _network_input(settings: NoveltySettings, inputs: EstimatorInputs) -> InputSpec:
    """What networks read: random features, or the inputs themselves."""
    num_features = _num_features(settings, inputs)
    return InputSpec((num_features,)) if num_features else inputs.spec


def _normalised(settings: NoveltySettings, inputs: EstimatorInputs, novelty: Novelty) -> Novelty:
    """An estimator whose variances are in units of those of unseen inputs, and which reads features if it should."""
    probes = _probes(settings, inputs)
    if num_features := _num_features(settings, inputs):
        features = RandomFeatures(novelty, inputs.spec.size, num_features, settings.feature_length)
        novelty = Whitened(features, probes)
    return Normalised(
        novelty,
        probes,
        scale=settings.unseen_variance,
        power=settings.power,
        new_from=settings.saturation,
    )


def _probes(settings: NoveltySettings, inputs: EstimatorInputs) -> Callable[[Key], Shaped[Array, "P ..."]]:
    if inputs.probes is None:
        raise ValueError(
            f"novelty.kind {settings.kind} has no sample of inputs to start from here: take hash-set or hash-counts, "
            "without novelty.bins"
        )
    return inputs.probes
