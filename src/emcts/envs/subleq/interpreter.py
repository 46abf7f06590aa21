"""The loop around one instruction: run a batch of machines until each has stopped or hit the cap.

Two things make it fast. Most programs loop for ever within a few instructions: a machine whose state equals that at an
earlier check is stopped. And a batch does not wait for its slowest machine: whenever few enough machines still run, the
loop continues with a smaller batch of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from emcts.envs.subleq.execution import MAX_CYCLES

SHRINK = 4  # the batch shrinks when no more than one in four machines still runs
SMALLEST_BATCH = 256  # below it shrinking costs more than it saves

MachinesT = TypeVar("MachinesT")  # a pytree of arrays [B, ...]
ExamplesT = TypeVar("ExamplesT")  # a pytree of arrays [B, ...] that stay as they are while the machines run
# Rounds done, the machines, and the machines at an earlier round.
Carry = tuple[Int[Array, ""], MachinesT, MachinesT]


@dataclass(frozen=True)
class Interpreter(Generic[ExamplesT, MachinesT]):
    """One instruction, and the tests whether a machine still runs or repeats an earlier state."""

    step: Callable[[ExamplesT, MachinesT], MachinesT]
    running: Callable[[MachinesT], Bool[Array, "B"]]
    stop_repeated: Callable[[MachinesT, MachinesT], MachinesT]
    steps_per_round: int  # a divisor of MAX_CYCLES; more means fewer checks, and longer compilation

    def more_rounds(self, count: Int[Array, ""]) -> Bool[Array, ""]:
        return count < MAX_CYCLES // self.steps_per_round


def run(
    interpreter: Interpreter[ExamplesT, MachinesT], examples: ExamplesT, machines: MachinesT
) -> MachinesT:
    """The machines as they stopped, or as they were after `MAX_CYCLES` instructions."""
    carry = (jnp.int32(0), machines, machines)
    return _run(interpreter, examples, carry)


def run_round(
    interpreter: Interpreter[ExamplesT, MachinesT], examples: ExamplesT, carry: Carry[MachinesT]
) -> Carry[MachinesT]:
    """A few instructions, and a comparison with the last of the rounds 0, 1, 2, 4, 8, ... (Brent's rule)."""
    count, machines, earlier = carry
    for _ in range(interpreter.steps_per_round):
        machines = interpreter.step(examples, machines)
    machines = interpreter.stop_repeated(machines, earlier)
    count = count + 1
    replace = (count & (count - 1)) == 0
    earlier = jax.tree.map(
        lambda new, old: jnp.where(jnp.broadcast_to(replace, new.shape), new, old), machines, earlier
    )
    return count, machines, earlier


def _run(
    interpreter: Interpreter[ExamplesT, MachinesT], examples: ExamplesT, carry: Carry[MachinesT]
) -> MachinesT:
    size = interpreter.running(carry[1]).shape[0]
    room = size // SHRINK if size >= SHRINK * SMALLEST_BATCH else 0
    count, machines, earlier = lax.while_loop(
        lambda c: interpreter.more_rounds(c[0]) & (jnp.sum(interpreter.running(c[1])) > room),
        lambda c: run_round(interpreter, examples, c),
        carry,
    )
    if room == 0:
        return machines
    running = interpreter.running(machines)
    place = _places(running, room)
    some_examples, some, some_earlier = jax.tree.map(lambda x: x[place], (examples, machines, earlier))
    stopped = _run(interpreter, some_examples, (count, some, some_earlier))
    return jax.tree.map(lambda whole, part: whole.at[place].set(part), machines, stopped)


def _places(running: Bool[Array, "B"], room: int) -> Int[Array, "R"]:
    """The indices of running machines, in `room` slots. A slot left over has one that stopped, and stays so.

    `jnp.nonzero` does the same, and takes twice as long to compile.
    """
    size = running.shape[0]
    slot = jnp.where(running, jnp.cumsum(running.astype(jnp.int32)) - 1, room)
    places = jnp.full(room, jnp.argmin(running), jnp.int32)
    return places.at[slot].set(jnp.arange(size, dtype=jnp.int32), mode="drop")
