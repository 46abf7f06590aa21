"""Examples of a task: one that is shown, and hidden ones that wrong programs fail."""

from collections.abc import Sequence
from functools import cache
from random import Random

import jax.numpy as jnp

from emcts.envs.subleq.dialect import SLOTS, Dialect
from emcts.envs.subleq.machine import Example
from emcts.envs.subleq.tasks import LIST, Group, SubleqTask, task

NUM_EXAMPLES = 8  # the first is shown, the others are hidden
FEWEST_INPUTS = 5
MORE_SHOWN = 3
SHOWN = "shown"  # the seed of `more_shown_examples`, which no number equals

_LONGEST_LIST = 3
_POOL = 2000  # groups drawn to find the kinds that a task has


Pair = tuple[tuple[int, ...], tuple[int, ...]]  # inputs and the outputs wanted for them


@cache
def examples(name: str, word_size: int) -> tuple[Pair, ...]:
    """Pairs of inputs and wanted outputs as integers, the same ones every time.

    Each example has four different inputs or more, positive and negative ones where the task has them, and
    writes three different words if it writes that many: no constant passes. Hidden ones are as long as fits, so
    that errors which build up slowly show. Together they have every kind of group that the task has: each sign at
    each place, each order of neighbours, each length.
    """
    Dialect(word_size)
    chosen = task(name)
    random = Random(f"{name}/{word_size}")  # a string seeds by its bytes, and so alike everywhere
    pool = [_draw_group(random, chosen, word_size) for _ in range(_POOL)]
    needed, signs = _kinds(pool), _signs(pool)
    longest = _longest(chosen)
    while True:
        hidden = [_draw_example(random, chosen, word_size, signs, longest) for _ in range(NUM_EXAMPLES - 1)]
        drawn = [_draw_example(random, chosen, word_size, signs, FEWEST_INPUTS), *hidden]
        if _kinds([group for inputs in drawn for group in chosen.groups(inputs)]) >= needed:
            return tuple((inputs, tuple(chosen.outputs(inputs))) for inputs in drawn)


def further_examples(name: str, word_size: int, count: int, seed: int | str = 0) -> tuple[Pair, ...]:
    """Pairs drawn as the hidden examples of a task are, but from another stream of random numbers for each seed."""
    if count < 1:
        raise ValueError(f"{count} further examples: give at least 1")
    Dialect(word_size)
    chosen = task(name)
    random = Random(f"{name}/{word_size}/further/{seed}")
    signs = _signs([_draw_group(random, chosen, word_size) for _ in range(_POOL)])
    drawn = [_draw_example(random, chosen, word_size, signs, _longest(chosen)) for _ in range(count)]
    return tuple((inputs, tuple(chosen.outputs(inputs))) for inputs in drawn)


def example_arrays(name: str, word_size: int) -> Example:
    """The examples of a task as words of a machine, one row each."""
    return _arrays(examples(name, word_size), word_size)


@cache
def more_shown_examples(name: str, word_size: int) -> tuple[Pair, ...]:
    """Examples that an agent may see beside the shown one: none of them is a hidden one."""
    hidden = examples(name, word_size)[1:]
    drawn = further_examples(name, word_size, MORE_SHOWN + len(hidden), SHOWN)
    return tuple(pair for pair in drawn if pair not in hidden)[:MORE_SHOWN]


def more_shown_arrays(name: str, word_size: int) -> Example:
    """The examples of `more_shown_examples` as words of a machine, one row each."""
    return _arrays(more_shown_examples(name, word_size), word_size)


def _arrays(pairs: Sequence[Pair], word_size: int) -> Example:
    dialect = Dialect(word_size)

    def rows(column: int) -> list[list[int]]:
        words = [dialect.values(pair[column]) for pair in pairs]
        return [[*row, *[0] * (SLOTS - len(row))] for row in words]

    def lengths(column: int) -> list[int]:
        return [len(pair[column]) for pair in pairs]

    return Example(
        inputs=jnp.asarray(rows(0), jnp.uint8),
        num_inputs=jnp.asarray(lengths(0), jnp.int32),
        wanted=jnp.asarray(rows(1), jnp.uint8),
        num_wanted=jnp.asarray(lengths(1), jnp.int32),
    )


def _longest(task: SubleqTask) -> int:
    """The most inputs that whole groups of a task can have together; lists may end up to one input earlier."""
    return SLOTS - (SLOTS % task.group_size if task.group_size != LIST else 1)


def _signs(pool: Sequence[Group]) -> set[int]:
    """The signs of the inputs of a task, but for 0."""
    return {_sign(value) for group in pool for value in group} - {0}


def _draw_example(
    random: Random, task: SubleqTask, word_size: int, signs: set[int], fewest: int
) -> tuple[int, ...]:
    """Whole groups, `fewest` to 8 inputs together, whose inputs and outputs are not the same few words."""
    while True:
        length = fewest + _below(random, SLOTS + 1 - fewest)
        inputs: list[int] = []
        while len(inputs) < length:
            group = _draw_group(random, task, word_size)
            inputs += [*group, 0] if task.group_size == LIST else group
        outputs = task.outputs(inputs)
        varied = len(set(inputs)) >= 4 and len(set(outputs)) >= min(3, len(outputs)) >= 2
        if len(inputs) <= SLOTS and varied and {_sign(value) for value in inputs} >= signs:
            return tuple(inputs)


def _draw_group(random: Random, task: SubleqTask, word_size: int) -> Group:
    """Values from -N/4 to N/2 - 1 for which the task is defined, with answers from -N/2 to N/2 - 1."""
    low, high = -(word_size // 4), (word_size - 1) // 2
    while True:
        if task.group_size == LIST:
            group = [_draw_value(random, low, high) for _ in range(1 + _below(random, _LONGEST_LIST))]
            defined = all(group) and task.accepts(group)
        else:
            group = [_draw_value(random, low, high) for _ in range(task.group_size)]
            defined = task.accepts(group)
        if defined and all(-(word_size // 2) <= output <= high for output in task.function(group)):
            return tuple(group)


def _draw_value(random: Random, low: int, high: int) -> int:
    """A value, in a quarter of the draws a small one or one of the ends, where programs fail first."""
    if random.random() < 0.25:
        return (low, -1, 0, 1, high)[_below(random, 5)]
    return low + _below(random, high + 1 - low)


def _below(random: Random, stop: int) -> int:
    """A whole number below `stop`, by `random()`: the only draw that Python promises never to change."""
    return int(random.random() * stop)


def _kinds(groups: Sequence[Group]) -> set[tuple[str, int, int]]:
    kinds = set()
    for group in groups:
        kinds.add(("length", len(group), 0))
        kinds |= {("sign", place, _sign(value)) for place, value in enumerate(group)}
        kinds |= {("order", i, _sign(group[i] - group[i + 1])) for i in range(len(group) - 1)}
    return kinds


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
