"""The growth of a tree: the statistics of its nodes after each simulation, recorded by a loop over the simulations."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from emcts.search.traversal.traversal import trees_of
from emcts.search.tree import Tree
from emcts.types import Replaceable, record


@record
class Growth(Replaceable):
    """Visits, values and stds of all nodes: before the first simulation, then after each of them.

    `values` are those of the edges that lead to the nodes; the root has none, and there they are its own.
    """

    visits: Int[Array, "*B T N"]  # of T - 1 simulations and N nodes
    values: Float[Array, "*B T N"]  # of the edges into the nodes
    stds: Float[Array, "*B T N"]  # of these values


class Recorder:
    """A `loop_fn` of any search policy that records how its trees grow.

    recorder = emcts.inspect.Recorder()
    out = emcts.muzero_policy(..., loop_fn=recorder)
    emcts.inspect.page(out.search_tree, growth=recorder.growth)

    Inside of `jit`, return `recorder.growth` from the same function. It holds three numbers for each simulation and
    node.
    """

    def __init__(self) -> None:
        self._growth: Growth | None = None

    @property
    def growth(self) -> Growth:
        """What was recorded. Raises before a search."""
        if self._growth is None:
            raise ValueError("nothing is recorded yet: give the recorder to a search, as loop_fn=recorder")
        return self._growth

    def __call__(self, lower: int, upper: int, body: Callable[[Any, Any], Any], start: Any) -> Any:
        """Runs the simulations as `jax.lax.fori_loop` does."""

        def step(state: Any, simulation: Int[Array, ""]) -> tuple[Any, Growth]:
            state = body(simulation, state)
            return state, _statistics(trees_of(state[1]))

        end, recorded = jax.lax.scan(step, start, jnp.arange(lower, upper, dtype=jnp.int32))
        self._growth = jax.tree.map(
            lambda first, later: jnp.moveaxis(jnp.concatenate([first[None], later]), 0, -2),
            _statistics(trees_of(start[1])),
            recorded,
        )
        return end


def _statistics(tree: Tree[object]) -> Growth:
    is_root = jnp.arange(tree.node_visits.shape[-1]) == Tree.ROOT_INDEX
    return Growth(
        visits=tree.node_visits,
        values=jnp.where(is_root, tree.node_values, tree.edge_qvalues),
        stds=jnp.where(is_root, tree.node_value_stds, tree.edge_qvalue_stds),
    )
