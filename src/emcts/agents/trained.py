"""Acting with what an agent has learned: one seed of a training state, and a state of the environment to act in."""

import functools
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, PyTree

from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import SearchOutput
from emcts.envs.adapters.gymnasium import GymnasiumEnvironment, StoredHostState
from emcts.envs.base import AnyEnvironment
from emcts.envs.wrappers import TimeLimit, at_start
from emcts.training.learner import Learner
from emcts.types import Key

UNUSED = (
    "optimiser",
    "target",
    "episodes",
    "episode",
    "replay",
)  # parts of a state that acting does not read


@dataclass(frozen=True, eq=False)
class TrainedAgent:
    """One seed of a run as of a checkpoint, to act with.

    `env` is the environment that it was trained on, with the time limit if there was one.
    """

    learner: Learner[PyTree]  # how it acts and searches
    state: PyTree = field(repr=False)  # of this seed
    seed: int  # that was trained
    env_steps: int  # of this seed at the checkpoint

    @functools.cached_property
    def env(self) -> AnyEnvironment:
        """The environment of this seed."""
        return self.learner.env_factory.make(self.state.env_params)

    def act(
        self, state: PyTree, key: Key, beta: float = 0.0, *, legal: ArrayLike | None = None
    ) -> Int[Array, "*B"]:
        """Returns an action for one state, or one for each of a batch of states.

        As in evaluation, `beta` is what uncertainty is worth: above 0 it explores, below it is careful. A simulator
        on the host, such as Gymnasium's, is given by its observation, and by the mask of `legal` actions if it has
        one; a list of observations is a batch.
        """
        states, is_batch = self._batch(state, legal)
        actions = self._choose(self.state, key, states, beta=float(beta))
        if isinstance(self.env, GymnasiumEnvironment):
            actions = actions + self.env.pool.interface.first_action
        return actions if is_batch else actions[0]

    def search(
        self,
        state: PyTree,
        key: Key,
        beta: float = 0.0,
        num_simulations: int | None = None,
        *,
        legal: ArrayLike | None = None,
    ) -> SearchOutput:
        """Runs the search by which `act` chooses, and returns its `PolicyOutput`: of one state, a batch of one."""
        if not isinstance(self.learner, MctsLearner):
            raise ValueError("bdqn does not search: call act")
        states, _ = self._batch(state, legal)
        return self._search(self.state, key, states, beta=float(beta), num_simulations=num_simulations)

    @functools.cached_property
    def _choose(self) -> Any:
        def choose(state: PyTree, key: Key, states: PyTree, beta: float) -> Int[Array, "B"]:
            return self.learner.policy(state, beta=beta)(key, states)

        return jax.jit(choose, static_argnames="beta")

    @functools.cached_property
    def _search(self) -> Any:
        learner = self.learner
        assert isinstance(learner, MctsLearner)
        return jax.jit(learner.search, static_argnames=("beta", "num_simulations"))

    def _batch(self, state: PyTree, legal: ArrayLike | None) -> tuple[PyTree, bool]:
        """A batch of states, and whether several were given."""
        env = self.env
        if isinstance(env, GymnasiumEnvironment) and not isinstance(state, StoredHostState):
            return _observed(env, state, legal)
        example = jax.eval_shape(env.init, jax.random.key(0))
        if isinstance(env, GymnasiumEnvironment):
            state, example = env.pack(state), jax.eval_shape(env.pack, example)
        elif isinstance(env, TimeLimit) and not _has_structure(state, example):
            state = _with_time(env, state)
        if not _has_structure(state, example):
            raise ValueError(
                f"{type(state).__name__} is no state of this environment: give what its `init` or `step` returns"
            )
        pairs = zip(jax.tree.leaves(state), jax.tree.leaves(example), strict=True)
        axes = {jnp.ndim(leaf) - like.ndim for leaf, like in pairs}
        if axes == {0}:
            return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state), False
        if axes == {1}:
            return state, True
        raise ValueError(
            "this is neither one state nor a batch [B, ...] of states: its arrays have other shapes"
        )


def of_seed(states: PyTree, row: int) -> PyTree:
    """One seed's part of a state of all seeds, without what acting does not read: a replay is large."""

    def part(path: jax.tree_util.KeyPath, leaf: Array) -> Array:
        return jnp.zeros(0) if getattr(path[0], "name", "") in UNUSED else leaf[row]

    return jax.tree.map_with_path(part, states)


def _has_structure(state: PyTree, example: PyTree) -> bool:
    ours: Any = jax.tree.structure(state)
    return bool(ours == jax.tree.structure(example))


def _with_time(env: TimeLimit[PyTree], state: PyTree) -> PyTree:
    """A state of the wrapped environment, or a batch of them, as one with all the time left."""
    example = jax.tree.leaves(jax.eval_shape(env.env.init, jax.random.key(0)))
    leaves = jax.tree.leaves(state)
    is_batch = bool(leaves) and bool(example) and jnp.ndim(leaves[0]) > example[0].ndim
    return jax.vmap(at_start)(state) if is_batch else at_start(state)


def _observed(
    env: GymnasiumEnvironment, observation: Any, legal: ArrayLike | None
) -> tuple[StoredHostState, bool]:
    """The states of one observation or of several, as a simulator returns them."""
    encoder = env.pool.interface.encoder
    first = encoder.parts[0]
    is_array = not first.path and isinstance(observation, np.ndarray) and first.is_copied
    is_batch = isinstance(observation, list) or (is_array and observation.ndim > len(first.shape))
    several = list(observation) if is_batch else [observation]
    arrays = encoder.empty(len(several))
    for row, one in enumerate(several):
        encoder.write(arrays, row, one)
    mask: Bool[Array, "B A"] | None = None
    if env.masked:
        allowed = True if legal is None else jnp.asarray(legal, bool)
        mask = jnp.broadcast_to(jnp.asarray(allowed), (len(several), env.num_actions))

    def begun(observation: PyTree, legal: Bool[Array, "A"] | None) -> StoredHostState:
        return StoredHostState(observation, legal, jnp.int32(0), jnp.bool_(False), jnp.bool_(False))

    tree = encoder.tree([jnp.asarray(array) for array in arrays])
    return jax.vmap(begun)(tree, mask), is_batch
