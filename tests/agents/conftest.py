"""Fixtures for tests that train."""

from collections.abc import Iterator

import jax
import pytest
from jax.experimental.key_reuse import _core as key_reuse


@pytest.fixture
def key_reuse_checked() -> Iterator[None]:
    """Raises `KeyReuseError` where a program uses a random key twice.

    JAX checks each program when it is traced, through `jit`, `vmap`, `scan`, `cond`, `while_loop` and `shard_map`. It
    mistakes a transposed array of keys, which `vmap` over a `scan` makes, for a used one: the signature below corrects
    that. It does not see two equal keys of `fold_in`: `test_random_keys.py` does. Environments of pgx store a key in
    their state, and two steps from one state use it twice, as they should: MinAtar is not checked.
    """
    transpose = key_reuse.KeyReuseSignature(key_reuse.Forward(0, 0))
    with pytest.MonkeyPatch.context() as patch, jax.debug_key_reuse(True):
        patch.setitem(key_reuse.key_reuse_signatures, jax.lax.transpose_p, transpose)
        yield
