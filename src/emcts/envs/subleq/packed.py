"""SUBLEQ-16 in two uint32 per machine: no gather, no scatter, one vector operation for a whole batch.

Thirteen of the sixteen 4-bit words can be written. The room of the other three, always 0, holds the rest of
the machine, so that two machines are in the same state exactly if both of their registers are equal:

    low   words 0 to 7
    high  words 8 to 12 (20 bits), address (4), inputs read (4), right outputs (4)

An address past 12 says how the machine ended; `low` then keeps the wrong word, if there was one. The same functions run
in plain JAX and in a Pallas kernel (`run_kernel`), which is why they use shifts and selects alone.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Int, UInt8, UInt32

from emcts.envs.subleq.dialect import SLOTS
from emcts.envs.subleq.interpreter import Carry, Interpreter, run_round

triton: Any
try:
    from jax.experimental.pallas import triton
except ImportError:  # JAX has announced that it will remove this backend: programs then run in plain JAX
    triton = None

ENDED = 13  # the addresses of machines that stopped: neither of the following,
FAILED = 14  # a wrong output,
SOLVED = 15  # the wanted output
MACHINES_PER_BLOCK = (
    32  # one warp: the vote on "all done" needs no shared memory, and few threads wait for the slowest
)

_IN, _OUT = 13, 14
_WORDS = 0xFFFFF
_ADDRESS = 20
_READ = 24
_RIGHT = 28
_NOT_ADDRESS = 0xFF0FFFFF

STOPPED = ENDED << _ADDRESS  # the high register of a machine that has ended, with nothing read or written

Register = UInt32[Array, "B"]
Registers = tuple[Register, Register]  # low, high
Examples = tuple[Register, Register, Register]  # the inputs, the wanted outputs, and how many are wanted


def pack(words: UInt8[Array, "B W"]) -> Register:
    """Up to eight words of 4 bits in one register, the first word lowest."""
    packed = jnp.zeros(words.shape[0], jnp.uint32)
    for place in range(words.shape[1]):
        packed = packed | (words[:, place].astype(jnp.uint32) << (4 * place))
    return packed


def load(programs: UInt8[Array, "B W"], active: Bool[Array, "B"]) -> Registers:
    """Machines at address 0. Those that are not active have already ended."""
    high = pack(programs[:, 8:])
    return pack(programs[:, :8]), jnp.where(active, high, high | STOPPED)


class Effects(NamedTuple):
    """What an instruction of each machine does: its result, and whether it reads IN or writes to OUT."""

    word: Register
    reads: Bool[Array, "B"]
    is_out: Bool[Array, "B"]


def step(signed: bool, examples: Examples, machine: Registers) -> Registers:
    """Executes one instruction of every machine that has not stopped."""
    return execute(signed, examples, machine)[0]


def execute(signed: bool, examples: Examples, machine: Registers) -> tuple[Registers, Effects]:
    """Executes one instruction of every machine that has not stopped; of the others the effects mean nothing."""
    (inputs, wanted, num_wanted), (low, high) = examples, machine
    address, read, right = (high >> _ADDRESS) & 15, (high >> _READ) & 15, high >> _RIGHT
    a, b, c = _fetch(low, high, address)
    # Two shifts, because one by 32 is undefined in a kernel; eight inputs on, both leave 0.
    value = ((inputs >> (2 * read)) >> (2 * read)) & 15
    seen = (high & _WORDS) | (value << 4 * (_IN - 8))
    minuend, subtrahend = _word(low, seen, a), _word(low, seen, b)
    word = (minuend - subtrahend) & 15
    jumps = ((word - 1) & 15) >= 7 if signed else minuend <= subtrahend

    is_out = a == _OUT
    is_right = word == ((wanted >> ((right & 7) << 2)) & 15)
    patch = (word ^ minuend) << ((a & 7) << 2)
    new_low = jnp.where(a < 8, low ^ patch, low)
    new_high = jnp.where((a >= 8) & (a < _IN), high ^ patch, high) & _WORDS
    new_right = right + (is_out & is_right).astype(jnp.uint32)
    reads = (a == _IN) | (b == _IN)
    new_read = jnp.minimum(read + reads.astype(jnp.uint32), SLOTS)
    target = jnp.minimum(jnp.where(jumps, c, address + 3), ENDED)
    after_right = jnp.where(new_right == num_wanted, jnp.uint32(SOLVED), target)
    target = jnp.where(is_out, jnp.where(is_right, after_right, jnp.uint32(FAILED)), target)

    new_low = jnp.where(is_out & ~is_right, word, new_low)
    new_high = new_high | (target << _ADDRESS) | (new_read << _READ) | (new_right << _RIGHT)
    runs = address < ENDED
    after = jnp.where(runs, new_low, low), jnp.where(runs, new_high, high)
    return after, Effects(word, reads, is_out)


def running(machine: Registers) -> Bool[Array, "B"]:
    return ((machine[1] >> _ADDRESS) & 15) < ENDED


def stop_repeated(machine: Registers, earlier: Registers) -> Registers:
    """Ends the machines whose state equals the earlier one: they would loop until the cap."""
    low, high = machine
    repeated = (low == earlier[0]) & (high == earlier[1]) & running(machine)
    return low, jnp.where(repeated, (high & jnp.uint32(_NOT_ADDRESS)) | jnp.uint32(STOPPED), high)


def inputs_read(machine: Registers) -> Int[Array, "B"]:
    """The number of reads of IN, up to eight; past the end of the input it reads 0."""
    return ((machine[1] >> _READ) & 15).astype(jnp.int32)


def num_right(machine: Registers) -> Int[Array, "B"]:
    return (machine[1] >> _RIGHT).astype(jnp.int32)


def wrong(machine: Registers) -> Int[Array, "B"]:
    """The output that was wrong, -1 where there is none."""
    low, high = machine
    return jnp.where(((high >> _ADDRESS) & 15) == FAILED, low.astype(jnp.int32), -1)


def solved(machine: Registers) -> Bool[Array, "B"]:
    return ((machine[1] >> _ADDRESS) & 15) == SOLVED


@cache
def make_interpreter(signed: bool) -> Interpreter[Examples, Registers]:
    return Interpreter(partial(step, signed), running, stop_repeated, steps_per_round=4)


def run_kernel(
    interpreter: Interpreter[Examples, Registers],
    examples: Examples,
    machine: Registers,
    *,
    block: int = MACHINES_PER_BLOCK,
    interpret: bool = False,
) -> Registers:
    """Equal to `interpreter.run`, as one GPU kernel: machines stay in registers until the last of a block stopped.

    `block` must be a power of two.
    """
    size = machine[0].shape[0]
    padding = -size % block
    low, high = (
        jnp.pad(machine[0], (0, padding)),
        jnp.pad(machine[1], (0, padding), constant_values=STOPPED),
    )
    rows = [low, high, *(jnp.pad(part, (0, padding)) for part in examples)]
    spec = pl.BlockSpec((block,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct((size + padding,), jnp.uint32)
    low, high = pl.pallas_call(
        partial(_kernel, interpreter),
        grid=((size + padding) // block,),
        in_specs=[spec] * len(rows),
        out_specs=[spec, spec],
        out_shape=[shape, shape],
        compiler_params=triton.CompilerParams(num_warps=max(1, block // 32), num_stages=1),
        interpret=interpret,
        name="subleq_16",
    )(*rows)
    return low[:size], high[:size]


def _fetch(low: Register, high: Register, address: Register) -> tuple[Register, Register, Register]:
    """The three words from `address` on: a shift of both registers as one of 64 bits."""
    shift = (address & 7) << 2
    in_low = address < 8
    first, second = jnp.where(in_low, low, high & _WORDS), jnp.where(in_low, high & _WORDS, jnp.uint32(0))
    words = (first >> shift) | ((second << 1) << (31 - shift))
    return words & 15, (words >> 4) & 15, (words >> 8) & 15


def _word(low: Register, high: Register, address: Register) -> Register:
    return (jnp.where(address < 8, low, high) >> ((address & 7) << 2)) & 15


def _kernel(interpreter: Interpreter[Examples, Registers], *refs: jax.Ref) -> None:
    low_ref, high_ref, inputs, wanted, num_wanted, low_out, high_out = refs
    examples = inputs[...], wanted[...], num_wanted[...]
    machine = low_ref[...], high_ref[...]

    def runs(carry: Carry[Registers]) -> jax.Array:
        count, machines, _ = carry
        return interpreter.more_rounds(count) & (jnp.max(interpreter.running(machines).astype(jnp.int32)) > 0)

    _, (low, high), _ = lax.while_loop(
        runs, lambda carry: run_round(interpreter, examples, carry), (jnp.int32(0), machine, machine)
    )
    low_out[...] = low
    high_out[...] = high
