from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs.subleq import interpreter, packed


def random_machines(size: int) -> tuple[packed.Examples, packed.Registers]:
    rng = np.random.default_rng(size)
    programs = jnp.asarray(rng.choice([0, 1, 2, 3, 6, 9, 12, 13, 14, 15], (size, 13)), jnp.uint8)
    inputs = jnp.asarray(rng.integers(0, 16, (size, 8)), jnp.uint8)
    wanted = (16 - inputs) % 16  # what `14 13` writes, so that some machines get far
    programs = programs.at[: size // 4, :2].set(jnp.array([14, 13], jnp.uint8)[None])
    num_wanted = jnp.asarray(rng.integers(1, 9, size), jnp.uint32)
    active = jnp.asarray(rng.random(size) < 0.9)
    return (packed.pack(inputs), packed.pack(wanted), num_wanted), packed.load(programs, active)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("size", "block"), [(1, 32), (200, 32), (256, 64)])
def test_interpreted_kernel_equals_the_plain_loop(size, block, signed):
    examples, registers = random_machines(size)
    instructions = packed.make_interpreter(signed)
    plain = interpreter.run(instructions, examples, registers)
    for ours, theirs in zip(
        packed.run_kernel(instructions, examples, registers, block=block, interpret=True), plain, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    if size > 1:
        assert 0 < int(packed.solved(plain).sum()) < size


@pytest.mark.parametrize("signed", [False, True])
def test_kernel_lowers_to_triton_without_a_gpu(signed):
    examples, registers = random_machines(100)
    run = jax.jit(partial(packed.run_kernel, packed.make_interpreter(signed)))
    lowered = run.trace(examples, registers).lower(lowering_platforms=("cuda",)).as_text()
    assert "subleq_16" in lowered
    assert "triton" in lowered


@pytest.mark.gpu
def test_kernel_equals_the_plain_loop_on_a_gpu():
    examples, registers = random_machines(20_000)
    instructions = packed.make_interpreter(False)
    plain = jax.jit(partial(interpreter.run, instructions))(examples, registers)
    for ours, theirs in zip(
        jax.jit(partial(packed.run_kernel, instructions))(examples, registers), plain, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
