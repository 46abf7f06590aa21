"""A chain with a reward at its end, and agents whose networks return the entries of tables.

Small enough to work out by hand what every target must be.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.mcts.agent import Agent, LossWeights, NoveltyUpdate, ReplayConfig
from emcts.agents.mcts.planners import Gumbel
from emcts.agents.mcts.state import TrainState, init
from emcts.agents.mcts.targets import Reanalyse
from emcts.envs import Outcome
from emcts.models.codecs import Categorical
from emcts.models.evaluators import Evaluator, NetworkEvaluator, TabularEvaluator
from emcts.models.networks import HeadSpec, Networks, indexed_networks, vector_networks
from emcts.models.simulator import SimulatorModel
from emcts.models.ube import horizon_factor
from emcts.novelty import Counts
from emcts.novelty.counts import CountsState
from emcts.training.env_factory import SharedEnv
from emcts.training.learner import EvaluationConfig, ExplorationSchedule, UpdateSchedule
from emcts.types import Key, Replaceable, record

STOP, ON = 0, 1
LENGTH = 4
GAMMA = 0.9
KEY = jax.random.key(0)
TABULAR_HEADS = HeadSpec(2, Categorical(10), bounded=False, ube=True, exploration=False)
BOUNDED_HEADS = HeadSpec(2, Categorical(10), bounded=True, ube=True, exploration=True)


@record
class ChainState(Replaceable):
    """`length` means that the episode is over."""

    position: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Chain:
    """Action 1 goes to the next position, with a reward of 1 at the last one; action 0 ends the episode."""

    length: int = LENGTH

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def num_states(self) -> int:
        return self.length

    def init(self, key: Key) -> ChainState:
        return ChainState(jnp.int32(0))

    def step(self, state: ChainState, action: Int[Array, ""], key: Key) -> tuple[ChainState, Outcome]:
        goes_on = (action == ON) & (state.position < self.length)
        after = jnp.where(goes_on, state.position + 1, self.length)
        reward = jnp.where(goes_on & (after == self.length), 1.0, 0.0)
        return ChainState(after), Outcome(reward, after == self.length, jnp.bool_(False))

    def observe(self, state: ChainState) -> Float[Array, "F"]:
        return jax.nn.one_hot(state.position, self.length + 1)

    def legal(self, state: ChainState) -> Bool[Array, "A"]:
        return jnp.ones(2, bool)

    def index(self, state: ChainState) -> Int[Array, ""]:
        return state.position

    def state_at(self, index: Int[Array, ""]) -> ChainState:
        return ChainState(index.astype(jnp.int32))


@dataclasses.dataclass(frozen=True)
class Tables:
    """The outputs of the networks at each position, and the visits: of pairs, or of positions that were reached."""

    value: np.ndarray
    ube: np.ndarray
    policy: np.ndarray
    exploration: np.ndarray
    reward: np.ndarray
    visits: np.ndarray


def random_tables(pairs: bool) -> Tables:
    """Without a pattern, so that a wrong index shows."""
    rng = np.random.default_rng(0)
    return Tables(
        value=rng.uniform(-0.8, 0.8, LENGTH),
        ube=rng.uniform(0.05, 0.9, LENGTH),
        policy=rng.normal(size=(LENGTH, 2)),
        exploration=rng.normal(size=(LENGTH, 2)),
        reward=rng.uniform(-1, 1, (LENGTH, 2)),
        visits=rng.integers(0, 6, 2 * LENGTH if pairs else LENGTH + 1),
    )


def tabular_agent(reanalyse: Reanalyse, sequence: int = 1) -> Agent:
    """Learns rewards, and counts pairs of state and action, as in Deep Sea."""
    return _agent(
        TabularEvaluator(Counts(2 * LENGTH, epsilon=0.5)),
        lambda key: indexed_networks(LENGTH, TABULAR_HEADS, widths=(), key=key),
        lambda leaf: horizon_factor(GAMMA, LENGTH - leaf.position),
        float("inf"),
        reanalyse,
        sequence,
    )


def network_agent(reanalyse: Reanalyse) -> Agent:
    """Knows rewards, and counts the positions that it reached, as in SUBLEQ."""
    evaluator = NetworkEvaluator(
        Counts(LENGTH + 1, epsilon=2.0), lambda env, s: env.observe(s), lambda env, s: s.position
    )
    return _agent(
        evaluator,
        lambda key: vector_networks(LENGTH + 1, BOUNDED_HEADS, widths=(), key=key),
        lambda leaf: jnp.float32(1.0),
        0.6,
        reanalyse,
        1,
    )


def _agent(
    evaluator: Evaluator[Any],
    make_networks: Callable[[Key], Networks],
    leaf_factor: Callable[[Any], Array],
    max_variance: float,
    reanalyse: Reanalyse,
    sequence: int,
) -> Agent:
    return Agent(
        env_factory=SharedEnv(Chain()),
        world_model=SimulatorModel(evaluator, GAMMA, leaf_factor, max_variance),
        make_networks=make_networks,
        planner=Gumbel(2),
        exploration=ExplorationSchedule((0.0, 0.0), (False, True)),
        novelty_update=NoveltyUpdate.ACTING,
        reanalyse=reanalyse,
        loss_weights=LossWeights(),
        optimiser=optax.adam(1e-2),
        replay=ReplayConfig(64, 8, sequence),
        schedule=UpdateSchedule(8, 1, warmup_steps=16),
        evaluation=EvaluationConfig(1, max_steps=LENGTH),
        evaluation_planner=Gumbel(2, gumbel_scale=0.0),
    )


def state_from_tables(agent: Agent, tables: Tables) -> TrainState:
    """Returns a training state whose target networks and novelty are the tables; its other networks are not."""
    state = init(agent, KEY, ())
    world_model = agent.world_model
    assert isinstance(world_model, SimulatorModel)
    make = _tabular if isinstance(world_model.evaluator, TabularEvaluator) else _linear
    return state.replace(
        target=make(state.networks, tables), novelty=CountsState(jnp.asarray(tables.visits, jnp.int32))
    )


def _tabular(networks: Networks, tables: Tables) -> Networks:
    """The networks are single look-ups: their rows are the outputs."""
    hot = jax.vmap(lambda x: jnp.log(Categorical(10).two_hot(x) + 1e-12))
    rows = {
        "value": hot(jnp.asarray(tables.value, jnp.float32)),
        "ube": hot(jnp.asarray(tables.ube, jnp.float32)),
        "reward": hot(jnp.asarray(tables.reward, jnp.float32).reshape(-1)),
        "policy": jnp.asarray(tables.policy, jnp.float32),
    }
    return jax.tree_util.tree_map_with_path(lambda path, _: rows[path[0].name], networks)


def _linear(networks: Networks, tables: Tables) -> Networks:
    """The networks are single linear layers: their output at a position is a column of their weights."""

    def column(table: np.ndarray) -> Array:
        raw = table.reshape(LENGTH, -1).T
        return jnp.asarray(np.concatenate([raw, np.full((len(raw), 1), 9.0)], axis=1), jnp.float32)

    columns = {
        "value": column(np.arctanh(tables.value)),
        "ube": column(np.arctanh(2 * tables.ube - 1)),
        "policy": column(tables.policy),
        "exploration": column(tables.exploration),
    }

    def fill(path: Any, leaf: Array) -> Array:
        return columns[path[0].name] if leaf.ndim == 2 else jnp.zeros_like(leaf)

    return jax.tree_util.tree_map_with_path(fill, networks)
