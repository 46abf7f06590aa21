"""SUBLEQ programs per second: random programs, and enumeration.

    python -m benchmarks.subleq

A random program has uniformly random words in all of its memory, and runs on one example with the usual cap
of 200 instructions. Enumeration is the whole of `enumerate_solutions`, without its compilation.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypedDict

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from emcts.envs.subleq import enumerate_solutions, machine
from emcts.envs.subleq.dialect import Dialect
from emcts.envs.subleq.examples import example_arrays

SECONDS = 0.5  # of measuring, at least
BATCHES = 16  # in one compiled loop
BARS = {"cpu": {12_288: 1.2e6}, "gpu": {12_288: 40e6, 196_608: 400e6}}


class Measurement(TypedDict):
    """`size` is the batch, or the number of programs in all; `bar` the rate to reach, if there is one."""

    what: str
    size: int
    per_second: float
    bar: float | None


def programs_per_second(
    batch: int, *, word_size: int = 16, signed: bool = False, task: str = "identity", seconds: float = SECONDS
) -> float:
    """The rate of batches of random programs on one example, one batch after the other: the best of three.

    The batches are run by one compiled loop, as in training, without the time to launch a program from Python.
    """
    dialect = Dialect(word_size, signed)
    shape = (batch, dialect.writable_words)
    programs = jax.random.randint(jax.random.key(0), shape, 0, word_size)
    example = jax.tree.map(lambda x: x[0], example_arrays(task, word_size))
    run_batch = jax.vmap(partial(machine.run, dialect), in_axes=(0, None, None))

    def run_shifted(shift: Int[Array, ""], total: Int[Array, ""]) -> Int[Array, ""]:
        shifted = ((programs + shift) % word_size).astype(jnp.uint8)
        result = run_batch(shifted, example, jnp.array(True))
        return total + jnp.sum(result.num_right + result.inputs_read + result.wrong)

    run = jax.jit(lambda: jax.lax.fori_loop(0, BATCHES, run_shifted, jnp.int32(0)))
    return BATCHES * batch * _calls_per_second(run, seconds)


def enumerated_per_second(words: int, *, task: str = "identity", word_size: int = 16) -> float:
    """The rate of `enumerate_solutions` over all programs of up to `words` words, without compilation."""

    def once() -> float:
        start = time.perf_counter()
        enumerate_solutions(task, words, word_size=word_size)
        return time.perf_counter() - start

    once()
    return word_size**words / once()


def rows() -> list[Measurement]:
    bars = BARS.get(jax.default_backend(), {})
    results: list[Measurement] = []
    for word_size, batch in [(16, 12_288), (16, 196_608), (64, 12_288)]:
        rate = programs_per_second(batch, word_size=word_size)
        bar = bars.get(batch) if word_size == 16 else None
        results.append(
            {"what": f"SUBLEQ-{word_size} random programs", "size": batch, "per_second": rate, "bar": bar}
        )
    words = 6 if jax.default_backend() == "cpu" else 7
    rate = enumerated_per_second(words)
    results.append({"what": "SUBLEQ-16 enumeration", "size": 16**words, "per_second": rate, "bar": None})
    return results


def _calls_per_second(call: Callable[[], object], seconds: float) -> float:
    """Calls are queued and waited for together, as in a training loop."""
    jax.block_until_ready(call())
    calls = 1
    while (took := _timed(call, calls)) < seconds / 4:
        calls *= 2
    return calls / min(took, *(_timed(call, calls) for _ in range(2)))


def _timed(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    jax.block_until_ready([call() for _ in range(calls)])
    return time.perf_counter() - start


def main() -> None:
    for row in rows():
        bar = "" if row["bar"] is None else f"   bar {row['bar']:,.0f}"
        print(f"{row['what']:<28} {row['size']:>12,}   {row['per_second']:>14,.0f} a second{bar}")


if __name__ == "__main__":
    main()
