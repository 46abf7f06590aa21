"""SUBLEQ of any word size: each machine's memory is a row of bytes."""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt8

from emcts.envs.subleq.dialect import SLOTS, Dialect
from emcts.envs.subleq.interpreter import Interpreter
from emcts.types import Replaceable, record


@record
class Machines(Replaceable):
    """A batch of machines. The `address` of one that stopped is `Dialect.last_start` plus 1, 2 or 3."""

    memory: UInt8[Array, "B N"]
    address: Int[Array, "B"]
    inputs_read: Int[Array, "B"]
    num_right: Int[Array, "B"]
    wrong: Int[Array, "B"]  # the output that was wrong, or -1


@record
class Examples:
    """The inputs of each machine, followed by 0, and the outputs that it should write."""

    inputs: UInt8[Array, "B L"]
    wanted: UInt8[Array, "B L"]
    num_wanted: Int[Array, "B"]


def load(dialect: Dialect, programs: UInt8[Array, "B W"], active: Bool[Array, "B"]) -> Machines:
    """Machines at address 0. Those that are not active have already ended."""
    size, words = programs.shape
    none = jnp.zeros(size, jnp.int32)
    return Machines(
        memory=jnp.pad(programs, ((0, 0), (0, dialect.word_size - words))),
        address=jnp.where(active, none, dialect.in_address),
        inputs_read=none,
        num_right=none,
        wrong=none - 1,
    )


class Effects(NamedTuple):
    """What an instruction of each machine does: its result, and whether it reads IN or writes to OUT."""

    word: Int[Array, "B"]
    reads: Bool[Array, "B"]
    is_out: Bool[Array, "B"]


def step(dialect: Dialect, examples: Examples, machines: Machines) -> Machines:
    """Executes one instruction of every machine that has not stopped."""
    return execute(dialect, examples, machines)[0]


def execute(dialect: Dialect, examples: Examples, machines: Machines) -> tuple[Machines, Effects]:
    """Executes one instruction of every machine that has not stopped; of the others the effects mean nothing."""
    memory, address = machines.memory, machines.address
    a, b, c = (_at(memory, address + i) for i in range(3))
    value = jnp.where(machines.inputs_read < SLOTS, _at(examples.inputs, machines.inputs_read), 0)
    minuend = jnp.where(a == dialect.in_address, value, _at(memory, a))
    subtrahend = jnp.where(b == dialect.in_address, value, _at(memory, b))
    result = minuend - subtrahend
    word = jnp.where(result < 0, result + dialect.word_size, result)
    jumps = (word == 0) | (2 * word >= dialect.word_size) if dialect.signed else result <= 0

    runs = running(dialect, machines)
    is_out = runs & (a == dialect.out_address)
    is_right = is_out & (word == _at(examples.wanted, machines.num_right))
    num_right = machines.num_right + is_right
    reads = runs & ((a == dialect.in_address) | (b == dialect.in_address))
    target = jnp.minimum(jnp.where(jumps, c, address + 3), dialect.in_address)
    target = jnp.where(is_out & ~is_right, dialect.out_address, target)
    target = jnp.where(is_right & (num_right == examples.num_wanted), dialect.halt_address, target)
    written = jnp.where(runs & (a < dialect.in_address), a, dialect.word_size)
    here = jnp.arange(dialect.word_size, dtype=jnp.int32)[None] == written[:, None]
    after = Machines(
        memory=jnp.where(here, word.astype(jnp.uint8)[:, None], memory),
        address=jnp.where(runs, target, address),
        inputs_read=jnp.minimum(machines.inputs_read + reads, SLOTS),
        num_right=num_right,
        wrong=jnp.where(is_out & ~is_right, word, machines.wrong),
    )
    return after, Effects(word, reads, is_out)


def running(dialect: Dialect, machines: Machines) -> Bool[Array, "B"]:
    return machines.address <= dialect.last_start


def stop_repeated(dialect: Dialect, machines: Machines, earlier: Machines) -> Machines:
    """Ends the machines whose state equals the earlier one: they would loop until the cap."""
    repeated = (
        running(dialect, machines)
        & (machines.address == earlier.address)
        & (machines.inputs_read == earlier.inputs_read)
        & (machines.num_right == earlier.num_right)
        & jnp.all(machines.memory == earlier.memory, axis=1)
    )
    return machines.replace(address=jnp.where(repeated, dialect.in_address, machines.address))


def solved(dialect: Dialect, machines: Machines) -> Bool[Array, "B"]:
    return machines.address == dialect.halt_address


def make_interpreter(dialect: Dialect) -> Interpreter[Examples, Machines]:
    return Interpreter(
        step=partial(step, dialect),
        running=partial(running, dialect),
        stop_repeated=partial(stop_repeated, dialect),
        steps_per_round=2,
    )


def _at(rows: UInt8[Array, "B L"], index: Int[Array, "B"]) -> Int[Array, "B"]:
    """One byte of each row. An index past the end belongs to a machine whose result is dropped."""
    found = jnp.take_along_axis(rows, index[:, None], axis=1, mode="clip")
    return found[:, 0].astype(jnp.int32)
