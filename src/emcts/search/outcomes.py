"""Stochastic simulators: the outcomes that a search samples below each action, and how it visits them.

An edge keeps up to K outcomes. All K are drawn when the edge is expanded, each from a key of its own; draws that lead
to equal states are one outcome. Visits of the edge take the draws in turn, so that each outcome is visited in
proportion to how often it was drawn. An outcome gets its node, and is evaluated, when it is first visited: a
simulation is one evaluation, as in a deterministic model.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree, UInt32

from emcts.types import Key, Params, RecurrentState, SampledOutcomes

SAME = -2  # the entry of a draw that is equal to draw k is SAME - k


def sum_over_outcomes(visits: Sequence[Array]) -> Array:
    """Returns the visits of edges, given those of each outcome."""
    return functools.reduce(operator.add, visits)


def mean_over_outcomes(visits: Sequence[Array], values: Sequence[Array]) -> Array:
    """Returns the mean over all visits of edges, given the mean over those of each outcome.

    The first draw is the first to be visited: with no other outcome, its value is returned to the last digit.
    """
    first = values[0]
    if len(values) == 1:
        return first
    others = [count * (value - first) for count, value in zip(visits[1:], values[1:], strict=True)]
    return first + sum_over_outcomes(others) / jnp.maximum(sum_over_outcomes(visits), 1)


def next_outcome(children: Sequence[Array], visits: Array) -> tuple[Array, Array]:
    """Returns the outcome that the next visit of an edge goes to, and its entry in `children_index`.

    `children` are the entries of all outcomes of the edge.
    """
    if len(children) == 1:
        return jnp.zeros_like(children[0]), children[0]
    draw = visits.astype(jnp.int32) % len(children)
    entry = pick_outcome(children, draw)
    outcome = jnp.where(entry <= SAME, SAME - entry, draw)
    return outcome, pick_outcome(children, outcome)


def pick_outcome(options: Sequence[Array], index: Array) -> Array:
    """Returns the option of one outcome, given those of all."""
    if len(options) == 1:
        return options[0]
    return sum_over_outcomes([jnp.where(index == k, option, 0) for k, option in enumerate(options)])


def mark_equal_draws(
    children_index: Int[Array, "B N KA"],
    parent: Int[Array, "B"],
    action: Int[Array, "B"],
    first: Int[Array, "B K"],
    num_actions: int,
) -> Int[Array, "B N KA"]:
    """Marks the draws of an edge that are equal to an earlier one, so that their visits go there."""
    draws = jnp.arange(first.shape[1])
    batch, parent = jnp.arange(len(first))[:, None], parent[:, None]
    entries = draws[None] * num_actions + action[:, None]
    marked = jnp.where(first == draws[None], children_index[batch, parent, entries], SAME - first)
    return children_index.at[batch, parent, entries].set(marked)


class Evaluated(NamedTuple):
    """The model's output for one outcome of each edge, the state there, and for each draw the first one equal to it."""

    output: Any
    after: RecurrentState
    first: Int[Array, "B K"]


def evaluate_outcome(
    model: SampledOutcomes[Any, Any],
    params: Params,
    keys: Key,
    action: Int[Array, "B"],
    before: RecurrentState,
    outcome: Int[Array, "B"],
) -> Evaluated:
    """Evaluates an outcome of each edge. All draws of an edge come from its key, so they are the same each time."""

    def draw(key: Key, action: Int[Array, ""], before: PyTree) -> tuple[PyTree, PyTree]:
        draw_keys = jax.random.split(key, model.num_outcomes)
        return jax.vmap(model.draw, in_axes=(None, 0, None, None))(params, draw_keys, action, before)

    happened, states = jax.vmap(draw)(keys, action, before)
    first = jax.vmap(first_equal)(states)
    rows = jnp.arange(action.shape[0])
    after = jax.tree.map(lambda leaf: leaf[rows, outcome], states)
    step = jax.tree.map(lambda leaf: jax.vmap(_of_outcome)(leaf, first, outcome), happened)
    return Evaluated(model.evaluate(params, action, before, step, after), after, first)


def first_equal(states: PyTree) -> Int[Array, "K"]:
    """Returns for each of K states the first one that is equal to it, found by a hash and then compared."""
    rows = [_bits(leaf) for leaf in jax.tree.leaves(states)]
    numbers = np.random.default_rng(0)
    hashes = [
        jnp.sum(row * numbers.integers(2**32, size=row.shape[1:], dtype=np.uint32)[None], axis=1)
        for row in rows
    ]
    hashed = functools.reduce(operator.add, hashes)
    first = jnp.argmax(hashed[:, None] == hashed[None, :], axis=1).astype(jnp.int32)
    equal = functools.reduce(operator.and_, [jnp.all(row == row[first], axis=1) for row in rows])
    return jnp.where(equal, first, jnp.arange(len(first), dtype=jnp.int32))


def _bits(leaf: Array) -> UInt32[Array, "K F"]:
    """Returns the bits of each row."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    rows = leaf.reshape(len(leaf), -1)
    if rows.dtype.itemsize < 4:
        rows = rows.astype(jnp.float32 if jnp.issubdtype(rows.dtype, jnp.floating) else jnp.uint32)
    return jax.lax.bitcast_convert_type(rows, jnp.uint32).reshape(len(leaf), -1)


def _of_outcome(leaf: Array, first: Int[Array, "K"], outcome: Int[Array, ""]) -> Array:
    """Returns the entry of one draw; if it is a floating-point number, the mean over all draws equal to it."""
    drawn = leaf[outcome]
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return drawn
    equal = (first == first[outcome]).astype(leaf.dtype).reshape(-1, *[1] * drawn.ndim)
    return drawn + jnp.sum(equal * (leaf - drawn[None]), axis=0) / jnp.sum(equal)
