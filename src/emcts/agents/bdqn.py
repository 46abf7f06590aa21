"""Bootstrapped DQN with randomised priors: explores by the value function of one member for a whole episode.

Osband et al. 2016 and 2018, as bsuite's baseline in JAX has it. Priors differ, so members differ about what was not
tried yet; each bootstraps from its own target, so that their difference travels back to where it can be acted upon.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from emcts.agents import replay as replays
from emcts.agents.acting import Played
from emcts.agents.agent import Lanes, Schedule
from emcts.agents.bdqn_evaluation import Greedy
from emcts.agents.bdqn_network import Ensemble, Layers
from emcts.agents.bdqn_state import (
    BdqnLearned,
    BdqnLosses,
    BdqnState,
    Episode,
    Transition,
    note_move,
    note_update,
)
from emcts.agents.judging import Evaluated
from emcts.agents.learner import Maps, states_visited
from emcts.agents.simulator_steps import SimulatorRates
from emcts.agents.spread import Spread
from emcts.agents.state import new_log, note_regret
from emcts.agents.worlds import Worlds
from emcts.envs import AnyEnvironment, DeepSea, Outcome
from emcts.envs.base import tree_where
from emcts.envs.rollout import random_legal_action
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class Bdqn:
    """The learner. It plays one episode at a time, and updates all members once after every `schedule.moves`.

    `schedule.target_every` counts updates. A step that terminated bootstraps from nothing, one that was truncated from
    the state that it led to. Actions that are not legal are neither taken nor bootstrapped from.
    """

    worlds: Worlds
    ensemble: Ensemble
    discount: float
    optimiser: optax.GradientTransformation
    replay_capacity: int
    batch_size: int
    schedule: Schedule
    evaluation: Greedy

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: give at least 1")
        if self.replay_capacity < max(2, self.schedule.warm_up):
            raise ValueError(
                f"replay of {self.replay_capacity} steps does not hold a warm_up of {self.schedule.warm_up}: "
                "raise replay_capacity, to 2 or more, or lower warm_up"
            )
        if self.schedule.updates != 1:
            raise ValueError(f"schedule.updates is {self.schedule.updates}: give 1, and change moves instead")

    @property
    def lanes(self) -> Lanes:
        return Lanes((0.0,), (True,))

    @property
    def steps_per_iteration(self) -> int:
        return self.schedule.moves

    @property
    def simulator_rates(self) -> SimulatorRates:
        return SimulatorRates()

    @property
    def maps(self) -> Maps | None:
        return self._maps if isinstance(self.worlds.example, DeepSea) else None

    def init(self, key: Key, world: PyTree) -> BdqnState:
        keys = jax.random.split(key, 7)
        network_key, prior_key, state_key, head_key, example_key, loop_key, evaluation_key = keys
        env = self.worlds.world(world)
        state = env.init(state_key)
        num_inputs = _inputs(env, state).size
        networks = self.ensemble.make(num_inputs, env.num_actions, network_key)
        head = self._draw_head(head_key)
        nothing = Outcome(jnp.float32(0), jnp.bool_(False), jnp.bool_(False))
        example = self._transition(state, jnp.int32(0), state, nothing, example_key)
        return BdqnState(
            key=loop_key,
            evaluation_key=evaluation_key,
            world=world,
            networks=networks,
            priors=self.ensemble.make(num_inputs, env.num_actions, prior_key),
            target=networks,
            optimiser=self.optimiser.init(networks),
            episode=Episode(state, jnp.float32(0), head, _member(networks, head)),
            replay=replays.init(example, self.replay_capacity),
            log=new_log(env),
        )

    def over(self, spread: Spread) -> "Bdqn":
        spread.check(1, "the number of episodes side by side of bdqn")
        return self

    def dealt(self, state: BdqnState) -> BdqnState:
        return jax.tree.map(lambda _: -1, state)

    def act(self, state: BdqnState) -> tuple[BdqnState, Played]:
        """Plays on; when an episode begins, the member that plays it is drawn."""
        env = self.worlds.world(state.world)

        def move(carry: BdqnState, inputs: tuple[Key, Int[Array, ""]]) -> tuple[BdqnState, Played]:
            tie_key, step_key, keep_key, reset_key, head_key = jax.random.split(inputs[0], 5)
            episode = carry.episode
            before, x = episode.state, _inputs(env, episode.state)
            own = self.ensemble.values(episode.held, _member(carry.priors, episode.head), x)
            action = _best(own, env.legal(before), tie_key)
            after, outcome = env.step(before, action, step_key)
            paid = episode.paid + outcome.reward
            success = self.worlds.success(env, after, outcome)
            log = note_move(carry.log, env, before, success, inputs[1])
            over, good = _one_lane((outcome.over, self.worlds.good_episode(env, after)))
            std = self.ensemble.all_values(carry.networks, carry.priors, x)[:, action].std()
            head = self._draw_head(head_key)
            begun = Episode(env.init(reset_key), jnp.float32(0), head, _member(carry.networks, head))
            step = self._transition(before, action, after, outcome, keep_key)
            carry = carry.replace(
                episode=tree_where(outcome.over, begun, episode.replace(state=after, paid=paid)),
                replay=replays.add(carry.replay, step),
                log=note_regret(log, over, good, inputs[1]),
            )
            played = (outcome.over, paid, success, std, self.worlds.keepsake(after))
            return carry, Played(*_one_lane(played))

        key, moves_key = jax.random.split(state.key)
        moves = self.schedule.moves
        inputs = (jax.random.split(moves_key, moves), jnp.arange(moves, dtype=jnp.int32))
        return jax.lax.scan(move, state.replace(key=key), inputs)

    def learn(self, state: BdqnState, progress: Float[Array, ""]) -> tuple[BdqnState, BdqnLearned]:
        """One update of all members with one batch, drawn from the replay uniformly and with replacement."""
        key, batch_key = jax.random.split(state.key)
        env = self.worlds.world(state.world)
        rows = jax.random.randint(batch_key, (self.batch_size,), 0, state.replay.filled)
        batch: Any = jax.tree.map(lambda ring: ring[rows, 0], state.replay.steps)

        def loss(networks: Layers) -> Float[Array, ""]:
            # The sum over members: each gets the gradient that it would get alone.
            return self.member_losses(env, networks, state, batch).sum()

        total, gradient = jax.value_and_grad(loss)(state.networks)
        changes, optimiser = self.optimiser.update(gradient, state.optimiser, state.networks)
        mean = total / self.ensemble.size
        state = state.replace(
            key=key,
            networks=optax.apply_updates(state.networks, changes),
            optimiser=optimiser,
            log=note_update(state.log, mean, self.schedule.moves),
        )
        return state, BdqnLearned(mean, BdqnLosses(mean))

    def member_losses(
        self, env: AnyEnvironment, networks: Layers, state: BdqnState, batch: Transition
    ) -> Float[Array, "K"]:
        """The mean squared error of one-step Q-learning over steps [B]; those that a member skips count as right."""

        def errors(step: Transition) -> Float[Array, "K"]:
            before, after = (self.worlds.unpack(env, packed) for packed in (step.state, step.after))
            ahead = self.ensemble.all_values(state.target, state.priors, _inputs(env, after))
            best = jnp.where(env.legal(after)[None, :], ahead, -jnp.inf).max(axis=1)
            rewards = step.reward + self.ensemble.noise_scale * step.noise
            targets = rewards + jnp.where(step.terminated, 0.0, self.discount * best)
            now = self.ensemble.all_values(networks, state.priors, _inputs(env, before))
            return step.mask * (now[:, step.action] - targets) ** 2

        return jax.vmap(errors)(batch).mean(axis=0)

    def refresh_target(self, state: BdqnState) -> BdqnState:
        due = state.log.target_age >= self.schedule.target_every
        return state.replace(
            target=tree_where(due, state.networks, state.target),
            log=state.log.replace(target_age=jnp.where(due, 0, state.log.target_age)),
        )

    def evaluate(self, state: BdqnState, key: Key, *, episodes: int, beta: float) -> Evaluated:
        env = self.worlds.world(state.world)

        def values(now: Any) -> Float[Array, "K A"]:
            return self.ensemble.all_values(state.networks, state.priors, _inputs(env, now))

        def success(after: Any, outcome: Outcome) -> Bool[Array, ""]:
            return self.worlds.success(env, after, outcome)

        return self.evaluation.play(env, values, success, key, episodes=episodes, beta=beta)

    def discovered(self, state: BdqnState) -> Shaped[Array, ""] | None:
        return states_visited(state.log)

    def table_occupancy(self, state: BdqnState) -> None:
        return None

    def _maps(self, state: BdqnState) -> dict[str, Float[Array, "N N"]]:
        """Visits, and of the action that evaluation takes the mean over members and their standard deviation."""
        env = self.worlds.world(state.world)

        def cell(index: Int[Array, ""]) -> tuple[Array, Array]:
            now = self.ensemble.all_values(state.networks, state.priors, _inputs(env, env.state_at(index)))
            action = jnp.argmax(now.mean(axis=0))
            return now[:, action].mean(), now[:, action].std()

        mean, std = jax.vmap(cell)(jnp.arange(env.num_states))
        cells = {"visits": state.log.visits.astype(jnp.float32), "value": mean, "value std": std}
        at = jax.vmap(env.state_at)(jnp.arange(env.num_states))
        empty = jnp.full((env.size, env.size), jnp.nan)  # and stays so where no path leads
        return {name: empty.at[at.row, at.column].set(of_cells) for name, of_cells in cells.items()}

    def _draw_head(self, key: Key) -> Int[Array, ""]:
        return jax.random.randint(key, (), 0, self.ensemble.size)

    def _transition(
        self, before: Any, action: Int[Array, ""], after: Any, outcome: Outcome, key: Key
    ) -> Transition:
        """A row of the replay."""
        mask_key, noise_key = jax.random.split(key)
        members = (self.ensemble.size,)
        fields = {
            "state": self.worlds.pack(before),
            "action": action,
            "reward": outcome.reward,
            "terminated": outcome.terminated,
            "truncated": outcome.truncated,
            "policy": jnp.zeros(0),
            "after": self.worlds.pack(after),
            "mask": jax.random.bernoulli(mask_key, self.ensemble.mask_probability, members),
            "noise": jax.random.normal(noise_key, members),
        }
        return Transition(**_one_lane(fields))


def _inputs(env: AnyEnvironment, state: Any) -> Float[Array, "inputs"]:
    return env.observe(state).reshape(-1).astype(jnp.float32)


def _member(layers: Layers, head: Int[Array, ""]) -> Layers:
    return jax.tree.map(lambda leaf: leaf[head], layers)


def _best(values: Float[Array, "A"], legal: Bool[Array, "A"], key: Key) -> Int[Array, ""]:
    """One of the legal actions of highest value."""
    values = jnp.where(legal, values, -jnp.inf)
    ties = legal & (values == values.max())
    return random_legal_action(ties, jax.random.uniform(key, values.shape))


def _one_lane(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None], tree)
