"""The resources that a run takes of a machine that it shares with other runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GPU_MEMORY = 0.9  # the share for all runs together: each has a CUDA context besides


@dataclass(frozen=True)
class Resources:
    """The resources of a run. None: a whole GPU where the machine has one, and one CPU."""

    runs_per_gpu: int | None = None
    cpus_per_run: int | None = None

    def __post_init__(self) -> None:
        for name in ("runs_per_gpu", "cpus_per_run"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise ValueError(f"--{name.replace('_', '-')} {given}: give at least 1")

    @property
    def cpus(self) -> int:
        return self.cpus_per_run or 1

    @property
    def gpu(self) -> float:
        """The share of a GPU, rounded down to Ray's resolution: six sixths must not be more than a whole."""
        return math.floor(10_000 / (self.runs_per_gpu or 1)) / 10_000

    def env_vars(self) -> dict[str, str]:
        """Returns environment variables that keep JAX within these resources."""
        threads = {"NPROC": str(self.cpus)}  # the size of XLA's thread pools
        if self.runs_per_gpu in (None, 1):
            return threads
        memory = f"{GPU_MEMORY / self.runs_per_gpu:.3f}"
        # JAX refuses the old name of this variable beside the new one.
        return {**threads, "XLA_CLIENT_MEM_FRACTION": memory, "XLA_PYTHON_CLIENT_MEM_FRACTION": ""}

    def ray_options(self, machines: Sequence[Mapping[str, float]], gpus: bool) -> dict[str, int | float]:
        """Returns the options of a Ray task. Resources that no machine has are refused: the runs would never start."""
        if self.runs_per_gpu is not None and not gpus:
            raise ValueError(
                f"--runs-per-gpu {self.runs_per_gpu}: Ray sees no GPU; --cpus-per-run is for CPUs"
            )
        fitting = [one for one in machines if one.get("GPU", 0) > 0 or not gpus]
        most = int(max((one.get("CPU", 0) for one in fitting), default=0))
        if most < self.cpus:
            raise ValueError(
                f"each run takes {self.cpus} CPUs, but no machine has more than {most} to give: "
                "lower --cpus-per-run"
            )
        return {"num_cpus": self.cpus, "num_gpus": self.gpu if gpus else 0}
