"""How many different values the novelty inputs of SUBLEQ have over all programs of up to some words, as CSV.

python -m benchmarks.subleq_inputs --tasks identity add --words 4
"""

import argparse
import csv
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from emcts.agents.builtin_tasks import SubleqOptions, subleq
from emcts.envs import Subleq

INPUTS = ("io", "io+length", "examples", "trace", "trace+length", "full")
AT_ONCE = 2**16


def distinct_values(task: str, words: int, inputs: Sequence[str] = INPUTS) -> list[dict[str, int]]:
    """Returns the number of different values of each input over the programs of up to 0, 1, ... `words` words."""
    env, looks = Subleq(task), [subleq(SubleqOptions(task=task)).novelty_input(name) for name in inputs]

    @jax.jit
    @jax.vmap
    def values(program: jax.Array, length: jax.Array) -> list[jax.Array]:
        state = env.written(program, length, jnp.int32(0))
        return [look(env, state) for look in looks]

    seen: dict[str, set[bytes]] = {name: set() for name in inputs}
    rows: list[dict[str, int]] = []
    for length in range(words + 1):
        for start in range(0, env.word_size**length, AT_ONCE):
            # The last part is filled up with its own programs, so that one compilation serves all.
            numbers = np.arange(start, min(start + AT_ONCE, env.word_size**length))
            numbers = np.resize(numbers, AT_ONCE)
            programs = np.zeros((AT_ONCE, env.max_words), np.uint8)
            for place in range(length):
                programs[:, place] = numbers // env.word_size ** (length - 1 - place) % env.word_size
            found = values(jnp.asarray(programs), jnp.full(AT_ONCE, length, jnp.int32))
            for name, value in zip(inputs, found, strict=True):
                seen[name].update(map(bytes, np.asarray(value)))
        rows.append({"words": length, **{name: len(known) for name, known in seen.items()}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["identity", "add"])
    parser.add_argument("--words", type=int, default=4)
    arguments = parser.parse_args()
    writer = csv.DictWriter(sys.stdout, ["task", "words", *INPUTS], lineterminator="\n")
    writer.writeheader()
    for task in arguments.tasks:
        writer.writerows({"task": task, **row} for row in distinct_values(task, arguments.words))


if __name__ == "__main__":
    main()
