"""The configuration of an agent that plans: its model, how it acts, what it learns from, and when."""

import dataclasses
import enum
from collections.abc import Callable

import optax
from jaxtyping import PyTree

from emcts.agents.mcts.planners import Planner, SearchPlanner
from emcts.agents.mcts.targets import Reanalyse
from emcts.envs.base import AnyEnvironment
from emcts.models.world_model import WorldModel
from emcts.training.data_parallel import SINGLE_DEVICE, DataParallel
from emcts.training.env_factory import EnvFactory
from emcts.training.learner import EvaluationConfig, ExplorationSchedule, UpdateSchedule, check_positive
from emcts.training.replay import Priority, value_error
from emcts.types import Key


class NoveltyUpdate(enum.Enum):
    """When the novelty estimator is updated: with each step of acting, or with each batch of training."""

    ACTING = "acting"
    TRAINING = "training"


@dataclasses.dataclass(frozen=True)
class LossWeights:
    """The weight of each loss."""

    value: float = 1.0
    """weight of the value loss"""
    policy: float = 1.0
    """weight of the policy loss"""
    exploration: float = 1.0
    """weight of the loss of the exploration policy"""
    ube: float = 1.0
    """weight of the loss of the UBE head"""
    reward: float = 1.0
    """weight of the reward loss of a learned model"""
    continuation: float = 1.0
    """weight of the loss of a learned model's continuation head"""
    consistency: float = 1.0
    """weight of the distance of a learned model's predicted latent states from encoded ones"""
    uncertainty_weight: float = 0.0
    """T: losses of a state are weighted by 0.5 + sigmoid(-T * std) of its value, in units of the return range; above 0
    uncertain states count less"""


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """The size of the replay, and how it is sampled.

    A sample has `sequence` consecutive states. `importance` is the exponent of the importance weights at the start and
    at the end of training. A novelty estimator that is updated in training gets the `recent` last transitions with each
    batch: they should not stay novel for long.
    """

    capacity: int
    batch_size: int
    sequence: int = 1
    priority_exponent: float = 0.6
    importance: tuple[float, float] = (0.0, 0.0)
    priority: Priority = value_error
    recent: int = 0

    def __post_init__(self) -> None:
        check_positive(self, "replay", "batch_size", "sequence")
        if self.capacity < self.batch_size:
            raise ValueError(
                f"replay of {self.capacity} steps holds less than one batch of {self.batch_size}: "
                "raise capacity or lower batch_size"
            )


@dataclasses.dataclass(frozen=True)
class Agent:
    """Everything that acting, targets, updates and evaluation need to know."""

    env_factory: EnvFactory
    world_model: WorldModel[PyTree]
    make_networks: Callable[[Key], PyTree]
    planner: Planner
    exploration: ExplorationSchedule
    novelty_update: NoveltyUpdate
    reanalyse: Reanalyse
    loss_weights: LossWeights
    optimiser: optax.GradientTransformation
    replay: ReplayConfig
    schedule: UpdateSchedule
    evaluation: EvaluationConfig
    evaluation_planner: SearchPlanner
    reuse_tree: bool = False
    data_parallel: DataParallel = SINGLE_DEVICE

    def __post_init__(self) -> None:
        self.data_parallel.check_divisible(self.num_envs, "the number of parallel episodes")
        self.data_parallel.check_divisible(self.replay.batch_size, "batch_size")
        needed = self.lookahead + 1
        if self.replay_rows < needed:
            raise ValueError(
                f"replay of {self.replay.capacity} steps holds {self.replay_rows} steps of {self.num_envs} "
                f"parallel episodes, and a sample needs {needed}: raise capacity to {needed * self.num_envs} or more"
            )
        self._check_warmup(needed)

    def _check_warmup(self, needed: int) -> None:
        """Raises unless the replay holds a sample when updates begin."""
        first_iteration = max(1, -(-self.schedule.warmup_steps // self.steps_per_iteration))
        if first_iteration * self.schedule.rollout_length < needed:
            raise ValueError(
                f"with warmup_steps of {self.schedule.warmup_steps} updates begin after "
                f"{first_iteration * self.schedule.rollout_length} steps of each episode, and a sample needs {needed}: "
                f"raise warmup_steps to {needed * self.num_envs} or more"
            )

    @property
    def num_envs(self) -> int:
        return self.exploration.num_envs

    @property
    def lookahead(self) -> int:
        """The number of later steps that a sample of the replay needs."""
        return self.replay.sequence - 1 + self.reanalyse.num_steps

    @property
    def steps_per_iteration(self) -> int:
        return self.schedule.rollout_length * self.num_envs

    @property
    def replay_rows(self) -> int:
        return -(-self.replay.capacity // self.num_envs)

    def env(self, params: PyTree) -> AnyEnvironment:
        return self.env_factory.make(params)
