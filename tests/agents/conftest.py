"""Fixtures for tests that train."""

from collections.abc import Iterator

import jax
import pytest
from jax.experimental.key_reuse import _core as key_reuse


@pytest.fixture
def key_reuse_checked() -> Iterator[None]:
    """Raises `KeyReuseError` where a program uses a random key twice.

    JAX checks each program when it is traced, through `jit`, `vmap`, `scan`, `cond`, `while_loop` and `shard_map`. It
    takes a transposed array of keys, which `vmap` over a `scan` makes, for a used one, and has to be told. It does not
    see what `fold_in` returns twice: `test_keys.py` does. Environments of pgx keep a key in their state, and stepping
    twice from one state uses it twice, as it should: MinAtar is not checked.
    """
    transpose = key_reuse.KeyReuseSignature(key_reuse.Forward(0, 0))
    with pytest.MonkeyPatch.context() as patch, jax.debug_key_reuse(True):
        patch.setitem(key_reuse.key_reuse_signatures, jax.lax.transpose_p, transpose)
        yield
