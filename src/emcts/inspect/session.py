"""Moves of a trained agent, searched so that they can be shown: with several betas, and with how their trees grew."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import (
    ExplorationParams,
    Gumbel,
    Planner,
    Puct,
    SearchPlanner,
    UbeAtRoot,
    Uct,
)
from emcts.agents.trained import TrainedAgent
from emcts.envs.base import NamedActionsEnvironment, Outcome, simulator_errors
from emcts.inspect.growth import Growth, Recorder
from emcts.inspect.pictures import grid_of, picture_of
from emcts.inspect.records import EVERYTHING, Limits, number, numbers, search_record
from emcts.inspect.sentences import choices, why
from emcts.registry import lookup
from emcts.search.reading import TreeNode
from emcts.search.tree import Tree
from emcts.types import JSON, Key, Replaceable, record

CAREFUL = -1.0
AS_AGENT = "agent"
MAPS_FIRST = ("visits",)
RULES: Mapping[str, Callable[[int, SearchPlanner], SearchPlanner]] = {
    AS_AGENT: lambda simulations, planner: dataclasses.replace(planner, num_simulations=simulations),
    "gumbel": lambda simulations, planner: Gumbel(simulations, planner.exploring_prior, gumbel_scale=0.0),
    "puct": lambda simulations, planner: Puct(simulations, planner.exploring_prior, temperature=0.0),
    "uct": lambda simulations, planner: Uct(simulations, planner.exploring_prior),
}


@record
class Searched(Replaceable):
    """Searches of one state, of K betas: their trees, how these grew, and the actions that they choose."""

    tree: Tree[Any]
    growth: Growth
    action: Int[Array, "K"]


@dataclasses.dataclass(frozen=True)
class EpisodePosition:
    """A state of the episode, on the host, and what led to it."""

    state: PyTree
    episode_return: float
    over: str  # "", "terminated" or "truncated"
    reward: float | None = None


@dataclasses.dataclass(frozen=True)
class Move:
    """A position, its searches, and what the agent does."""

    position: EpisodePosition
    searched: Searched
    betas: tuple[float, ...]
    acting: int  # which of the searches the agent acts by
    action: int
    rule: str = AS_AGENT


@dataclasses.dataclass(frozen=True, eq=False)
class Session:
    """An episode of a trained agent. It exploits, as evaluation does, or explores, as training does.

    `start` is the random seed of the episode: of its first state, its transitions and its searches.
    """

    agent: TrainedAgent
    explore: bool = False
    start: int = 0
    num_simulations: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.agent.learner, MctsLearner):
            raise ValueError(
                "bdqn does not search, so there is nothing to inspect: name a run of another agent"
            )
        if not 0 <= self.start < 2**32:
            raise ValueError(f"start {self.start}: give a number from 0 to {2**32 - 1:,}")

    @property
    def learner(self) -> MctsLearner:
        assert isinstance(self.agent.learner, MctsLearner)
        return self.agent.learner

    @property
    def run_beta(self) -> float:
        return float(max(self.learner.exploration.betas))

    @property
    def betas(self) -> tuple[float, ...]:
        """The betas that each move is searched with; an agent without uncertainty has one."""
        return (
            tuple(dict.fromkeys((0.0, self.run_beta, CAREFUL)))
            if any(self.learner.exploration.betas)
            else (0.0,)
        )

    @functools.cached_property
    def planner(self) -> Planner:
        return self.learner.planner if self.explore else self.learner.evaluation_planner

    @functools.cached_property
    def search_planner(self) -> SearchPlanner:
        planner = self.planner.planner if isinstance(self.planner, UbeAtRoot) else self.planner
        if not isinstance(planner, SearchPlanner):
            raise ValueError(
                f"{type(planner).__name__} is no search of this package, and cannot be inspected"
            )
        count = planner.num_simulations if self.num_simulations is None else self.num_simulations
        return dataclasses.replace(planner, num_simulations=count)

    @property
    def acting_beta(self) -> float:
        return self.run_beta if self.explore and not isinstance(self.planner, UbeAtRoot) else 0.0

    @property
    def explores(self) -> bool:
        """Whether searches have the prior of episodes that explore."""
        return self.explore and any(self.learner.exploration.exploring)

    def begin(self) -> EpisodePosition:
        with simulator_errors(self.agent.env):
            state = jax.device_get(self._init(self._keys[0]))
        return EpisodePosition(state, 0.0, "")

    def step(self, position: EpisodePosition, action: int, time: int) -> EpisodePosition:
        with simulator_errors(self.agent.env):
            key = jax.random.fold_in(self._keys[1], time)
            state, outcome = jax.device_get(self._step(position.state, jnp.int32(action), key))
        over = "terminated" if outcome.terminated else "truncated" if outcome.truncated else ""
        reward = float(outcome.reward)
        return EpisodePosition(state, position.episode_return + reward, over, reward)

    def move(
        self,
        position: EpisodePosition,
        time: int,
        betas: Sequence[float] | None = None,
        rule: str = AS_AGENT,
        num_simulations: int | None = None,
    ) -> Move:
        """Searches a position. Without `betas` it is searched as the agent does, and with the other betas."""
        count = self.search_planner.num_simulations if num_simulations is None else num_simulations
        planner = lookup(RULES, rule, "rule")(count, self.search_planner)
        chosen = self.betas if betas is None else tuple(betas)
        acting = chosen.index(self.acting_beta) if betas is None else 0
        key = jax.random.fold_in(self._keys[2], time)
        # UBE at the root searches with the first half of its key.
        search_key = jax.random.split(key)[0] if isinstance(self.planner, UbeAtRoot) else key
        betas_given = jnp.array(chosen, jnp.float32)
        searched = self._search(self.agent.state, search_key, position.state, betas_given, planner)
        action = int(searched.action[acting])
        if betas is None and isinstance(self.planner, UbeAtRoot):
            action = int(self._plan(self.agent.state, key, position.state))
        return Move(position, searched, chosen, acting, action, rule)

    def legal(self, position: EpisodePosition) -> list[bool]:
        return np.asarray(self._legal(position.state)).tolist()

    def names(self, state: PyTree) -> list[str]:
        env = self.agent.env
        if isinstance(env, NamedActionsEnvironment):
            return list(env.action_names(state))
        return [str(action) for action in range(env.num_actions)]

    def describe(self, move: Move, limits: Limits = EVERYTHING) -> dict[str, JSON]:
        """Returns a move as the page shows it."""
        position, names = move.position, self.names(move.position.state)
        labels = self._labels(move.searched.tree, names)
        records: list[dict[str, Any]] = []
        for row, beta in enumerate(move.betas):
            one = search_record(move.searched.tree, row, move.searched.growth, labels(row), names, limits)
            rule = "" if move.rule == AS_AGENT else f", {move.rule}"
            one |= {"name": f"beta {beta:g}{rule}", "action": int(move.searched.action[row])}
            records.append(one)
        by = "by its one-step scores (UBE)" if self._acts_by_scores(move) else ""
        return {
            **self.describe_position(position),
            "action": move.action,
            "searches": records,
            "acting": move.acting,
            "sentence": why(records[move.acting], move.action, by),
            "choices": choices(records, [int(one) for one in move.searched.action], move.searched.growth),
        }

    def describe_position(self, position: EpisodePosition) -> dict[str, JSON]:
        return {
            "picture": picture_of(self.agent.env, position.state),
            "labels": self.names(position.state),
            "legal": self.legal(position),
            "return": number(position.episode_return),
            "reward": None if position.reward is None else number(position.reward),
            "over": position.over,
        }

    @functools.cached_property
    def maps(self) -> dict[str, JSON] | None:
        """The maps of the agent, as of its checkpoint: of the visits, and of what it is uncertain of."""
        make = self.learner.maps
        if make is None:
            return None
        found = jax.device_get(jax.jit(make)(self.agent.state))
        names = sorted(found, key=lambda name: (name not in MAPS_FIRST, name))
        return {name: [numbers(row, 4) for row in np.asarray(found[name])] for name in names}

    @property
    def grid(self) -> dict[str, JSON] | None:
        return grid_of(self.agent.env)

    def _acts_by_scores(self, move: Move) -> bool:
        return isinstance(self.planner, UbeAtRoot) and move.betas == self.betas and move.rule == AS_AGENT

    def _labels(self, tree: Tree[Any], names: Sequence[str]) -> Callable[[int], Callable[[TreeNode], str]]:
        """Names of edges, by the states that they lead from. In a learned model that of the root alone is known."""
        env, embeddings = self.agent.env, jax.device_get(tree.embeddings)
        example: Any = jax.tree.structure(jax.eval_shape(env.init, jax.random.key(0)))
        in_states = isinstance(env, NamedActionsEnvironment) and jax.tree.structure(embeddings) == example

        def of_row(row: int) -> Callable[[TreeNode], str]:
            parents = tree.parents[row]

            @functools.cache
            def names_at(index: int) -> Sequence[str]:
                if index == Tree.ROOT_INDEX:
                    return names
                return (
                    self.names(jax.tree.map(lambda leaf: leaf[row, index], embeddings)) if in_states else ()
                )

            return lambda node: node.label(names_at(int(parents[node.index])))

        return of_row

    @functools.cached_property
    def _keys(self) -> Key:
        """The keys of the first state, of the steps and of the searches."""
        return jax.random.split(jax.random.key(self.start), 3)

    @functools.cached_property
    def _init(self) -> Callable[[Key], PyTree]:
        return jax.jit(self.agent.env.init)

    @functools.cached_property
    def _legal(self) -> Callable[[PyTree], Array]:
        return jax.jit(self.agent.env.legal)

    @functools.cached_property
    def _step(self) -> Callable[[PyTree, Array, Key], tuple[PyTree, Outcome]]:
        return jax.jit(self.agent.env.step)

    @functools.cached_property
    def _search(self) -> Callable[..., Searched]:
        learner, exploring = self.learner, self.explores

        def search(
            state: PyTree, key: Key, position: PyTree, betas: Float[Array, "K"], planner: SearchPlanner
        ) -> Searched:
            model = _model(learner, state)
            states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)

            def one(beta: Float[Array, ""]) -> Searched:
                recorder = Recorder()
                params = ExplorationParams(beta[None], jnp.full(1, exploring))
                out = dataclasses.replace(planner, loop_fn=recorder).search(key, model, states, params)
                action = planner.plan(out, params).action
                found = Searched(out.search_tree, recorder.growth, action)
                return jax.tree.map(lambda leaf: leaf[0], found)

            return jax.vmap(one)(betas)

        return jax.jit(search, static_argnames="planner")

    @functools.cached_property
    def _plan(self) -> Callable[[PyTree, Key, PyTree], Array]:
        """What the planner of the agent does, where that is more than one search."""
        learner, planner, beta, exploring = self.learner, self.planner, self.run_beta, self.explores

        def plan(state: PyTree, key: Key, position: PyTree) -> Array:
            states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)
            params = ExplorationParams(jnp.full(1, beta, jnp.float32), jnp.full(1, exploring))
            return planner(key, _model(learner, state), states, params).action[0]

        return jax.jit(plan)


def _model(learner: MctsLearner, state: PyTree) -> Any:
    return learner.world_model.planning_models(learner.env(state.env_params), state.networks)(state.novelty)
