"""The settings of Bootstrapped DQN, and the learner that they make for any task."""

import dataclasses
from typing import Generic

import optax
from jaxtyping import PyTree

from emcts.agents.bdqn.learner import Bdqn
from emcts.agents.bdqn.networks import BootstrappedEnsemble
from emcts.agents.settings import EnvT, EvaluationSettings, OptimiserSettings
from emcts.agents.task import Task
from emcts.models.encoders import Spec
from emcts.training.learner import UpdateSchedule


@dataclasses.dataclass(frozen=True)
class EnsembleSettings:
    """The members of the ensemble, and how they differ."""

    size: int = 10
    """number of members"""
    hidden: tuple[int, ...] = (50, 50)
    """units of each hidden layer"""
    prior_scale: float = 5.0
    """weight of the random prior of a member in its values"""
    mask_probability: float = 1.0
    """probability with which a member learns from a step"""
    noise_scale: float = 0.0
    """standard deviation of the noise on the rewards that a member learns from"""


@dataclasses.dataclass(frozen=True)
class UniformReplaySettings:
    """The replay, sampled uniformly."""

    capacity: int = 10_000
    """number of steps in the replay of a seed"""
    batch_size: int = 1280
    """number of steps in the batch of an update"""


@dataclasses.dataclass(frozen=True)
class BdqnScheduleSettings:
    """When the agent acts and learns."""

    rollout_length: int = 1
    """number of steps before each update"""
    warmup_steps: int = 128
    """number of steps before the first update"""
    target_period: int = 4
    """number of updates after which the networks are copied to the target networks"""


@dataclasses.dataclass(frozen=True)
class BdqnSettings(Generic[EnvT]):
    """bsuite's defaults, but for the two that the paper changed: an ensemble of 10 and batches of 1280."""

    steps: int
    """environment steps of each seed: training ends with the first iteration that reaches them, and is evaluated"""
    env: EnvT
    discount: float = 0.99
    """discount of rewards per step"""
    return_range: float | None = 1.0
    """unit of values, and so of priors; left out, the range of the returns that were seen"""
    normalise_observations: bool = False
    """whether networks read numbers in units of the mean and the standard deviation that were observed"""
    ensemble: EnsembleSettings = EnsembleSettings()
    replay: UniformReplaySettings = UniformReplaySettings()
    optimiser: OptimiserSettings = dataclasses.field(default_factory=OptimiserSettings)
    schedule: BdqnScheduleSettings = BdqnScheduleSettings()
    evaluation: EvaluationSettings = dataclasses.field(default_factory=lambda: EvaluationSettings(every=1000))


def compose(task: Task, settings: BdqnSettings[PyTree]) -> Bdqn:
    """Makes the agent, for any task."""
    if task.encoder is not None:
        raise ValueError(
            "bdqn has networks of its own kind, and takes no encoder: take another agent, or none"
        )
    schedule = settings.schedule
    return Bdqn(
        env_factory=task.env_factory,
        ensemble=BootstrappedEnsemble(**dataclasses.asdict(settings.ensemble)),
        discount=settings.discount,
        optimiser=optax.adam(settings.optimiser.learning_rate),
        replay_capacity=settings.replay.capacity,
        batch_size=settings.replay.batch_size,
        schedule=UpdateSchedule(schedule.rollout_length, 1, schedule.warmup_steps, schedule.target_period),
        evaluation=task.evaluation(settings.evaluation),
        fixed_range=settings.return_range,
        normalised=_normalised(task) if settings.normalise_observations else None,
    )


def _normalised(task: Task) -> Spec | None:
    """What is normalised: the observation, unless that is one of so many names."""
    return task.observation_spec if getattr(task.env, "num_observations", None) is None else None
