"""How fast training goes on this machine: as runs of the sweep or the benchmark have shown, or timed for this."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from emcts.experiments.sweep import SPACING, Job, folders_of
from emcts.runs.folder import Folder
from emcts.training.catalogue import Catalogue

BENCHMARKS = Path(__file__).parents[3] / "docs" / "results"


def steps_per_second(job: Job, device: str, settings: Any) -> float | None:
    """Of all seeds together; None if nobody measured it."""
    measured = _of_runs(folders_of(job.row, job.path.parent), device)
    return measured if measured is not None else _of_benchmarks(job, device, settings)


def timed(job: Job, catalogue: Catalogue) -> float:
    """The steps a second, of all seeds together, of a run that is thrown away once it has learned for a moment.

    It evaluates four times as often as the real one, so that this does not take long; that makes it a little slower.
    """
    settings = job.row.settings(catalogue)
    if hasattr(settings, SPACING):
        settings = dataclasses.replace(settings, **{SPACING: max(1, getattr(settings, SPACING) // 4)})
    trainer = catalogue.trainer(job.row.environment, job.row.agent, settings, job.seeds)
    state, progress = trainer.advance(trainer.init())
    while not progress.train_steps and progress.env_steps < job.total_env_steps:
        state, progress = trainer.advance(state)
    before, began = progress.env_steps, perf_counter()
    _, progress = trainer.advance(state)
    return len(job.seeds) * (progress.env_steps - before) / (perf_counter() - began)


def _of_runs(folders: Iterable[Folder], device: str) -> float | None:
    """The slowest of the row's runs on such a device. Compilation counts: it is part of the time."""
    rates = []
    for folder in folders:
        summary = folder.summary()
        seconds = max((seed["seconds"] for seed in summary.get("seeds", [])), default=0.0)
        if summary.get("device") == device and seconds > 0:
            rates.append(sum(seed["env_steps"] for seed in summary["seeds"]) / seconds)
    return min(rates, default=None)


def _of_benchmarks(job: Job, device: str, settings: Any) -> float | None:
    size = getattr(settings, "size", None)
    case = job.row.environment if size is None else f"{job.row.environment} {size} x {size}"
    fitting = [
        one
        for one in _cases(device)
        if one["case"] == case and one["agent"] == job.row.agent and _is_like(one, job)
    ]
    nearest = min(fitting, key=lambda one: abs(one["seeds"] - len(job.seeds)), default=None)
    return None if nearest is None else nearest["steps_per_second"]


def _is_like(case: Mapping[str, Any], job: Job) -> bool:
    """RND costs more than the counts of the default preset, so its speed says nothing here."""
    return case["preset"] != "default" or job.row.changes.get("novelty", "counts") == "counts"


def _cases(device: str) -> list[Mapping[str, Any]]:
    files = sorted(BENCHMARKS.glob("train-*.json"))
    results = [json.loads(file.read_text()) for file in files]
    return [case for result in results if result["device"] == device for case in result["cases"]]
