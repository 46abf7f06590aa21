"""Bootstrapped DQN with randomised priors: explores by the value function of one member for a whole episode.

Osband et al. 2016 and 2018, as bsuite's baseline in JAX has it. Priors differ, so members differ without data; each
bootstraps from its own target, so that their difference propagates to where it changes actions.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from emcts.agents.bdqn.networks import BootstrappedEnsemble, Layers
from emcts.agents.bdqn.state import BdqnEpisode, BdqnLosses, BdqnState, BdqnStats, BootstrapTransition
from emcts.envs.base import (
    AnyEnvironment,
    GridEnvironment,
    Outcome,
    advance,
    artifact_of,
    pack_state,
    tree_where,
    unpack_state,
)
from emcts.envs.rollout import random_legal_action
from emcts.models.encoders import Spec, flat_floats
from emcts.models.evaluators import all_states
from emcts.models.statistics import Statistics, new_statistics, normalise, return_range
from emcts.training import replay as replays
from emcts.training.data_parallel import DataParallel
from emcts.training.env_factory import EnvFactory
from emcts.training.evaluation import EvaluationResult, play_episodes
from emcts.training.learner import (
    EvaluationConfig,
    ExplorationSchedule,
    Maps,
    Policy,
    RolloutStats,
    SimulatorRates,
    UpdateSchedule,
    check_positive,
)
from emcts.training.log import StepEvents, log_step, log_updates, new_log, states_visited, zero_regret
from emcts.types import Key

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Bdqn:
    """The learner. It plays one episode at a time, and updates all members once after `schedule.rollout_length` steps.

    `schedule.target_period` counts updates. A terminated step has no bootstrap, a truncated one that of the state which
    it led to. Illegal actions are neither taken nor bootstrapped from. Evaluation takes the action with the highest
    mean over members plus `beta` standard deviations: bsuite scores training, and evaluates nothing besides.

    Values, and with them priors, noise and errors, are in units of the `fixed_range` of returns; None is the range
    that was seen. `normalised` describes observations that are normalised; None leaves them as they are.
    """

    env_factory: EnvFactory
    ensemble: BootstrappedEnsemble
    discount: float
    optimiser: optax.GradientTransformation
    replay_capacity: int
    batch_size: int
    schedule: UpdateSchedule
    evaluation: EvaluationConfig
    fixed_range: float | None = 1.0
    normalised: Spec | None = None

    def __post_init__(self) -> None:
        check_positive(self, "bdqn", "batch_size")
        if self.replay_capacity < max(2, self.schedule.warmup_steps):
            raise ValueError(
                f"replay of {self.replay_capacity} steps does not hold warmup_steps of {self.schedule.warmup_steps}: "
                "raise the capacity, to 2 or more, or lower warmup_steps"
            )
        if self.schedule.updates != 1:
            raise ValueError(
                f"schedule.updates is {self.schedule.updates}: give 1, and change rollout_length instead"
            )

    @property
    def exploration(self) -> ExplorationSchedule:
        return ExplorationSchedule((0.0,), (True,))

    @property
    def steps_per_iteration(self) -> int:
        return self.schedule.rollout_length

    @property
    def simulator_rates(self) -> SimulatorRates:
        return SimulatorRates()

    @property
    def maps(self) -> Callable[[BdqnState], Maps] | None:
        return self._maps if isinstance(self.env_factory.example, GridEnvironment) else None

    def init(self, key: Key, env_params: PyTree) -> BdqnState:
        keys = jax.random.split(key, 7)
        network_key, prior_key, state_key, head_key, example_key, loop_key, evaluation_key = keys
        env = self.env_factory.make(env_params)
        state = env.init(state_key)
        num_inputs = _inputs(env, state, None).size
        networks = self.ensemble.make(num_inputs, env.num_actions, network_key)
        head = self._draw_head(head_key)
        nothing = Outcome(jnp.float32(0), jnp.bool_(False), jnp.bool_(False))
        example = self._transition(env, state, jnp.int32(0), state, nothing, example_key)
        return BdqnState(
            key=loop_key,
            evaluation_key=evaluation_key,
            env_params=env_params,
            networks=networks,
            priors=self.ensemble.make(num_inputs, env.num_actions, prior_key),
            target=networks,
            optimiser=self.optimiser.init(networks),
            episode=BdqnEpisode(state, jnp.float32(0), jnp.float32(0), head, _member(networks, head)),
            replay=replays.init(example, self.replay_capacity),
            log=new_log(env),
            statistics=new_statistics(follow_returns=self.fixed_range is None, observed=self.normalised),
        )

    def on_devices(self, data_parallel: DataParallel) -> "Bdqn":
        data_parallel.check_divisible(1, "the number of parallel episodes of bdqn")
        return self

    def sharded_axes(self, state: BdqnState) -> BdqnState:
        return jax.tree.map(lambda _: -1, state)

    def act(self, state: BdqnState) -> tuple[BdqnState, RolloutStats]:
        """Plays on; the member that plays an episode is drawn at its start."""
        env = self.env_factory.make(state.env_params)

        def step(carry: BdqnState, inputs: tuple[Key, Int[Array, ""]]) -> tuple[BdqnState, RolloutStats]:
            tie_key, step_key, keep_key, reset_key, head_key = jax.random.split(inputs[0], 5)
            episode = carry.episode
            before, x = episode.state, _inputs(env, episode.state, carry.statistics)
            values = self.ensemble.values(episode.held, _member(carry.priors, episode.head), x)
            action = _best(values, env.legal(before), tie_key)
            after, outcome, next_state = advance(env, before, action, step_key, reset_key)
            episode_return = episode.episode_return + outcome.reward
            discounted = self.discount * episode.discounted + outcome.reward
            success = self.evaluation.success(env, after, outcome, episode_return, outcome.over)
            events = StepEvents(*_one_env((before, success, outcome.over, zero_regret(env, after))))
            std = self._values(carry, carry.networks, x)[:, action].std()
            head = self._draw_head(head_key)
            begun = BdqnEpisode(
                next_state, jnp.float32(0), jnp.float32(0), head, _member(carry.networks, head)
            )
            current = episode.replace(state=next_state, episode_return=episode_return, discounted=discounted)
            stored = self._transition(env, before, action, after, outcome, keep_key)
            carry = carry.replace(
                episode=tree_where(outcome.over, begun, current),
                replay=replays.add(carry.replay, stored),
                statistics=self._observed(env, carry, before, discounted),
                log=log_step(carry.log, env, events, inputs[1]),
            )
            stats = (outcome.over, episode_return, success, std, artifact_of(env, after))
            return carry, RolloutStats(*_one_env(stats))

        key, steps_key = jax.random.split(state.key)
        length = self.schedule.rollout_length
        inputs = (jax.random.split(steps_key, length), jnp.arange(length, dtype=jnp.int32))
        return jax.lax.scan(step, state.replace(key=key), inputs)

    def learn(self, state: BdqnState, progress: Float[Array, ""]) -> tuple[BdqnState, BdqnStats]:
        """Updates all members with one batch, drawn from the replay uniformly and with replacement."""
        key, batch_key = jax.random.split(state.key)
        env = self.env_factory.make(state.env_params)
        rows = jax.random.randint(batch_key, (self.batch_size,), 0, state.replay.filled)
        batch: PyTree = jax.tree.map(lambda ring: ring[rows, 0], state.replay.transitions)

        def loss(networks: Layers) -> Float[Array, ""]:
            # The sum over members: each gets the gradient that it would get alone.
            return self.member_losses(env, networks, state, batch).sum()

        total, gradient = jax.value_and_grad(loss)(state.networks)
        changes, optimiser = self.optimiser.update(gradient, state.optimiser, state.networks)
        mean = total / self.ensemble.size
        log = log_updates(state.log, mean, 1, self.schedule.rollout_length)
        state = state.replace(
            key=key,
            networks=optax.apply_updates(state.networks, changes),
            optimiser=optimiser,
            log=log.replace(target_age=log.target_age + 1),
        )
        return state, BdqnStats(mean, BdqnLosses(mean))

    def member_losses(
        self, env: AnyEnvironment, networks: Layers, state: BdqnState, batch: BootstrapTransition
    ) -> Float[Array, "K"]:
        """Returns the mean squared error of one-step Q-learning; transitions that a member skips have error 0."""
        unit = return_range(state, self.fixed_range)

        def errors(one: BootstrapTransition) -> Float[Array, "K"]:
            before, after = (unpack_state(env, packed) for packed in (one.state, one.after))
            target_values = self._values(state, state.target, _inputs(env, after, state.statistics))
            best = jnp.where(env.legal(after)[None, :], target_values, -jnp.inf).max(axis=1)
            rewards = one.reward + unit * self.ensemble.noise_scale * one.noise
            targets = rewards + jnp.where(one.terminated, 0.0, self.discount * best)
            values = self._values(state, networks, _inputs(env, before, state.statistics))
            return one.mask * ((values[:, one.action] - targets) / unit) ** 2

        return jax.vmap(errors)(batch).mean(axis=0)

    def refresh_target(self, state: BdqnState) -> BdqnState:
        due = state.log.target_age >= self.schedule.target_period
        return state.replace(
            target=tree_where(due, state.networks, state.target),
            log=state.log.replace(target_age=jnp.where(due, 0, state.log.target_age)),
        )

    def policy(self, state: BdqnState, *, beta: float) -> Policy:
        env = self.env_factory.make(state.env_params)

        def greedy(now: PyTree) -> Int[Array, ""]:
            values = self._values(state, state.networks, _inputs(env, now, state.statistics))
            scores = values.mean(axis=0) + beta * values.std(axis=0)
            return jnp.argmax(jnp.where(env.legal(now), scores, -jnp.inf)).astype(jnp.int32)

        return lambda _, states: jax.vmap(greedy)(states)

    def evaluate(self, state: BdqnState, key: Key, *, episodes: int, beta: float) -> EvaluationResult:
        return play_episodes(
            self.env_factory.make(state.env_params),
            self.policy(state, beta=beta),
            key,
            num_episodes=episodes,
            max_steps=self.evaluation.max_steps,
            success=self.evaluation.success,
        )

    def states_discovered(self, state: BdqnState) -> Shaped[Array, ""] | None:
        return states_visited(state.log)

    def table_occupancy(self, state: BdqnState) -> None:
        return None

    def _maps(self, state: BdqnState) -> Mapping[str, Float[Array, "N N"]]:
        """Visits, and for the action of evaluation the mean over members and their standard deviation."""
        env = self.env_factory.make(state.env_params)
        assert isinstance(env, GridEnvironment)

        def cell(now: PyTree) -> tuple[Array, Array]:
            values = self._values(state, state.networks, _inputs(env, now, state.statistics))
            action = jnp.argmax(values.mean(axis=0))
            return values[:, action].mean(), values[:, action].std()

        mean, std = jax.vmap(cell)(all_states(env))
        by_state = {"visits": state.log.visits.astype(jnp.float32), "value": mean, "value std": std}
        return {name: env.grid(values) for name, values in by_state.items()}

    def _values(self, state: BdqnState, networks: Layers, x: Float[Array, "inputs"]) -> Float[Array, "K A"]:
        """Returns the values of every member, in units of the rewards."""
        unit = return_range(state, self.fixed_range)
        return unit * self.ensemble.all_values(networks, state.priors, x)

    def _observed(
        self, env: AnyEnvironment, state: BdqnState, before: PyTree, discounted: Float[Array, ""]
    ) -> Statistics | None:
        """The statistics after one more step, given the discounted return up to there."""
        if state.statistics is None:
            return None
        return state.statistics.update(*_one_env((discounted, env.observe(before))))

    def _draw_head(self, key: Key) -> Int[Array, ""]:
        return jax.random.randint(key, (), 0, self.ensemble.size)

    def _transition(
        self,
        env: AnyEnvironment,
        before: PyTree,
        action: Int[Array, ""],
        after: PyTree,
        outcome: Outcome,
        key: Key,
    ) -> BootstrapTransition:
        """A row of the replay."""
        mask_key, noise_key = jax.random.split(key)
        members = (self.ensemble.size,)
        fields = {
            "state": pack_state(env, before),
            "action": action,
            "reward": outcome.reward,
            "terminated": outcome.terminated,
            "truncated": outcome.truncated,
            "policy": jnp.zeros(0),
            "after": pack_state(env, after),
            "mask": jax.random.bernoulli(mask_key, self.ensemble.mask_probability, members),
            "noise": jax.random.normal(noise_key, members),
        }
        return BootstrapTransition(**_one_env(fields))


def _inputs(env: AnyEnvironment, state: PyTree, statistics: Statistics | None) -> Float[Array, "inputs"]:
    """What the networks read: all numbers of the observation, or a one-hot vector of a single one that is a name."""
    if (count := getattr(env, "num_observations", None)) is not None:
        return jax.nn.one_hot(env.observe(state), count)
    return flat_floats(normalise(statistics, env.observe(state)))


def _member(layers: Layers, head: Int[Array, ""]) -> Layers:
    return jax.tree.map(lambda leaf: leaf[head], layers)


def _best(values: Float[Array, "A"], legal: Bool[Array, "A"], key: Key) -> Int[Array, ""]:
    """One of the legal actions of highest value."""
    values = jnp.where(legal, values, -jnp.inf)
    ties = legal & (values == values.max())
    return random_legal_action(ties, jax.random.uniform(key, values.shape))


def _one_env(tree: T) -> T:
    """Adds an axis of one parallel episode."""
    return jax.tree.map(lambda leaf: leaf[None], tree)
