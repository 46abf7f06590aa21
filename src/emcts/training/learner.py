"""The protocol that training asks of an agent, whatever its algorithm."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from emcts.training.data_parallel import DataParallel
from emcts.training.dataset import Dataset
from emcts.training.env_factory import EnvFactory
from emcts.training.evaluation import POSITIVE_REWARD, EvaluationResult, Policy, SolvedFraction, Success
from emcts.training.log import TrainingLog
from emcts.types import Key, Replaceable, record

SelfT = TypeVar("SelfT")
Maps = Mapping[str, Float[Array, "N N"]]


@runtime_checkable
class TrainingState(Protocol):
    """A seed in the middle of training: a record of arrays, with these fields and those of the agent."""

    @property
    def key(self) -> Key: ...

    @property
    def evaluation_key(self) -> Key: ...

    @property
    def env_params(self) -> PyTree: ...

    @property
    def log(self) -> TrainingLog: ...

    def replace(self: SelfT, **changes: PyTree) -> SelfT: ...


StateT = TypeVar("StateT", bound=TrainingState)


@record
class RolloutStats(Replaceable):
    """What happened in each step of each parallel episode. `episode_return` counts where an episode ended."""

    ended: Bool[Array, "... E"]
    episode_return: Float[Array, "... E"]
    success: Bool[Array, "... E"]
    value_std: Float[Array, "... E"]  # at the root of the search
    artifact: PyTree


@runtime_checkable
class UpdateStats(Protocol):
    """The losses of an update: their weighted total, and a record of its parts.

    `clipped_targets` is the fraction of targets that the networks cannot represent, None if they can represent any.
    """

    @property
    def total(self) -> Float[Array, "..."]: ...

    @property
    def losses(self) -> PyTree: ...

    @property
    def clipped_targets(self) -> Float[Array, "..."] | None: ...


@dataclasses.dataclass(frozen=True)
class ExplorationSchedule:
    """Parallel episodes: the beta of each, and whether it explores."""

    betas: tuple[float, ...]
    exploring: tuple[bool, ...]

    def __post_init__(self) -> None:
        if not self.betas or len(self.betas) != len(self.exploring):
            raise ValueError(
                f"{len(self.betas)} betas for {len(self.exploring)} episodes: give one for each, and at least one"
            )

    @property
    def num_envs(self) -> int:
        return len(self.betas)


@dataclasses.dataclass(frozen=True)
class UpdateSchedule:
    """An iteration is `rollout_length` steps of all parallel episodes, then `updates` of the networks.

    There are no updates before `warmup_steps`. Target networks are copied every `target_period` iterations.
    """

    rollout_length: int
    updates: int
    warmup_steps: int
    target_period: int = 1

    def __post_init__(self) -> None:
        check_positive(self, "schedule", "rollout_length", "updates", "target_period")


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
    """Evaluation after each chunk: greedy episodes without exploration. One that lasts `max_steps` is cut off."""

    episodes: int
    max_steps: int
    beta: float = 0.0
    solved: SolvedFraction | None = None  # None: the task cannot be solved, only played better
    success: Success = POSITIVE_REWARD  # of training episodes too

    def __post_init__(self) -> None:
        check_positive(self, "evaluation", "episodes", "max_steps")


@dataclasses.dataclass(frozen=True)
class SimulatorRates:
    """Calls of the environment's `step` by planning, beside the steps of the agent: for one seed."""

    acting: int = 0  # for each environment step
    reanalyse: int = 0  # for each iteration with updates
    evaluation: int = 0  # for each step of an evaluation episode


@runtime_checkable
class Learner(Protocol[StateT]):
    """An agent that learns, for one seed."""

    @property
    def env_factory(self) -> EnvFactory: ...

    @property
    def exploration(self) -> ExplorationSchedule: ...

    @property
    def schedule(self) -> UpdateSchedule: ...

    @property
    def evaluation(self) -> EvaluationConfig: ...

    @property
    def steps_per_iteration(self) -> int: ...

    @property
    def simulator_rates(self) -> SimulatorRates: ...

    @property
    def maps(self) -> Callable[[StateT], Maps] | None:
        """A function that estimates every cell of a grid, by name; None if the environment is no grid."""

    def init(self, key: Key, env_params: PyTree) -> StateT:
        """Returns the whole state, however many devices it is sharded over afterwards."""

    def on_devices(self, data_parallel: DataParallel) -> "Learner[StateT]":
        """Returns the same agent with its state sharded: all methods but `init` then run on all devices at once.

        Raises if the data cannot be sharded evenly.
        """

    def sharded_axes(self, state: StateT) -> PyTree:
        """Returns the axis along which each array of the state is sharded; -1 where each device has the whole."""

    def act(self, state: StateT) -> tuple[StateT, RolloutStats]:
        """Steps all parallel episodes `schedule.rollout_length` times."""

    def learn(self, state: StateT, progress: Float[Array, ""]) -> tuple[StateT, UpdateStats]:
        """Updates the networks. `progress` goes from 0 to 1 over the whole training."""

    def refresh_target(self, state: StateT) -> StateT:
        """Copies the networks to the target networks where that is due. Called after each iteration."""

    def policy(self, state: StateT, *, beta: float) -> Policy:
        """Returns how evaluation acts: above a beta of 0 it explores, below it is careful."""

    def evaluate(self, state: StateT, key: Key, *, episodes: int, beta: float) -> EvaluationResult: ...

    def states_discovered(self, state: StateT) -> Shaped[Array, ""] | None:
        """Returns how many states were seen; None if they are not counted."""

    def table_occupancy(self, state: StateT) -> Float[Array, ""] | None:
        """Returns the used fraction of the hash table; None if there is none."""


@runtime_checkable
class LearnsFromDataset(Learner[StateT], Protocol[StateT]):
    """An agent that does not act: it learns from the transitions of a dataset, and `act` changes nothing."""

    def fill(self, state: StateT, dataset: Dataset) -> StateT:
        """Returns a state that `init` made with the dataset in it, as if these steps had been taken."""

    def dataset_steps(self, state: StateT) -> Int[Array, ""]:
        """Returns the number of transitions that it learns from."""


def check_positive(config: object, what: str, *names: str) -> None:
    """Raises unless these fields of a configuration are at least 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{what}.{name} is {getattr(config, name)}: give at least 1")
