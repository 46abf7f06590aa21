"""Programs run on examples: one program at a time, and one batch under any number of `vmap`s."""

from collections.abc import Callable
from functools import cache, partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, UInt8

from emcts.envs.subleq import arrays, interpreter, packed
from emcts.envs.subleq.dialect import Dialect
from emcts.envs.subleq.interpreter import MachinesT
from emcts.types import Replaceable, record

Results = TypeVar("Results")


@record
class Example(Replaceable):
    """Inputs and the outputs wanted for them, both padded with 0."""

    inputs: UInt8[Array, "*batch L"]
    num_inputs: Int[Array, "*batch"]
    wanted: UInt8[Array, "*batch L"]
    num_wanted: Int[Array, "*batch"]


@record
class Result(Replaceable):
    """The result of a program on an example: it wrote `num_right` of the wanted words, then `wrong` unless -1."""

    inputs_read: Int[Array, "*batch"]
    num_right: Int[Array, "*batch"]
    wrong: Int[Array, "*batch"]
    solved: Bool[Array, "*batch"]


@record
class Events(Replaceable):
    """The first instructions of a program: the result of each, and its kind, 0 for none.

    The kind is 1, or 2 if the instruction reads an input, and 2 more if it writes an output.
    """

    words: UInt8[Array, "K"]
    kinds: UInt8[Array, "K"]


def run(dialect: Dialect, program: UInt8[Array, "W"], example: Example, active: Bool[Array, ""]) -> Result:
    """Runs a program until its first wrong output, the wanted output, its end, or 200 instructions.

    A program that is not active is not run, and costs next to nothing in a batch.
    """
    result = _runner(dialect)(*jax.tree.map(lambda x: x[None], (program, example, active)))
    return jax.tree.map(lambda x: x[0], result)


def run_all(
    dialect: Dialect, program: UInt8[Array, "W"], examples: Example
) -> tuple[Result, Bool[Array, ""]]:
    """The result of a program on the first of several examples, and whether it solves them all."""
    first, hidden = jax.tree.map(lambda x: x[0], examples), jax.tree.map(lambda x: x[1:], examples)
    result = run(dialect, program, first, jnp.array(True))
    others = jax.vmap(partial(run, dialect, program), in_axes=(0, None))(hidden, result.solved)
    return result, result.solved & jnp.all(others.solved)


def first_events(dialect: Dialect, program: UInt8[Array, "W"], example: Example, count: int) -> Events:
    """The first `count` instructions of a program on an example, up to where a test of it ends."""
    programs, one = jax.tree.map(lambda x: x[None], (program, example))
    active = jnp.ones(1, bool)
    if dialect.word_size == 16:
        execute = partial(packed.execute, dialect.signed, _packed_examples(one))
        return _events(execute, packed.running, packed.load(programs, active), count)
    wanted = arrays.Examples(one.inputs, one.wanted, one.num_wanted)
    running = partial(arrays.running, dialect)
    return _events(
        partial(arrays.execute, dialect, wanted), running, arrays.load(dialect, programs, active), count
    )


def _events(
    execute: Callable[[MachinesT], tuple[MachinesT, packed.Effects | arrays.Effects]],
    running: Callable[[MachinesT], Bool[Array, "1"]],
    machines: MachinesT,
    count: int,
) -> Events:
    words, kinds = [], []
    for _ in range(count):
        runs = running(machines)
        machines, effects = execute(machines)
        kind = 1 + effects.reads.astype(jnp.uint8) + 2 * effects.is_out.astype(jnp.uint8)
        words.append(jnp.where(runs, effects.word.astype(jnp.uint8), 0)[0])
        kinds.append(jnp.where(runs, kind, 0)[0])
    return Events(jnp.stack(words), jnp.stack(kinds))


@cache
def _runner(dialect: Dialect) -> Callable[[Array, Example, Array], Result]:
    run_batch = _run_packed if dialect.word_size == 16 else _run_arrays
    batched = _one_batch(lambda *leaves: run_batch(dialect, leaves[0], Example(*leaves[1:5]), leaves[5]))
    return lambda program, example, active: batched(program, *jax.tree.leaves(example), active)


def _run_packed(
    dialect: Dialect, programs: UInt8[Array, "B W"], examples: Example, active: Bool[Array, "B"]
) -> Result:
    packed_examples = _packed_examples(examples)
    registers = packed.load(programs, active)
    instructions = packed.make_interpreter(dialect.signed)

    def plain(examples: packed.Examples, registers: packed.Registers) -> packed.Registers:
        run = partial(interpreter.run, instructions)
        return lax.cond(jnp.any(active), run, lambda _, same: same, examples, registers)

    if packed.triton is not None and any(device.platform == "gpu" for device in jax.devices()):
        kernel = partial(packed.run_kernel, instructions)
        registers = lax.platform_dependent(packed_examples, registers, cuda=kernel, default=plain)
    else:
        registers = plain(packed_examples, registers)
    return Result(
        inputs_read=jnp.minimum(packed.inputs_read(registers), examples.num_inputs),
        num_right=packed.num_right(registers),
        wrong=packed.wrong(registers),
        solved=packed.solved(registers),
    )


def _packed_examples(examples: Example) -> packed.Examples:
    return (
        packed.pack(examples.inputs),
        packed.pack(examples.wanted),
        examples.num_wanted.astype(jnp.uint32),
    )


def _run_arrays(
    dialect: Dialect, programs: UInt8[Array, "B W"], examples: Example, active: Bool[Array, "B"]
) -> Result:
    wanted = arrays.Examples(examples.inputs, examples.wanted, examples.num_wanted)
    machines = interpreter.run(
        arrays.make_interpreter(dialect), wanted, arrays.load(dialect, programs, active)
    )
    return Result(
        inputs_read=jnp.minimum(machines.inputs_read, examples.num_inputs),
        num_right=machines.num_right,
        wrong=machines.wrong,
        solved=arrays.solved(dialect, machines),
    )


def _one_batch(function: Callable[..., Results]) -> Callable[..., Results]:
    """`function`, whose arguments and results lead with a batch axis, with the axis of each `vmap` folded into that.

    A loop that drops the machines that are done must see all of them at once. JAX would batch the loop instead, once
    per `vmap`, and turn every branch into a select.
    """
    batched = custom_vmap(function)

    @batched.def_vmap
    def _fold(axis_size: int, in_batched: list[bool], *arguments: Array) -> tuple[Results, Results]:
        def fold(argument: Array, is_batched: bool) -> Array:
            if not is_batched:
                argument = jnp.broadcast_to(argument[None], (axis_size, *argument.shape))
            return argument.reshape(axis_size * argument.shape[1], *argument.shape[2:])

        results = batched(*[fold(a, b) for a, b in zip(arguments, in_batched, strict=True)])
        unfolded = jax.tree.map(
            lambda r: r.reshape(axis_size, r.shape[0] // axis_size, *r.shape[1:]), results
        )
        return unfolded, jax.tree.map(lambda _: True, results)

    return batched
