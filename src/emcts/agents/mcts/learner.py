"""The learner of an agent that plans: acts by searches, and learns from them."""

import dataclasses
from collections.abc import Callable

import jax
from jaxtyping import Array, Float, PyTree, Shaped

from emcts.agents.mcts.acting import act
from emcts.agents.mcts.agent import Agent
from emcts.agents.mcts.evaluation import evaluate, policy, search, simulator_rates, uncertainty_maps
from emcts.agents.mcts.losses import LossStats
from emcts.agents.mcts.planners import SearchOutput
from emcts.agents.mcts.state import TrainState, init
from emcts.agents.mcts.update import learn, refresh_target
from emcts.training.data_parallel import DataParallel
from emcts.training.evaluation import EvaluationResult
from emcts.training.learner import Maps, Policy, RolloutStats, SimulatorRates
from emcts.training.log import states_visited
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class MctsLearner(Agent):
    """An agent with the methods of a `Learner`."""

    @property
    def simulator_rates(self) -> SimulatorRates:
        return simulator_rates(self)

    @property
    def maps(self) -> Callable[[TrainState], Maps] | None:
        return uncertainty_maps(self)

    def init(self, key: Key, env_params: PyTree) -> TrainState:
        return init(self, key, env_params)

    def on_devices(self, data_parallel: DataParallel) -> "MctsLearner":
        return dataclasses.replace(self, data_parallel=data_parallel)

    def sharded_axes(self, state: TrainState) -> TrainState:
        """Shards the parallel episodes: their current states, and their transitions in the replay."""

        def axis(path: jax.tree_util.KeyPath, _: PyTree) -> int:
            names = [getattr(part, "name", "") for part in path[:2]]
            if names[0] == "episodes":
                return 0
            return 1 if names in (["replay", "transitions"], ["replay", "priorities"]) else -1

        return jax.tree.map_with_path(axis, state)

    def act(self, state: TrainState) -> tuple[TrainState, RolloutStats]:
        return act(self, state)

    def learn(self, state: TrainState, progress: Float[Array, ""]) -> tuple[TrainState, LossStats]:
        return learn(self, state, progress)

    def refresh_target(self, state: TrainState) -> TrainState:
        return refresh_target(self, state)

    def policy(self, state: TrainState, *, beta: float) -> Policy:
        return policy(self, state, beta=beta)

    def search(
        self,
        state: TrainState,
        key: Key,
        states: PyTree,
        *,
        beta: float = 0.0,
        num_simulations: int | None = None,
    ) -> SearchOutput:
        """Searches a batch of states as evaluation does, and returns the trees too."""
        return search(self, state, key, states, beta=beta, num_simulations=num_simulations)

    def evaluate(self, state: TrainState, key: Key, *, episodes: int, beta: float) -> EvaluationResult:
        return evaluate(self, state, key, episodes=episodes, beta=beta)

    def states_discovered(self, state: TrainState) -> Shaped[Array, ""] | None:
        """Returns the visited states of a finite environment; of any other, the number in the hash table."""
        visited = states_visited(state.log)
        num_seen = getattr(self.world_model.novelty, "num_seen", None)
        return visited if visited is not None or num_seen is None else num_seen(state.novelty)

    def table_occupancy(self, state: TrainState) -> Float[Array, ""] | None:
        occupancy = getattr(self.world_model.novelty, "occupancy", None)
        return None if occupancy is None else occupancy(state.novelty)
