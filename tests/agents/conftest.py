"""Programs of training are large and run for moments here: compiling quickly matters more than running quickly."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def compile_quickly() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
