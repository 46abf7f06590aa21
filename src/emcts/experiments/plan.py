"""What a sweep will take before it begins: steps, time and disk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax

from emcts.experiments.rates import steps_per_second
from emcts.experiments.sweep import WHEN_SAVED, Job
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue


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


def plan_of(
    jobs: Sequence[Job], catalogue: Catalogue, device: str, *, timed: Callable[[Job], float] | None = None
) -> list[Planned]:
    """One line for each run. `timed` is asked how fast the runs of a row are where nobody measured it."""
    sizes: dict[str, int] = {}
    speeds: dict[str, float] = {}
    planned = []
    for job in jobs:
        row = job.row.name
        left = 0 if job.is_over else (job.total_env_steps - job.env_steps) * len(job.seeds)
        speed = steps_per_second(job, device, job.row.settings(catalogue))
        if speed is None and left and timed is not None:
            if row not in speeds:
                speeds[row] = timed(job)
            speed = speeds[row]
        if row not in sizes:
            sizes[row] = _state_bytes(job, catalogue)
        planned.append(Planned(job, left, speed, sizes[row] * len(job.seeds) * _kept_checkpoints()))
    return planned


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
