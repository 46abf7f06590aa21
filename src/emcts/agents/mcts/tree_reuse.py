"""Tree reuse: the searches of an episode go on, move after move, in the tree below the action that was taken."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

import emcts
from emcts.agents.mcts.planners import ExplorationParams, Plan, Planner, SearchTree
from emcts.models.world_model import PlanningModel
from emcts.search.tree import Tree
from emcts.types import Key, Replaceable, record


def plan_move(
    planner: Planner,
    model: PlanningModel[PyTree],
    key: Key,
    states: PyTree,
    params: ExplorationParams,
    tree: SearchTree | None,
) -> tuple[Plan, SearchTree | None]:
    """Plans in the trees of the last move, and returns the grown ones; plans afresh without a tree."""
    if tree is None:
        return planner(key, model, states, params), None
    return planner.grow(key, model, states, params, tree)


def empty_tree(
    planner: Planner, model: PlanningModel[PyTree], states: PyTree, params: ExplorationParams
) -> SearchTree:
    """Returns trees without nodes: the first search of an episode starts afresh."""
    grow = jax.eval_shape(
        lambda states, params: planner.grow(jax.random.key(0), model, states, params, None)[1], states, params
    )
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), grow)


def tree_after(
    model: PlanningModel[PyTree],
    tree: SearchTree | None,
    action: Int[Array, "B"],
    states: PyTree,
    goes_on: Bool[Array, "B"] | None = None,
) -> SearchTree | None:
    """Returns the trees below an action that led to `states`, or None if there are no trees.

    They are empty where the episode does not go on, and where the model predicted another state.
    """
    if tree is None:
        return None
    rows = jnp.arange(len(action))
    child = tree.children_index[rows, Tree.ROOT_INDEX, action]
    predicted = jax.tree.map(lambda leaf: leaf[rows, child], tree.embeddings)
    same = model.stands_for(predicted, states)
    return emcts.subtree(tree, action, where=same if goes_on is None else same & goes_on)


@record
class LastMove(Replaceable):
    """The grown trees of the last move, and its actions."""

    tree: SearchTree
    action: Int[Array, "B"]


@dataclasses.dataclass(frozen=True)
class ReusingPlayer:
    """Plays evaluation episodes with one model, and keeps their trees from move to move."""

    planner: Planner
    model: PlanningModel[PyTree]
    beta: float

    def begin(self, states: PyTree) -> LastMove:
        params = ExplorationParams.constant(states, beta=self.beta)
        tree = empty_tree(self.planner, self.model, states, params)
        return LastMove(tree, jnp.zeros(tree.beta.shape, jnp.int32))

    def __call__(self, key: Key, states: PyTree, memory: LastMove) -> tuple[Int[Array, "B"], LastMove]:
        params = ExplorationParams.constant(states, beta=self.beta)
        tree = tree_after(self.model, memory.tree, memory.action, states)
        assert tree is not None
        plan, grown = self.planner.grow(key, self.model, states, params, tree)
        return plan.action, LastMove(grown, plan.action)
