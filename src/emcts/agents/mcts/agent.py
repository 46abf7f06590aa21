"""An agent as a composition: what it plans with, how it acts, what it learns from, and how often."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from emcts.agents.mcts.planners import ExplorationParams, Planner
from emcts.agents.mcts.targets import Reanalyse
from emcts.models.world_model import WorldModel
from emcts.training.data_parallel import SINGLE_DEVICE, DataParallel
from emcts.training.env_factory import EnvFactory
from emcts.training.evaluation import SolvedFraction
from emcts.training.replay import Priority, value_error
from emcts.types import Key


class NoveltyUpdate(enum.Enum):
    """When a state stops being new: once it was met, or once the network was trained on it."""

    ACTING = "acting"
    TRAINING = "training"


@dataclasses.dataclass(frozen=True)
class ExplorationSchedule:
    """Episodes that run side by side: the beta of each, and whether it explores."""

    betas: tuple[float, ...]
    exploring: tuple[bool, ...]

    def __post_init__(self) -> None:
        if not self.betas or len(self.betas) != len(self.exploring):
            raise ValueError(
                f"{len(self.betas)} betas for {len(self.exploring)} lanes: give one for each, and at least one lane"
            )

    @property
    def params(self) -> ExplorationParams:
        return ExplorationParams(jnp.array(self.betas, jnp.float32), jnp.array(self.exploring))

    def __len__(self) -> int:
        return len(self.betas)


@dataclasses.dataclass(frozen=True)
class LossWeights:
    """Of each head. `uncertainty_weight` T weights a state by `0.5 + sigmoid(-T * std)` of its value: 0 trusts all alike.

    `continuation` and `consistency` are of learned models: whether an episode goes on, and how far predicted states stray.
    """

    value: float = 1.0
    policy: float = 1.0
    exploration: float = 1.0
    ube: float = 1.0
    reward: float = 1.0
    continuation: float = 1.0
    consistency: float = 1.0
    uncertainty_weight: float = 0.0


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """The replay: how much it holds, and how it is sampled.

    `correction` is the exponent of the importance weights at the start and the end of training. A novelty estimator
    that learns from the replay is shown the last `fresh` moves with each batch: the new should not stay so for long.
    """

    capacity: int
    batch_size: int
    sequence: int = 1
    priority_exponent: float = 0.6
    correction: tuple[float, float] = (0.0, 0.0)
    priority: Priority = value_error
    fresh: int = 0

    def __post_init__(self) -> None:
        _check_at_least_1(self, "memory", "batch_size", "sequence")
        if self.capacity < self.batch_size:
            raise ValueError(
                f"replay of {self.capacity} steps holds less than one batch of {self.batch_size}: "
                "raise capacity or lower batch_size"
            )


@dataclasses.dataclass(frozen=True)
class Schedule:
    """An iteration is `moves` of all lanes, then `updates` of the networks; before `warm_up` steps, none.

    Targets come from the networks as they were at the last of every `target_every` iterations.
    """

    moves: int
    updates: int
    warm_up: int
    target_every: int = 1

    def __post_init__(self) -> None:
        _check_at_least_1(self, "schedule", "moves", "updates", "target_every")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Episodes without noise and without exploring. One that has not ended after `max_steps` is cut off."""

    planner: Planner
    episodes: int
    max_steps: int
    beta: float = 0.0
    solved: SolvedFraction | None = None  # None: the environment has no notion of it

    def __post_init__(self) -> None:
        _check_at_least_1(self, "evaluation", "episodes", "max_steps")


@dataclasses.dataclass(frozen=True)
class Agent:
    """Everything that the training loop needs to know."""

    env_factory: EnvFactory
    world_model: WorldModel
    make_networks: Callable[[Key], Any]
    acting: Planner
    lanes: ExplorationSchedule
    seen: NoveltyUpdate
    reanalyse: Reanalyse
    weights: LossWeights
    optimiser: optax.GradientTransformation
    memory: ReplayConfig
    schedule: Schedule
    evaluation: Evaluation
    data_parallel: DataParallel = SINGLE_DEVICE  # over devices

    def __post_init__(self) -> None:
        self.data_parallel.check(len(self.lanes), "the number of episodes side by side")
        self.data_parallel.check(self.memory.batch_size, "batch_size")
        needed = self.moves_ahead + 1
        if self.replay_rows < needed:
            raise ValueError(
                f"replay of {self.memory.capacity} steps holds {self.replay_rows} moves of {len(self.lanes)} "
                f"lanes, and a sample needs {needed}: raise capacity to {needed * len(self.lanes)} or more"
            )
        first_iteration = max(1, -(-self.schedule.warm_up // self.steps_per_iteration))
        if first_iteration * self.schedule.moves < needed:
            raise ValueError(
                f"with a warm_up of {self.schedule.warm_up} steps learning begins after "
                f"{first_iteration * self.schedule.moves} moves, and a sample needs {needed}: "
                f"raise warm_up to {needed * len(self.lanes)} or more"
            )

    @property
    def moves_ahead(self) -> int:
        """How many later moves a sample of the replay needs."""
        return self.memory.sequence - 1 + self.reanalyse.moves

    @property
    def steps_per_iteration(self) -> int:
        return self.schedule.moves * len(self.lanes)

    @property
    def replay_rows(self) -> int:
        return -(-self.memory.capacity // len(self.lanes))

    def world(self, drawn: PyTree) -> Any:
        return self.env_factory.world(drawn)


def _check_at_least_1(settings: Any, what: str, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < 1:
            raise ValueError(f"{what}.{name} is {getattr(settings, name)}: give at least 1")
