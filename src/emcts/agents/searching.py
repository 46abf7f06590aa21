"""Learning by planning: an agent that acts by searches, and learns from them."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Float, PyTree, Shaped

from emcts.agents.acting import Played, act
from emcts.agents.agent import Agent, Evaluation, Lanes, Schedule
from emcts.agents.evaluating import evaluate
from emcts.agents.judging import Evaluated
from emcts.agents.learner import Maps, states_visited
from emcts.agents.learning import learn, refresh_target
from emcts.agents.losses import Learned
from emcts.agents.maps import uncertainty_maps
from emcts.agents.simulator_steps import SimulatorRates, simulator_rates
from emcts.agents.spread import Spread
from emcts.agents.state import TrainState, init
from emcts.agents.worlds import Worlds
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class Searching:
    """The `Learner` of an `Agent`."""

    agent: Agent

    @property
    def worlds(self) -> Worlds:
        return self.agent.worlds

    @property
    def lanes(self) -> Lanes:
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

    def over(self, spread: Spread) -> "Searching":
        return Searching(dataclasses.replace(self.agent, spread=spread))

    def dealt(self, state: TrainState) -> TrainState:
        """Lanes: where they are, and what they lived through."""

        def axis(path: tuple[Any, ...], _: Any) -> int:
            names = [getattr(part, "name", "") for part in path[:2]]
            if names[0] == "episodes":
                return 0
            return 1 if names in (["replay", "steps"], ["replay", "priorities"]) else -1

        return jax.tree.map_with_path(axis, state)

    def act(self, state: TrainState) -> tuple[TrainState, Played]:
        return act(self.agent, state)

    def learn(self, state: TrainState, progress: Float[Array, ""]) -> tuple[TrainState, Learned]:
        return learn(self.agent, state, progress)

    def refresh_target(self, state: TrainState) -> TrainState:
        return refresh_target(self.agent, state)

    def evaluate(self, state: TrainState, key: Key, *, episodes: int, beta: float) -> Evaluated:
        return evaluate(self.agent, state, key, episodes=episodes, beta=beta)

    def discovered(self, state: TrainState) -> Shaped[Array, ""] | None:
        """States of a world of few; of any other, what the novelty estimator has seen, if it counts."""
        visited = states_visited(state.log)
        known: Any = getattr(self.agent.mind.novelty, "num_seen", None)
        return visited if visited is not None or known is None else known(state.novelty)

    def table_occupancy(self, state: TrainState) -> Float[Array, ""] | None:
        occupancy: Any = getattr(self.agent.mind.novelty, "occupancy", None)
        return None if occupancy is None else occupancy(state.novelty)
