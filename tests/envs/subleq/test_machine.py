from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs.subleq import interpreter, machine, packed
from emcts.envs.subleq.dialect import SLOTS, Dialect
from emcts.envs.subleq.machine import Example, Result
from tests.envs.subleq import oracle


def random_batch(seed: int, n: int, size: int, words: int) -> tuple[np.ndarray, Example]:
    """Programs with many special addresses, and examples of every length, some of them solved."""
    rng = np.random.default_rng(seed)
    choices = np.array([0, 0, 1, 2, 3, 6, n - 3, n - 3, n - 2, n - 2, n - 1])
    programs = np.where(
        rng.random((size, words)) < 0.5, rng.choice(choices, (size, words)), rng.integers(0, n, (size, words))
    )
    lengths = rng.integers(0, words + 1, size)
    programs[np.arange(words)[None] >= lengths[:, None]] = 0
    num_inputs, num_wanted = rng.integers(0, SLOTS + 1, size), rng.integers(1, SLOTS + 1, size)
    inputs = rng.integers(0, n, (size, SLOTS)) * (np.arange(SLOTS)[None] < num_inputs[:, None])
    wanted = rng.integers(0, n, (size, SLOTS))
    for row in range(size):
        written = oracle.run(n, False, programs[row].tolist(), inputs[row].tolist(), None).outputs
        if row % 3 and written:
            count = min(len(written), num_wanted[row])
            wanted[row, :count] = written[:count]
    wanted *= np.arange(SLOTS)[None] < num_wanted[:, None]
    example = Example(
        jnp.asarray(inputs, jnp.uint8),
        jnp.asarray(num_inputs, jnp.int32),
        jnp.asarray(wanted, jnp.uint8),
        jnp.asarray(num_wanted, jnp.int32),
    )
    return programs.astype(np.uint8), example


def expected(
    n: int, signed: bool, programs: np.ndarray, examples: Example
) -> list[tuple[int, int, int, bool]]:
    rows = []
    for row in range(len(programs)):
        inputs = np.asarray(examples.inputs[row])[: int(examples.num_inputs[row])].tolist()
        wanted = np.asarray(examples.wanted[row])[: int(examples.num_wanted[row])].tolist()
        outcome = oracle.run(n, signed, programs[row].tolist(), inputs, wanted)
        failed = outcome.verdict == "failed"
        rows.append(
            (
                min(outcome.reads, len(inputs)),
                len(outcome.outputs) - failed,
                outcome.outputs[-1] if failed else -1,
                outcome.verdict == "solved",
            )
        )
    return rows


def rows_of(result: Result) -> list[tuple[int, int, int, bool]]:
    columns = (result.inputs_read, result.num_right, result.wrong, result.solved)
    return list(zip(*(np.asarray(column).tolist() for column in columns), strict=True))


def run_batch(dialect: Dialect, programs: np.ndarray, examples: Example) -> Result:
    run = jax.vmap(partial(machine.run, dialect), in_axes=(0, 0, None))
    return jax.jit(run)(jnp.asarray(programs), examples, jnp.array(True))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("n", "size"), [(16, 2500), (17, 200), (101, 200), (256, 200)])
def test_machine_equals_the_oracle(n, size, signed):
    programs, examples = random_batch(n, n, size, words=min(n - 3, 20))
    want = expected(n, signed, programs, examples)
    assert rows_of(run_batch(Dialect(n, signed), programs, examples)) == want
    assert sum(row[3] for row in want) >= 2  # some are solved,
    assert sum(row[2] >= 0 for row in want) > 4  # some write something wrong


def test_packed_and_array_interpreters_agree_on_uniformly_random_programs():
    rng = np.random.default_rng(5)
    programs = jnp.asarray(rng.integers(0, 16, (800, 13)), jnp.uint8)
    _, examples = random_batch(0, 16, 800, words=13)
    for signed in (False, True):
        active = jnp.ones(800, bool)
        packed_result = jax.jit(partial(machine._run_packed, Dialect(16, signed)))(programs, examples, active)
        array_result = jax.jit(partial(machine._run_arrays, Dialect(16, signed)))(programs, examples, active)
        assert rows_of(packed_result) == rows_of(array_result)


@pytest.mark.parametrize(
    ("program", "word", "cycle"),
    [
        ([10, 2, 6, 10, 14, 9, 1, 13, 3, 3, 6, 12, 15], 0, 200),
        ([12, 15, 9, 14, 7, 6, 12, 5, 5, 1, 9, 8, 0], 10, 201),
    ],
)
@pytest.mark.parametrize("run_all", [machine._run_packed, machine._run_arrays])
def test_the_cap_is_exactly_200_instructions(run_all, program, word, cycle):
    """Two programs that never repeat a state, found by search, whose first output comes so late."""
    assert oracle.run(16, False, program, [], [word], cap=cycle).verdict == "solved"
    nothing = jnp.zeros((1, SLOTS), jnp.uint8)
    example = Example(nothing, jnp.array([0]), nothing.at[0, 0].set(word), jnp.array([1]))
    result = run_all(Dialect(16), jnp.asarray([program], jnp.uint8), example, jnp.array([True]))
    assert bool(result.solved[0]) == (cycle <= 200)


def test_a_machine_that_is_not_active_does_nothing():
    programs, examples = random_batch(1, 16, 50, words=13)
    run = jax.vmap(partial(machine.run, Dialect(16)), in_axes=(0, 0, None))
    result = run(jnp.asarray(programs), examples, jnp.array(False))
    assert rows_of(result) == [(0, 0, -1, False)] * 50


def test_vmap_twice_equals_one_by_one():
    programs, examples = random_batch(2, 16, 4, words=10)
    run = jax.jit(partial(machine.run, Dialect(16)))
    grid = jax.vmap(jax.vmap(run, in_axes=(None, 0, None)), in_axes=(0, None, None))
    table = grid(jnp.asarray(programs), examples, jnp.array(True))
    for i in range(4):
        for j in range(4):
            single = run(
                jnp.asarray(programs[i]), jax.tree.map(lambda x, j=j: x[j], examples), jnp.array(True)
            )
            jax.tree.map(lambda t, s, i=i, j=j: np.testing.assert_array_equal(t[i, j], s), table, single)


def test_smaller_batches_change_no_result():
    """The same machines in small batches, which do not shrink, and in a batch large enough to shrink twice."""
    size = interpreter.SHRINK**2 * interpreter.SMALLEST_BATCH
    rng = np.random.default_rng(3)
    programs = jnp.asarray(rng.integers(0, 16, (size, 13)), jnp.uint8)
    registers = packed.load(programs, jnp.ones(size, bool))
    full = jnp.full(size, 0x76543210, jnp.uint32)
    task = (full, full, jnp.full(size, 8, jnp.uint32))
    packed_interpreter = packed.make_interpreter(False)
    shrunk = jax.jit(partial(interpreter.run, packed_interpreter))(task, registers)
    pieces = jax.tree.map(lambda x: x.reshape(-1, interpreter.SMALLEST_BATCH), (task, registers))
    alone = jax.jit(lambda t: jax.lax.map(lambda piece: interpreter.run(packed_interpreter, *piece), t))(
        pieces
    )
    for together, apart in zip(shrunk, alone, strict=True):
        np.testing.assert_array_equal(together, apart.reshape(-1))


def test_a_solution_needs_every_example():
    negate = jnp.asarray([14, 13, 0, 0], jnp.uint8)
    inputs = jnp.asarray([[1, 2, 0, 0, 0, 0, 0, 0], [3, 4, 0, 0, 0, 0, 0, 0]], jnp.uint8)
    right = (16 - inputs) % 16
    examples = Example(inputs, jnp.array([2, 2]), right, jnp.array([2, 2]))
    result, solved = machine.run_all(Dialect(16), negate, examples)
    assert bool(result.solved)
    assert bool(solved)
    result, solved = machine.run_all(Dialect(16), negate, examples.replace(wanted=right.at[1, 1].add(1)))
    assert bool(result.solved)
    assert not bool(solved)
