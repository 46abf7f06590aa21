"""The loop around an interpreter: run a batch of machines until each has stopped or hit the cap.

Two things make it fast. Most programs loop for ever, and show it within a few instructions: a machine that is
where it was at an earlier check is stopped. And a batch must not wait for its slowest: whenever few enough
machines still run, they move to a smaller batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from emcts.envs.subleq.execution import MAX_CYCLES

SHRINK = 4  # survivors move when no more than one in four machines still runs
SMALLEST_BATCH = 256  # below it moving costs more than it saves

Machines = Any  # a pytree of arrays [B, ...]
Tasks = Any  # a pytree of arrays [B, ...] that stay as they are while the machines run
Carry = tuple[
    Int[Array, ""], Machines, Machines
]  # rounds done, the machines, and the machines at an earlier round


@dataclass(frozen=True)
class Interpreter:
    """One instruction, and how to tell that a machine has stopped or goes round in circles."""

    step: Callable[[Tasks, Machines], Machines]
    running: Callable[[Machines], Bool[Array, "B"]]
    stop_repeated: Callable[[Machines, Machines], Machines]
    steps_per_round: int  # a divisor of MAX_CYCLES; more means fewer checks, and longer compilation

    def more_rounds(self, count: Int[Array, ""]) -> Bool[Array, ""]:
        return count < MAX_CYCLES // self.steps_per_round


def run(interpreter: Interpreter, tasks: Tasks, machines: Machines) -> Machines:
    """The machines as they stopped, or as they were after `MAX_CYCLES` instructions."""
    carry = (jnp.int32(0), machines, machines)
    return _run(interpreter, tasks, carry)


def one_round(interpreter: Interpreter, tasks: Tasks, carry: Carry) -> Carry:
    """A few instructions, and a look back to round 0, 1, 2, 4, 8, ... whichever was last (Brent's rule)."""
    count, machines, earlier = carry
    for _ in range(interpreter.steps_per_round):
        machines = interpreter.step(tasks, machines)
    machines = interpreter.stop_repeated(machines, earlier)
    count = count + 1
    move = (count & (count - 1)) == 0
    earlier = jax.tree.map(
        lambda new, old: jnp.where(jnp.broadcast_to(move, new.shape), new, old), machines, earlier
    )
    return count, machines, earlier


def _run(interpreter: Interpreter, tasks: Tasks, carry: Carry) -> Machines:
    size = interpreter.running(carry[1]).shape[0]
    room = size // SHRINK if size >= SHRINK * SMALLEST_BATCH else 0
    count, machines, earlier = lax.while_loop(
        lambda c: interpreter.more_rounds(c[0]) & (jnp.sum(interpreter.running(c[1])) > room),
        lambda c: one_round(interpreter, tasks, c),
        carry,
    )
    if room == 0:
        return machines
    running = interpreter.running(machines)
    place = _places(running, room)
    moved_tasks, moved, moved_earlier = jax.tree.map(lambda x: x[place], (tasks, machines, earlier))
    stopped = _run(interpreter, moved_tasks, (count, moved, moved_earlier))
    return jax.tree.map(lambda whole, part: whole.at[place].set(part), machines, stopped)


def _places(running: Bool[Array, "B"], room: int) -> Int[Array, "R"]:
    """Where machines run, in `room` slots. A slot left over names one that has stopped, which stays as it is.

    `jnp.nonzero` does the same, and takes twice as long to compile.
    """
    size = running.shape[0]
    slot = jnp.where(running, jnp.cumsum(running.astype(jnp.int32)) - 1, room)
    places = jnp.full(room, jnp.argmin(running), jnp.int32)
    return places.at[slot].set(jnp.arange(size, dtype=jnp.int32), mode="drop")
