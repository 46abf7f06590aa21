"""Every test runs with shapes checked at each function boundary, and with implicit rank promotion an error.

Programs are large here and run for moments. So they are compiled with little effort, and a program that is compiled
again, in another test, worker or process, is read instead.
"""

import os
import subprocess
import sys
import tempfile

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("emcts", "beartype.beartype")

FROM_SECONDS = 0.5  # of compiling; what takes less is compiled again sooner than it is read
# Both belong to the CPU's compiler, and together spare two thirds of its time.
QUICK_CODE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def pytest_configure(config: pytest.Config) -> None:
    """Through the environment, for all processes that start from here: workers, and commands that tests run."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    compiled = tempfile.TemporaryDirectory(prefix="emcts-compiled-")
    config.add_cleanup(compiled.cleanup)
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": compiled.name,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": str(FROM_SECONDS),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    jax.config.update("jax_compilation_cache_dir", compiled.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", FROM_SECONDS)
    jax.config.update("jax_disable_most_optimizations", True)
    flags = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_CODE}"
    if _are_known(flags):
        os.environ["XLA_FLAGS"] = flags


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest file first, so that no worker is left with it at the end."""
    items.sort(key=lambda item: item.path.name != "test_data_parallel.py")


def _are_known(flags: str) -> bool:
    """XLA ends a process that gives it a flag which its version does not have."""
    command = [sys.executable, "-c", "import jax; jax.devices('cpu')"]
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0
