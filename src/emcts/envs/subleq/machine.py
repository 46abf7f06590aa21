"""Programs judged by examples: one program at a time, and one batch under any number of `vmap`s."""

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, UInt8

from emcts.envs.subleq import arrays, kernel, packed, rounds
from emcts.envs.subleq.dialect import Dialect
from emcts.envs.subleq.folding import folded
from emcts.types import Replaceable, record

SLOTS = 8  # inputs, and wanted outputs, of an example


@record
class Example(Replaceable):
    """Inputs and the outputs wanted for them, both padded with 0."""

    inputs: UInt8[Array, "*batch L"]
    num_inputs: Int[Array, "*batch"]
    wanted: UInt8[Array, "*batch L"]
    num_wanted: Int[Array, "*batch"]


@record
class Result(Replaceable):
    """How a program did on an example: it wrote `num_right` of the wanted words, then `wrong` unless -1."""

    inputs_read: Int[Array, "*batch"]
    num_right: Int[Array, "*batch"]
    wrong: Int[Array, "*batch"]
    solved: Bool[Array, "*batch"]


def run(dialect: Dialect, program: UInt8[Array, "W"], example: Example, active: Bool[Array, ""]) -> Result:
    """Runs a program until its first wrong output, the wanted output, its end, or 200 instructions.

    A program that is not active is not run, and costs next to nothing in a batch.
    """
    result = _runner(dialect)(*jax.tree.map(lambda x: x[None], (program, example, active)))
    return jax.tree.map(lambda x: x[0], result)


def judge(dialect: Dialect, program: UInt8[Array, "W"], examples: Example) -> tuple[Result, Bool[Array, ""]]:
    """How a program did on the first of several examples, and whether it solves them all."""
    first, hidden = jax.tree.map(lambda x: x[0], examples), jax.tree.map(lambda x: x[1:], examples)
    result = run(dialect, program, first, jnp.array(True))
    others = jax.vmap(partial(run, dialect, program), in_axes=(0, None))(hidden, result.solved)
    return result, result.solved & jnp.all(others.solved)


@cache
def _runner(dialect: Dialect) -> Callable[..., Result]:
    run_batch = _run_packed if dialect.word_size == 16 else _run_arrays
    batched = folded(lambda *leaves: run_batch(dialect, leaves[0], Example(*leaves[1:5]), leaves[5]))
    return lambda program, example, active: batched(program, *jax.tree.leaves(example), active)


def _run_packed(
    dialect: Dialect, programs: UInt8[Array, "B W"], examples: Example, active: Bool[Array, "B"]
) -> Result:
    interpreter = packed_interpreter(dialect.signed)
    task = packed.pack(examples.inputs), packed.pack(examples.wanted), examples.num_wanted.astype(jnp.uint32)
    machine = packed.load(programs, active)

    def plain(task: packed.Task, machine: packed.Registers) -> packed.Registers:
        return lax.cond(
            jnp.any(active), partial(rounds.run, interpreter), lambda _, same: same, task, machine
        )

    if any(device.platform == "gpu" for device in jax.devices()):
        machine = lax.platform_dependent(task, machine, cuda=partial(kernel.run, interpreter), default=plain)
    else:
        machine = plain(task, machine)
    return Result(
        inputs_read=jnp.minimum(packed.inputs_read(machine), examples.num_inputs),
        num_right=packed.num_right(machine),
        wrong=packed.wrong(machine),
        solved=packed.solved(machine),
    )


def _run_arrays(
    dialect: Dialect, programs: UInt8[Array, "B W"], examples: Example, active: Bool[Array, "B"]
) -> Result:
    interpreter = rounds.Interpreter(
        step=partial(arrays.step, dialect),
        running=partial(arrays.running, dialect),
        stop_repeated=partial(arrays.stop_repeated, dialect),
        steps_per_round=2,
    )
    tasks = arrays.Tasks(examples.inputs, examples.wanted, examples.num_wanted)
    machines = rounds.run(interpreter, tasks, arrays.load(dialect, programs, active))
    return Result(
        inputs_read=jnp.minimum(machines.inputs_read, examples.num_inputs),
        num_right=machines.num_right,
        wrong=machines.wrong,
        solved=arrays.solved(dialect, machines),
    )


@cache
def packed_interpreter(signed: bool) -> rounds.Interpreter:
    return rounds.Interpreter(
        partial(packed.step, signed), packed.running, packed.stop_repeated, steps_per_round=4
    )
