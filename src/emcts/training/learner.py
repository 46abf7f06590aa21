"""What training asks of an agent, be it one that plans or one that does not."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, PyTree, Shaped

from emcts.agents.mcts.acting import RolloutStats
from emcts.agents.mcts.agent import ExplorationSchedule, Schedule
from emcts.agents.mcts.simulator_steps import SimulatorRates
from emcts.agents.mcts.state import TrainingLog
from emcts.training.data_parallel import DataParallel
from emcts.training.env_factory import EnvFactory
from emcts.training.evaluation import EvaluationResult, SolvedFraction
from emcts.types import Key

Maps = Callable[[Any], Mapping[str, Float[Array, "N N"]]]


@runtime_checkable
class EvaluationPlan(Protocol):
    """How an agent is evaluated after each chunk, and what counts as solved; None if nothing does."""

    @property
    def episodes(self) -> int: ...

    @property
    def beta(self) -> float: ...

    @property
    def solved(self) -> SolvedFraction | None: ...


@runtime_checkable
class Learner(Protocol):
    """An agent, for one seed. Its state is a record that has a `key`, an `evaluation_key`, its `world` and a `log`."""

    @property
    def env_factory(self) -> EnvFactory: ...

    @property
    def lanes(self) -> ExplorationSchedule: ...

    @property
    def schedule(self) -> Schedule: ...

    @property
    def evaluation(self) -> EvaluationPlan: ...

    @property
    def steps_per_iteration(self) -> int: ...

    @property
    def simulator_rates(self) -> SimulatorRates:
        """How many steps of the environment planning takes, beside those that act."""

    @property
    def maps(self) -> Maps | None:
        """What it thinks of every cell of a grid, by name; None if the world is no grid."""

    def init(self, key: Key, world: PyTree) -> Any:
        """The whole of it, however many devices it is spread over afterwards."""

    def over(self, data_parallel: DataParallel) -> "Learner":
        """The same, where each device has a part of the state and all but `init` run on all devices at once.

        Refuses what cannot be shared evenly.
        """

    def sharded_axes(self, state: Any) -> Any:
        """The axis of each array of the state that devices have parts of; -1 where each has the whole."""

    def act(self, state: Any) -> tuple[Any, RolloutStats]:
        """Plays `schedule.moves` moves of all lanes."""

    def learn(self, state: Any, progress: Float[Array, ""]) -> tuple[Any, Any]:
        """Updates what it has learned, and tells a record with the `total` loss and its parts, `losses`.

        `progress` goes from 0 to 1 over the whole training.
        """

    def refresh_target(self, state: Any) -> Any:
        """Is called after each iteration."""

    def evaluate(self, state: Any, key: Key, *, episodes: int, beta: float) -> EvaluationResult: ...

    def discovered(self, state: Any) -> Shaped[Array, ""] | None:
        """How many states it knows; None if it does not count them."""

    def table_occupancy(self, state: Any) -> Float[Array, ""] | None:
        """The share of its hash table in use; None if it has none."""


def states_visited(log: TrainingLog) -> Shaped[Array, ""] | None:
    """Of a world of few states; None of any other."""
    return (log.visits > 0).sum() if log.visits.shape[0] else None
