"""Learning from a dataset without acting: the replay is filled before the first update, and never grows."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.mcts.agent import NoveltyUpdate
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.state import TrainState
from emcts.agents.mcts.update import with_final_states
from emcts.envs.base import FiniteEnvironment, artifact_of, unpack_state
from emcts.models.evaluators import Transition
from emcts.training.dataset import Dataset
from emcts.training.learner import RolloutStats, SimulatorRates
from emcts.training.log import TrainingLog, count_visits
from emcts.training.replay import StoredTransition
from emcts.types import Key, Replaceable, record


@record
class Observed(Replaceable):
    """What is updated with each step of the dataset, and the discounted return of each episode so far."""

    networks: PyTree
    novelty: PyTree
    log: TrainingLog
    discounted: Float[Array, "E"]


@dataclasses.dataclass(frozen=True)
class OfflineLearner(MctsLearner):
    """An agent whose transitions are those of a dataset.

    Behind them its replay has `lookahead` rows that are never sampled, so that the last transitions of the dataset are.
    """

    def _check_warmup(self, needed: int) -> None:
        """Does nothing: updates begin with a full replay."""

    @property
    def replay_rows(self) -> int:
        return super().replay_rows + self.lookahead

    @property
    def simulator_rates(self) -> SimulatorRates:
        return dataclasses.replace(super().simulator_rates, acting=0)

    def act(self, state: TrainState) -> tuple[TrainState, RolloutStats]:
        """Returns the state as it is: nothing was played."""
        num_envs = state.episodes.episode_return.shape[0]
        shape = (self.schedule.rollout_length, num_envs)
        env = self.env(state.env_params)
        example = jax.eval_shape(jax.vmap(lambda one: artifact_of(env, one)), state.episodes.state)
        artifact = jax.tree.map(lambda leaf: jnp.zeros((*shape[:1], *leaf.shape), leaf.dtype), example)
        nothing = jnp.zeros(shape, bool)
        return state, RolloutStats(nothing, jnp.zeros(shape), nothing, jnp.full(shape, jnp.nan), artifact)

    def dataset_steps(self, state: TrainState) -> Int[Array, ""]:
        """Returns the number of transitions that can be sampled, on all devices."""
        priorities: Float[Array, "T E"] = self.data_parallel.gather(state.replay.priorities, axis=1)
        return (priorities > 0).sum()

    def fill(self, state: TrainState, dataset: Dataset) -> TrainState:
        """Stores the dataset, and updates statistics, novelty and visits once with each of its transitions."""
        rows, capacity = dataset.valid.shape[0], self.replay_rows - self.lookahead
        if rows > capacity:
            raise ValueError(
                f"the dataset has {rows * self.num_envs:,} transitions, and replay.capacity is "
                f"{self.replay.capacity:,}: raise it, or lower offline_steps"
            )
        key, steps_key = jax.random.split(state.key)
        replay, last = state.replay, rows + self.lookahead
        padded = jax.tree.map(lambda leaf: leaf[jnp.minimum(jnp.arange(last), rows - 1)], dataset.transitions)
        replay = replay.replace(
            transitions=jax.tree.map(lambda ring, new: ring.at[:last].set(new), replay.transitions, padded),
            priorities=replay.priorities.at[:rows].set(dataset.valid.astype(jnp.float32)),
            cursor=jnp.int32(last % self.replay_rows),
            filled=jnp.int32(last),
        )
        return self._observe(state.replace(key=key, replay=replay), dataset, steps_key)

    def _observe(self, state: TrainState, dataset: Dataset, key: Key) -> TrainState:
        """Updates everything that acting updates with each step, in the order of time."""
        env, stored, world_model = self.env(state.env_params), dataset.transitions, self.world_model
        states = jax.vmap(jax.vmap(functools.partial(unpack_state, env)))(stored.state)
        rows = jnp.arange(dataset.valid.shape[0])

        def step(
            before_step: Observed, inputs: tuple[Int[Array, ""], StoredTransition, Bool[Array, "E"], Key]
        ) -> tuple[Observed, None]:
            row, now, valid, key = inputs
            before, after = (
                jax.tree.map(lambda leaf, at=at: leaf[at], states)
                for at in (row, jnp.minimum(row + 1, rows[-1]))
            )
            transitions = Transition(
                before, now.action, now.reward, after, now.terminated, now.truncated, valid
            )
            final = with_final_states(self, env, transitions, jax.random.split(key, valid.shape[0]))
            networks, log = before_step.networks, before_step.log
            discounted = world_model.discount * before_step.discounted + now.reward
            novelty = world_model.record_rewards(env, before_step.novelty, transitions)
            if self.novelty_update is NoveltyUpdate.ACTING:
                novelty = world_model.update_novelty(env, networks, novelty, final)
            if isinstance(env, FiniteEnvironment):
                index = jnp.where(valid, jax.vmap(env.index)(before), env.num_states)
                log = log.replace(visits=count_visits(log.visits, index))
            networks = world_model.update_statistics(env, networks, final, discounted)
            return Observed(networks, novelty, log, jnp.where(transitions.over, 0.0, discounted)), None

        nothing = jnp.zeros(dataset.valid.shape[1])
        start = Observed(state.networks, state.novelty, state.log, nothing)
        keys = jax.random.split(key, rows.shape[0])
        end, _ = jax.lax.scan(step, start, (rows, stored, jnp.asarray(dataset.valid), keys))
        return state.replace(networks=end.networks, target=end.networks, novelty=end.novelty, log=end.log)
