"""Programs of training are large and run for moments here: compiling them quickly, and once, is what matters."""

import os
from collections.abc import Iterator

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture(autouse=True, scope="package")
def compile_quickly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A run that is resumed, or trained with other seeds, is the same program: it is then read, not compiled."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # by all workers
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_compilation_cache_dir", str(shared / "compiled"))
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
