"""Compiles several programs at the same time: a benchmark of searches waits for the compiler most of all."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax


def compile_together(
    functions: Mapping[str, Callable[..., Any]], *arguments: Any
) -> dict[str, Callable[..., Any]]:
    """Returns each function, compiled for arguments of these shapes."""
    lowered = {name: jax.jit(function).lower(*arguments) for name, function in functions.items()}
    with ThreadPoolExecutor() as pool:
        return dict(zip(lowered, pool.map(lambda one: one.compile(), lowered.values()), strict=True))
