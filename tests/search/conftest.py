"""Searches are small here and compiled often: compiling quickly matters more than running quickly."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def compile_quickly() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
