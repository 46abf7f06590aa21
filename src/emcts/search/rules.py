"""Selection functions in the form that the walk wants: rules over rows where the function is ours, else as given.

A selection function of ours, with transforms of ours, depends on one row of statistics. Such a function becomes a
`RowRule`, which the fast walks and the GPU kernels run. Any other function is called as mctx would call it.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from emcts.search import qtransforms, selection
from emcts.search.row import Row
from emcts.search.tree import Tree
from emcts.types import Key

Numbers = dict[str, Any]


class Side(NamedTuple):
    """What a rule needs beside a row, for each batch element (for one, inside the rule)."""

    invalid: Any  # [B, A]
    noise: Any  # [B, A]
    gumbel: Any  # [B, A] or None
    considered_visit: Any  # [B] or None
    numbers: Numbers  # name -> [B]


class RowRule(NamedTuple):
    """A rule for one row. `schedule[:, i]` are the visits that Sequential Halving looks for in simulation `i`."""

    choose: Callable[[Row, Side, Int[Array, ""]], Int[Array, ""]]
    side: Side
    schedule: Any = None  # [B, S] or None

    def at(self, simulation: Any) -> "RowRule":
        if self.schedule is None:
            return self
        return self._replace(side=self.side._replace(considered_visit=self.schedule[:, simulation]))


_ROW_QTRANSFORMS: dict[Callable[..., Any], Callable[..., Any]] = {
    qtransforms.qtransform_by_min_max: qtransforms.by_min_max,
    qtransforms.qtransform_by_parent_and_siblings: qtransforms.by_parent_and_siblings,
    qtransforms.qtransform_completed_by_mix_value: qtransforms.completed_by_mix_value,
}


def row_rule(function: Callable[..., Any], tree: Tree[Any], key: Key) -> RowRule | None:
    """The rule that a selection function of ours stands for, or None for any other function."""
    base, keywords = _unwrap(function)
    keywords.pop("depth", None)
    builder = _BUILDERS.get(base)
    return None if builder is None else builder(tree, key, keywords)


def _puct_rule(tree: Tree[Any], key: Key, keywords: Numbers) -> RowRule | None:
    transform = _row_qtransform(keywords.pop("qtransform", qtransforms.qtransform_by_parent_and_siblings))
    if transform is None:
        return None
    transform_fn, transform_numbers = transform

    def choose(row: Row, side: Side, depth: Int[Array, ""]) -> Int[Array, ""]:
        numbers = {name: side.numbers[name] for name in keywords}
        invalid = side.invalid & (depth == 0)
        return selection.puct(row, transform_fn(row, side), side.noise, invalid, **numbers)

    noise = selection.TIE_BREAK * jax.random.uniform(key, tree.root_invalid_actions.shape)
    return RowRule(choose, _side(tree, keywords | transform_numbers)._replace(noise=noise))


def _stochastic_rule(tree: Tree[Any], key: Key, keywords: Numbers) -> RowRule | None:
    num_actions = keywords.pop("num_actions")
    decide = _puct_rule(tree, key, keywords)
    if decide is None:
        return None

    def choose(row: Row, side: Side, depth: Int[Array, ""]) -> Int[Array, ""]:
        action = decide.choose(selection.branches(row, num_actions, outcomes=False), side, depth)
        outcome = selection.chance(selection.branches(row, num_actions, outcomes=True))
        return jnp.where(depth % 2 == 0, action, outcome)

    return RowRule(choose, decide.side)


def _uct_rule(tree: Tree[Any], key: Key, keywords: Numbers) -> RowRule:
    del key

    def choose(row: Row, side: Side, depth: Int[Array, ""]) -> Int[Array, ""]:
        return selection.uct(row, side.invalid & (depth == 0), **side.numbers)

    return RowRule(choose, _side(tree, keywords))


def _gumbel_root_rule(tree: Tree[Any], key: Key, keywords: Numbers) -> RowRule | None:
    del key
    transform = _row_qtransform(keywords.pop("qtransform", qtransforms.qtransform_completed_by_mix_value))
    if transform is None:
        return None
    transform_fn, transform_numbers = transform

    def choose(row: Row, side: Side, depth: Int[Array, ""]) -> Int[Array, ""]:
        del depth
        completed = transform_fn(row, side)
        return selection.gumbel_root(row, completed, side.gumbel, side.considered_visit, side.invalid)

    considered, simulations = keywords["max_num_considered_actions"], keywords["num_simulations"]
    schedule = jax.vmap(lambda invalid: selection.visit_schedule(invalid, considered, simulations))
    side = _side(tree, transform_numbers)._replace(gumbel=tree.extra_data.root_gumbel)
    return RowRule(choose, side, schedule(tree.root_invalid_actions))


def _gumbel_interior_rule(tree: Tree[Any], key: Key, keywords: Numbers) -> RowRule | None:
    del key
    transform = _row_qtransform(keywords.pop("qtransform", qtransforms.qtransform_completed_by_mix_value))
    if transform is None:
        return None
    transform_fn, transform_numbers = transform

    def choose(row: Row, side: Side, depth: Int[Array, ""]) -> Int[Array, ""]:
        del depth
        return selection.gumbel_interior(row, transform_fn(row, side))

    return RowRule(choose, _side(tree, transform_numbers))


_BUILDERS: dict[Callable[..., Any], Callable[[Tree[Any], Key, Numbers], RowRule | None]] = {
    selection.muzero_action_selection: _puct_rule,
    selection.stochastic_action_selection: _stochastic_rule,
    selection.uct_action_selection: _uct_rule,
    selection.gumbel_muzero_root_action_selection: _gumbel_root_rule,
    selection.gumbel_muzero_interior_action_selection: _gumbel_interior_rule,
}


def _row_qtransform(function: Callable[..., Any]) -> tuple[Callable[[Row, Side], Any], Numbers] | None:
    base, keywords = _unwrap(function)
    if base not in _ROW_QTRANSFORMS:
        return None
    switches = {name: value for name, value in keywords.items() if isinstance(value, bool)}
    numbers = {name: value for name, value in keywords.items() if name not in switches}

    def transform(row: Row, side: Side) -> Any:
        return _ROW_QTRANSFORMS[base](row, **switches, **{name: side.numbers[name] for name in numbers})

    return transform, numbers


def _unwrap(function: Callable[..., Any]) -> tuple[Any, Numbers]:
    """A partial's function and keywords. One with positional arguments is nobody's we know."""
    keywords: Numbers = {}
    while isinstance(function, functools.partial) and not function.args:
        keywords = {**function.keywords, **keywords}
        function = function.func
    return (function, keywords) if _is_hashable(function) else (None, keywords)


def _is_hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def _side(tree: Tree[Any], numbers: Numbers) -> Side:
    """Numbers become one per batch element: they may be traced, and differ between seeds under `vmap`."""
    batch_size = tree.beta.shape[0]
    dtype = tree.node_values.dtype
    spread = {
        name: jnp.broadcast_to(jnp.asarray(value, dtype), (batch_size,)) for name, value in numbers.items()
    }
    return Side(
        tree.root_invalid_actions, jnp.zeros_like(tree.children_prior_logits[:, 0]), None, None, spread
    )
