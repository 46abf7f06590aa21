"""Learning by planning: an agent that acts by searches, and learns from them."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Float, PyTree, Shaped

from emcts.agents.mcts.acting import RolloutStats, act
from emcts.agents.mcts.agent import Agent, Evaluation, ExplorationSchedule, Schedule
from emcts.agents.mcts.evaluation import evaluate
from emcts.agents.mcts.losses import UpdateStats
from emcts.agents.mcts.maps import uncertainty_maps
from emcts.agents.mcts.simulator_steps import SimulatorRates, simulator_rates
from emcts.agents.mcts.state import TrainState, init
from emcts.agents.mcts.update import learn, refresh_target
from emcts.training.data_parallel import DataParallel
from emcts.training.env_factory import EnvFactory
from emcts.training.evaluation import EvaluationResult
from emcts.training.learner import Maps, states_visited
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class MctsLearner:
    """The `Learner` of an `Agent`."""

    agent: Agent

    @property
    def env_factory(self) -> EnvFactory:
        return self.agent.env_factory

    @property
    def lanes(self) -> ExplorationSchedule:
        return self.agent.lanes

    @property
    def schedule(self) -> Schedule:
        return self.agent.schedule

    @property
    def evaluation(self) -> Evaluation:
        return self.agent.evaluation

    @property
    def steps_per_iteration(self) -> int:
        return self.agent.steps_per_iteration

    @property
    def simulator_rates(self) -> SimulatorRates:
        return simulator_rates(self.agent)

    @property
    def maps(self) -> Maps | None:
        return uncertainty_maps(self.agent)

    def init(self, key: Key, world: PyTree) -> TrainState:
        return init(self.agent, key, world)

    def over(self, data_parallel: DataParallel) -> "Searching":
        return MctsLearner(dataclasses.replace(self.agent, data_parallel=data_parallel))

    def sharded_axes(self, state: TrainState) -> TrainState:
        """Lanes: where they are, and what they lived through."""

        def axis(path: tuple[Any, ...], _: Any) -> int:
            names = [getattr(part, "name", "") for part in path[:2]]
            if names[0] == "episodes":
                return 0
            return 1 if names in (["replay", "steps"], ["replay", "priorities"]) else -1

        return jax.tree.map_with_path(axis, state)

    def act(self, state: TrainState) -> tuple[TrainState, RolloutStats]:
        return act(self.agent, state)

    def learn(self, state: TrainState, progress: Float[Array, ""]) -> tuple[TrainState, UpdateStats]:
        return learn(self.agent, state, progress)

    def refresh_target(self, state: TrainState) -> TrainState:
        return refresh_target(self.agent, state)

    def evaluate(self, state: TrainState, key: Key, *, episodes: int, beta: float) -> EvaluationResult:
        return evaluate(self.agent, state, key, episodes=episodes, beta=beta)

    def discovered(self, state: TrainState) -> Shaped[Array, ""] | None:
        """States of a world of few; of any other, what the novelty estimator has seen, if it counts."""
        visited = states_visited(state.log)
        known: Any = getattr(self.agent.world_model.novelty, "known", None)
        return visited if visited is not None or known is None else known(state.novelty)

    def table_occupancy(self, state: TrainState) -> Float[Array, ""] | None:
        occupancy: Any = getattr(self.agent.world_model.novelty, "occupancy", None)
        return None if occupancy is None else occupancy(state.novelty)
