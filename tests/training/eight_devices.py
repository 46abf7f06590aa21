"""Trains small agents on eight virtual devices in several layouts, and prints what came of it as JSON."""

import dataclasses
import json
import sys
from typing import Any

import jax
import numpy as np

from emcts.agents import catalogue
from emcts.training.devices import DeviceLayout
from emcts.training.seeds import SeedTrainer

CASES: dict[str, tuple[str, str, int, tuple[str, ...]]] = {
    "counts": ("deep-sea", "e-az", 2, ("1x1", "2x1", "2x4")),
    "rnd": ("deep-sea", "e-az", 1, ("1x1", "1x4")),
    "learned": ("deep-sea", "e-mz", 1, ("1x1", "1x2")),
    "subleq": ("subleq", "e-az", 1, ("1x1", "1x8")),
}
SMALL = {
    "size": 5,
    "simulations": 4,
    "episodes": 8,
    "exploring_episodes": 4,
    "width": 8,
    "batch_size": 16,
    "updates_per_iteration": 2,
    "moves_per_iteration": 4,
    "replay_capacity": 800,
    "warm_up": 64,
    "steps_between_evaluations": 96,
    "max_words": 3,
    "hash_bits": 10,
    "latent": 8,
    "representation": (8,),
    "dynamics": (8,),
    "heads": (8,),
    "ube_head": (8,),
    "fresh_moves": 4,
    "evaluation_episodes": 1,
}
CHUNKS = 2
METRICS = ("return", "train_return", "loss", "loss_policy", "loss_ube", "uncertainty")


def trainer(name: str) -> SeedTrainer:
    environment, agent, seeds, _ = CASES[name]
    settings = catalogue.settings(environment, agent)
    names = {setting.name for setting in dataclasses.fields(settings)}
    changes: dict[str, Any] = {key: value for key, value in SMALL.items() if key in names}
    if environment == "deep-sea":
        changes["novelty"] = "rnd" if name == "rnd" else "counts"
    return catalogue.trainer(
        environment, agent, dataclasses.replace(settings, **changes), tuple(range(seeds))
    )


def told(trainer: SeedTrainer, measured: bool) -> dict[str, Any]:
    """The learning curve, and how the work and the state are shared."""
    state = trainer.init()
    shapes = [leaf.addressable_shards[0].data.shape for leaf in jax.tree.leaves(state.replay.steps)]
    alike = jax.tree.map(_is_alike, (state.networks, state.novelty))
    curve: dict[str, list[Any]] = {name: [] for name in METRICS}
    for _ in range(CHUNKS):
        state, progress = trainer.advance(state)
        for name in METRICS:
            curve[name].append(np.nan_to_num(progress.metrics[name], nan=-9.0).tolist())
    alike_after = jax.tree.map(_is_alike, (state.networks, state.novelty, state.log))
    return {
        "curve": curve,
        "flops": _flops(trainer, state) if measured else None,
        "replay": [list(shape) for shape in shapes],
        "alike": bool(all(jax.tree.leaves((alike, alike_after)))),
    }


def _flops(trainer: SeedTrainer, state: Any) -> float:
    """Of the program of one device; what is in a loop counts once."""
    flags = np.zeros(trainer.iterations_per_chunk, bool)
    compiled = trainer._advance.lower(state, flags, flags.astype(np.float32)).compile()
    return float(compiled.cost_analysis()["flops"])


def _is_alike(leaf: Any) -> bool:
    """Whether devices that have the same part of an array have the same numbers in it."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    parts: dict[str, np.ndarray] = {}
    for shard in leaf.addressable_shards:
        data = np.asarray(shard.data)
        if not np.array_equal(
            parts.setdefault(str(shard.index), data), data, equal_nan=data.dtype.kind == "f"
        ):
            return False
    return True


if __name__ == "__main__":
    results = {
        name: {
            layout: told(trainer(name).on(DeviceLayout.read(layout)), name == "subleq")
            for layout in CASES[name][3]
        }
        for name in sys.argv[1:] or CASES
    }
    print(json.dumps(results))
