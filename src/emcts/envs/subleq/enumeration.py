"""Enumeration of every program of up to k words: a baseline while there are few enough of them."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt8

from emcts.envs.subleq import machine
from emcts.envs.subleq.dialect import Dialect
from emcts.envs.subleq.examples import example_arrays
from emcts.envs.subleq.machine import Example

PROGRAMS_AT_ONCE = {"cpu": 2**16, "gpu": 2**20}  # as many as fit the cache, or as hide the launch
CANDIDATES_AT_ONCE = 256

Program = tuple[int, ...]
Progress = Callable[[int, int], None]  # programs tried, programs in all


def solves(program: Iterable[object], task: str, *, word_size: int = 16, signed: bool = False) -> bool:
    """Whether a program passes the shown example of a task and all the hidden ones."""
    dialect = Dialect(word_size, signed)
    words = dialect.program(program)
    padded = np.zeros((1, dialect.writable_words), np.uint8)
    padded[0, : len(words)] = words
    return bool(_solve(dialect, jnp.asarray(padded), example_arrays(task, word_size))[0])


def enumerate_solutions(
    task: str,
    words: int,
    *,
    word_size: int = 16,
    signed: bool = False,
    progress: Progress | None = None,
) -> list[Program]:
    """The programs of up to `words` words that solve a task, shortest first.

    Memory is 0 where nothing was written, so programs that differ by zeros at the end are one program, listed
    without them.
    """
    dialect = Dialect(word_size, signed)
    examples = example_arrays(task, word_size)
    if not 0 <= words <= dialect.writable_words:
        raise ValueError(
            f"cannot enumerate programs of {words} words: a program of SUBLEQ-{word_size} has 0 to "
            f"{dialect.writable_words}"
        )
    found: list[Program] = []
    for tried, candidates in _candidates(dialect, words, jax.tree.map(lambda x: x[0], examples)):
        for part in _parts(candidates, CANDIDATES_AT_ONCE):
            solved = np.asarray(_solve(dialect, jnp.asarray(part), examples))
            found += [_stripped(program) for program in part[solved]]
        if progress is not None:
            progress(tried, word_size**words)
    # The parts are filled up with programs that may themselves be solutions.
    return sorted(set(found), key=lambda program: (len(program), program))


def _candidates(dialect: Dialect, words: int, shown: Example) -> Iterator[tuple[int, np.ndarray]]:
    """All programs, batch by batch: how many were tried so far, and which of the batch solve one example.

    A batch is each of some heads followed by each combination of the last few words.
    """
    at_once = PROGRAMS_AT_ONCE.get(jax.default_backend(), 2**16)
    inner = 0
    while inner < words and dialect.word_size ** (inner + 1) <= at_once:
        inner += 1
    tails = _digits(np.arange(dialect.word_size**inner), inner, dialect.word_size)
    num_heads = dialect.word_size ** (words - inner)
    heads_at_once = min(at_once // len(tails), num_heads)
    tails_there = jnp.asarray(tails)

    def launch(start: int) -> tuple[np.ndarray, Bool[Array, "H T"]]:
        numbers = np.arange(start, start + heads_at_once) % num_heads
        heads = _digits(numbers, words - inner, dialect.word_size)
        return heads, _solve_one(dialect, jnp.asarray(heads), tails_there, shown)

    # One batch runs while the results of the one before it are read.
    starts = range(0, num_heads, heads_at_once)
    coming = launch(0)
    for start in starts:
        heads, solved = coming
        if start != starts[-1]:
            coming = launch(start + heads_at_once)
        count = min(heads_at_once, num_heads - start)
        which, tail = np.nonzero(np.asarray(solved)[:count])
        yield (start + count) * len(tails), np.concatenate([heads[which], tails[tail]], axis=1)


def _parts(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Equal parts, so that one compilation serves them all; the last is filled up with its own rows."""
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield part[np.arange(size) % len(part)]


def _digits(numbers: np.ndarray, count: int, base: int) -> np.ndarray:
    """Whole numbers as `count` digits, the highest first."""
    powers = np.array([base ** (count - 1 - place) for place in range(count)], np.int64)
    return ((numbers[:, None] // powers[None]) % base).astype(np.uint8)


def _stripped(words: np.ndarray) -> Program:
    program = words.tolist()
    while program and program[-1] == 0:
        program.pop()
    return tuple(program)


@partial(jax.jit, static_argnums=0)
def _solve_one(
    dialect: Dialect, heads: UInt8[Array, "H W"], tails: UInt8[Array, "T V"], example: Example
) -> Bool[Array, "H T"]:
    def solve(head: UInt8[Array, "W"], tail: UInt8[Array, "V"]) -> Bool[Array, ""]:
        return machine.run(dialect, jnp.concatenate([head, tail]), example, jnp.array(True)).solved

    return jax.vmap(jax.vmap(solve, in_axes=(None, 0)), in_axes=(0, None))(heads, tails)


@partial(jax.jit, static_argnums=0)
def _solve(dialect: Dialect, programs: UInt8[Array, "B W"], examples: Example) -> Bool[Array, "B"]:
    return jax.vmap(lambda program: machine.run_all(dialect, program, examples)[1])(programs)
