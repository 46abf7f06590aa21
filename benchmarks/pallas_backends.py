"""Compares compilers for the kernels of a search, on the loop that a way down is (docs/notes/pallas-backend.md).

Each of many programs takes a number of steps: it loads a row of scores, and steps to the child of the largest. Needs an
NVIDIA GPU: `python -m benchmarks.pallas_backends`. `jax_triton` is tried where it is installed.
"""

import inspect
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int

PROGRAMS, NODES, ACTIONS, STEPS = 4096, 33, 16, 24
CALLS = 20
OUT = jax.ShapeDtypeStruct((PROGRAMS,), jnp.int32)

Walk = Callable[[Float[Array, "B N A"], Int[Array, "B N A"]], Int[Array, "B"]]


def plain(scores: Float[Array, "B N A"], children: Int[Array, "B N A"]) -> Int[Array, "B"]:
    programs = jnp.arange(len(scores))

    def step(_: Array, node: Array) -> Array:
        return children[programs, node, jnp.argmax(scores[programs, node], axis=-1)]

    return lax.fori_loop(0, STEPS, step, jnp.zeros(len(scores), jnp.int32))


def by_rows(load: Callable[..., Array], store: Callable[..., None]) -> Callable[..., None]:
    """Returns a kernel that loads a row of all actions at once."""

    def kernel(scores: Any, children: Any, out: Any) -> None:
        program, actions = pl.program_id(0), lax.broadcasted_iota(jnp.int32, (ACTIONS,), 0)

        def step(_: Array, node: Array) -> Array:
            row = load(scores.at[program, node, actions])
            best = jnp.min(jnp.where(row == jnp.max(row), actions, ACTIONS))
            return jnp.sum(jnp.where(actions == best, load(children.at[program, node, actions]), 0))

        root = 0 * load(children.at[program, jnp.int32(0), jnp.int32(0)])
        store(out.at[program], lax.fori_loop(0, STEPS, step, root))

    return kernel


def by_numbers(scores: Any, children: Any, out: Any) -> None:
    """Loads the actions of a row one by one."""
    program = lax.axis_index("program")

    def step(_: Array, node: Array) -> Array:
        best, child = scores[program, node, 0], children[program, node, 0]
        for action in range(1, ACTIONS):
            is_better = scores[program, node, action] > best
            best = jnp.where(is_better, scores[program, node, action], best)
            child = jnp.where(is_better, children[program, node, action], child)
        return child

    out[program] = lax.fori_loop(0, STEPS, step, jnp.int32(0))


def pallas_triton() -> Walk:
    from jax.experimental.pallas import triton

    params = triton.CompilerParams(num_warps=1)
    kernel = by_rows(triton.load, triton.store)
    return lambda *arrays: pl.pallas_call(kernel, out_shape=OUT, grid=(PROGRAMS,), compiler_params=params)(
        *arrays
    )


def mosaic_rows() -> Walk:
    from jax.experimental.pallas import mosaic_gpu, triton

    params, kernel = mosaic_gpu.CompilerParams(), by_rows(triton.load, triton.store)
    return lambda *arrays: pl.pallas_call(kernel, out_shape=OUT, grid=(PROGRAMS,), compiler_params=params)(
        *arrays
    )


def mosaic_numbers(semantics: str) -> Walk:
    from jax.experimental.pallas import mosaic_gpu

    params = mosaic_gpu.CompilerParams(lowering_semantics=mosaic_gpu.LoweringSemantics[semantics])
    out = "out_type" if "out_type" in inspect.signature(mosaic_gpu.kernel).parameters else "out_shape"
    options: dict[str, Any] = {out: OUT, "grid": (PROGRAMS,), "grid_names": ("program",)}
    return lambda *arrays: mosaic_gpu.kernel(by_numbers, compiler_params=params, **options)(*arrays)


def triton_itself() -> Walk:
    import jax_triton
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(scores, children, out, nodes: tl.constexpr, width: tl.constexpr, steps: tl.constexpr):
        program, actions, node = tl.program_id(0), tl.arange(0, width), 0
        for _ in range(steps):
            at = (program * nodes + node) * width + actions
            row = tl.load(scores + at)
            best = tl.min(tl.where(row == tl.max(row, 0), actions, width), 0)
            node = tl.sum(tl.where(actions == best, tl.load(children + at), 0), 0)
        tl.store(out + program, node)

    sizes = {"nodes": NODES, "width": ACTIONS, "steps": STEPS}
    return lambda *arrays: jax_triton.triton_call(
        *arrays, kernel=kernel, out_shape=OUT, grid=(PROGRAMS,), num_warps=1, **sizes
    )


COMPILERS: dict[str, Callable[[], Walk]] = {
    "plain JAX": lambda: plain,
    "Pallas, Triton backend": pallas_triton,
    "Pallas, Mosaic GPU, the same kernel": mosaic_rows,
    "Pallas, Mosaic GPU, single numbers": lambda: mosaic_numbers("Lane"),
    "Pallas, Mosaic GPU, single numbers, warpgroup semantics": lambda: mosaic_numbers("Warpgroup"),
    "jax_triton": triton_itself,
}


def measure(walk: Walk) -> str:
    keys = jax.random.split(jax.random.key(0))
    scores = jax.random.normal(keys[0], (PROGRAMS, NODES, ACTIONS))
    children = jax.random.randint(keys[1], scores.shape, 0, NODES)
    run = jax.jit(walk)
    before = time.perf_counter()
    found = jax.block_until_ready(run(scores, children))
    compiling, times = time.perf_counter() - before, []
    for _ in range(CALLS):
        before = time.perf_counter()
        jax.block_until_ready(run(scores, children))
        times.append(1e6 * (time.perf_counter() - before))
    verdict = "equal" if jnp.array_equal(found, plain(scores, children)) else "DIFFERENT"
    return f"{statistics.median(times):.0f} microseconds, {verdict}, first call {compiling:.1f} s"


def main() -> None:
    for name, make in COMPILERS.items():
        try:
            print(f"{name}: {measure(make())}", flush=True)
        except Exception as error:  # what a compiler refuses is a result here
            print(f"{name}: {type(error).__name__} {str(error).splitlines()[:1]}", flush=True)


if __name__ == "__main__":
    main()
