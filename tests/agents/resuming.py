"""Holds a run that was saved and restored to one that never stopped."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from emcts.runs.trainer import Progress

from emcts.runs.checkpoints import Checkpoints
from emcts.training.seeds import SeedTrainer
from tests.agents.tiny import advanced


def assert_equal(one: Any, two: Any, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Leaf by leaf; keys as what they are made of."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def assert_resumes(sea: SeedTrainer, folder: Path) -> list[Progress]:
    """After one chunk, for two more; returns what those two reported."""
    state, _ = advanced(sea, sea.init(), 1)
    checkpoints = Checkpoints(folder / "checkpoints")
    checkpoints.save(state, 100)
    state, reports = advanced(sea, state, 2)
    restored = checkpoints.restore(jax.eval_shape(sea.init))
    assert restored is not None
    resumed, later = advanced(sea, restored.state, 2)
    assert_equal(state, resumed)
    for one, two in zip(reports, later, strict=True):
        assert (one.env_steps, one.train_steps) == (two.env_steps, two.train_steps)
        assert one.metrics.keys() == two.metrics.keys()
        for name, values in one.metrics.items():
            np.testing.assert_array_equal(values, two.metrics[name], err_msg=name)
    return reports
