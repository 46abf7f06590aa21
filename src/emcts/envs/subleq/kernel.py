"""The packed interpreter as one GPU kernel: machines stay in registers until the last of a block stopped."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from emcts.envs.subleq import packed, rounds

MACHINES_PER_BLOCK = (
    32  # one warp: the vote on "all done" needs no shared memory, and few lanes wait for the slowest
)


def run(
    interpreter: rounds.Interpreter,
    task: packed.Task,
    machine: packed.Registers,
    *,
    block: int = MACHINES_PER_BLOCK,
    interpret: bool = False,
) -> packed.Registers:
    """Equal to `rounds.run` of the packed interpreter. `block` must be a power of two."""
    size = machine[0].shape[0]
    padding = -size % block
    low, high = (
        jnp.pad(machine[0], (0, padding)),
        jnp.pad(machine[1], (0, padding), constant_values=packed.STOPPED),
    )
    rows = [low, high, *(jnp.pad(part, (0, padding)) for part in task)]
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


def _kernel(interpreter: rounds.Interpreter, low_ref: Any, high_ref: Any, *refs: Any) -> None:
    *task_refs, low_out, high_out = refs
    task = tuple(ref[...] for ref in task_refs)
    machine = low_ref[...], high_ref[...]

    def runs(carry: rounds.Carry) -> jax.Array:
        count, machines, _ = carry
        return interpreter.more_rounds(count) & (jnp.max(interpreter.running(machines).astype(jnp.int32)) > 0)

    _, (low, high), _ = lax.while_loop(
        runs, lambda carry: rounds.one_round(interpreter, task, carry), (jnp.int32(0), machine, machine)
    )
    low_out[...] = low
    high_out[...] = high
