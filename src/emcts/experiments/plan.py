"""What a sweep will take before it begins: steps, time and disk."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax

from emcts.experiments.rates import steps_per_second
from emcts.experiments.sweep import WHEN_SAVED, Catalogue, Job
from emcts.runs.provenance import provenance


@dataclass(frozen=True)
class Planned:
    """One run: the steps that are left, of all seeds; how fast they go, if that was measured; and its checkpoints."""

    job: Job
    steps_left: int
    steps_per_second: float | None
    disk_bytes: int

    @property
    def seconds(self) -> float | None:
        if not self.steps_left:
            return 0.0
        return None if self.steps_per_second is None else self.steps_left / self.steps_per_second


def plan_of(jobs: Sequence[Job], catalogue: Catalogue, device: str) -> list[Planned]:
    sizes: dict[str, int] = {}
    for job in jobs:
        if job.row.name not in sizes:
            sizes[job.row.name] = _state_bytes(job, catalogue)
    return [
        Planned(
            job,
            0 if job.is_over else (job.total_env_steps - job.env_steps) * len(job.seeds),
            steps_per_second(job, device, job.row.settings(catalogue)),
            sizes[job.row.name] * len(job.seeds) * _kept_checkpoints(),
        )
        for job in jobs
    ]


def this_device() -> tuple[str, str]:
    """The kind of device, as sweeps know it, and its name, as runs write it down."""
    kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
    return kind, provenance("")["device"]


def _state_bytes(job: Job, catalogue: Catalogue) -> int:
    """Of one seed, without making it."""
    trainer = catalogue.trainer(
        job.row.environment, job.row.agent, job.row.settings(catalogue), job.seeds[:1]
    )
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(trainer.init)))


def _kept_checkpoints() -> int:
    """The last ones, the best, and one that is being written."""
    return WHEN_SAVED.keep + 2
