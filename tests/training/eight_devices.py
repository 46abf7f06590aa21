"""Trains small agents on eight virtual devices in several layouts, and prints the results as JSON."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from emcts.agents.catalogue import Registered
from emcts.runs.config import flat, override, plain
from emcts.training.devices import DeviceLayout
from emcts.training.seeds import SeedTrainer


@dataclass(frozen=True)
class Case:
    """An agent, and the layouts to train it in. The first is one device."""

    environment: str
    agent: str
    num_seeds: int
    layouts: tuple[str, ...]
    preset: str = "default"
    changes: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    # At 5 x 5 rounding decides between two actions of a target.
    "counts": Case("deep-sea", "e-az", 2, ("1x1", "2x4"), changes={"env.size": 6}),
    "learned model, rnd": Case("deep-sea", "e-mz", 1, ("1x1", "1x2"), preset="anchored"),
    "subleq": Case("subleq", "e-az", 1, ("1x1", "1x8")),
}
SMALL: dict[str, Any] = {
    "env.size": 5,
    "env.max_words": 3,
    "search.simulations": 4,
    "schedule.num_envs": 8,
    "exploration.num_exploiting": 4,
    "model.width": 8,
    "model.latent": 8,
    "model.representation": (8,),
    "model.dynamics": (8,),
    "model.heads": (8,),
    "model.ube_head": (8,),
    "replay.batch_size": 16,
    "replay.capacity": 800,
    "replay.recent": 4,
    "schedule.updates": 2,
    "schedule.rollout_length": 4,
    "schedule.warmup_steps": 64,
    "novelty.hash_bits": 10,
    "novelty.rnd_width": 64,
    "evaluation.every": 96,
    "evaluation.episodes": 1,
}
CHUNKS = 2
METRICS = ("return", "train_return", "loss", "loss_policy", "loss_ube", "uncertainty")


def trainer(case: Case) -> SeedTrainer[Any]:
    catalogue = Registered()
    settings = catalogue.settings(case.environment, case.agent, case.preset)
    paths = dict(flat(plain(settings)))
    changes = {path: value for path, value in {**SMALL, **case.changes}.items() if path in paths}
    seeds = tuple(range(case.num_seeds))
    return catalogue.trainer(case.environment, case.agent, override(settings, changes), seeds)


def results_of(trainer: SeedTrainer[Any], measured: bool) -> dict[str, Any]:
    """Returns the learning curve, and how the work and the state are sharded."""
    state = trainer.init()
    shapes = [leaf.addressable_shards[0].data.shape for leaf in jax.tree.leaves(state.replay.transitions)]
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


def _flops(trainer: SeedTrainer[Any], state: Any) -> float:
    """Returns the flops of the program of one device; the body of a loop counts once."""
    programs = [compiled() for compiled in trainer.compilations(state).values()]
    costs: list[Any] = [program.cost_analysis() for program in programs]
    return float(sum(cost["flops"] for cost in costs))


def _is_alike(leaf: Any) -> bool:
    """Returns whether devices with the same shard of an array have the same numbers in it."""
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
            layout: results_of(trainer(CASES[name]).on(DeviceLayout.parse(layout)), name == "subleq")
            for layout in CASES[name].layouts
        }
        for name in sys.argv[1:] or CASES
    }
    print(json.dumps(results))
