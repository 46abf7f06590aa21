"""Maps of a grid environment at several steps of the training, in `maps.npz`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Float, Int

from emcts.runs.files import replace_atomically
from emcts.runs.logging.metrics import Value

SNAPSHOTS = 16  # over a whole run, besides those of moments
MOMENTS = {"first_reward_step": "first reward", "solved_step": "solved"}
"""Metrics that are the step at which something first happened to a seed, after which maps are taken."""


@dataclass(frozen=True)
class MapHistory:
    """Maps by name, for each snapshot and seed. An environment without a grid has no maps, and no file is written."""

    file: Path
    env_steps: Int[np.ndarray, "T"]
    maps: Mapping[str, Float[np.ndarray, "T S N N"]]

    @classmethod
    def read(cls, file: Path, until: int | None = None) -> "MapHistory":
        """Returns the snapshots of a file up to a step; none if there is no file."""
        if not file.exists():
            return cls(file, np.zeros(0, int), {})
        try:
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            env_steps = _checked(arrays)
        except Exception as error:  # zipfile, zlib and numpy raise many kinds
            raise ValueError(
                f"{file} cannot be read ({type(error).__name__}): remove it; the run keeps everything else"
            ) from error
        kept = env_steps <= (env_steps.max(initial=0) if until is None else until)
        return cls(file, env_steps[kept], {name: values[kept] for name, values in arrays.items()})

    def is_due(self, env_steps: int, total: int, moments: Iterable[float] = ()) -> bool:
        """Returns True after the first chunk, then a fixed number of times over the run, and at its end.

        So it does in the chunk of each of the moments: steps at which something happened.
        """
        if not len(self.env_steps) or env_steps >= total:
            return True
        if any(self.env_steps[-1] < moment <= env_steps for moment in moments):
            return True
        interval = max(total // SNAPSHOTS, 1)
        return env_steps // interval > int(self.env_steps[-1]) // interval

    def chosen(self, count: int, moments: Mapping[str, float]) -> dict[int, str]:
        """Returns up to `count` snapshots to show: the first, the last, those of moments, and others between them.

        Each has its number and the names of the moments since the one before it.
        """
        if not len(self.env_steps):
            return {}
        happened: dict[int, list[str]] = {}
        for name, step in moments.items():
            if len(later := np.flatnonzero(self.env_steps >= step)):
                happened.setdefault(int(later[0]), []).append(name)
        last = len(self.env_steps) - 1
        times = dict.fromkeys([0, last, *happened][:count])
        for time in np.linspace(0, last, count).round().astype(int).tolist():
            if len(times) < count:
                times[time] = None
        return {time: " and ".join(happened.get(time, [])) for time in sorted(times)}

    def add(self, env_steps: int, maps: Mapping[str, np.ndarray]) -> "MapHistory":
        """Writes one more snapshot, and returns the history with it."""
        if not maps:
            return self
        new = {name: np.asarray(values, np.float32)[None] for name, values in maps.items()}
        joined = {
            name: np.concatenate([self.maps[name], values]) if name in self.maps else values
            for name, values in new.items()
        }
        history = MapHistory(self.file, np.append(self.env_steps, env_steps), joined)
        replace_atomically(self.file, history._write)
        return history

    def _write(self, stream: IO[bytes]) -> None:
        arrays: dict[str, Any] = {"env_steps": self.env_steps, **self.maps}
        np.savez_compressed(stream, **arrays)


def moments_of(line: Mapping[str, Value]) -> dict[str, float]:
    """Returns the moments in the latest metrics of a seed, by their names."""
    return {name: float(line[metric]) for metric, name in MOMENTS.items() if metric in line}


def _checked(arrays: dict[str, np.ndarray]) -> Int[np.ndarray, "T"]:
    """Takes the steps from the arrays of a file, and raises an error unless all have the shapes of maps."""
    env_steps = arrays.pop("env_steps")
    kinds = [(env_steps.ndim, env_steps.dtype.kind), *((one.ndim, one.dtype.kind) for one in arrays.values())]
    if kinds[0] != (1, "i") or any(kind != (4, "f") for kind in kinds[1:]):
        raise ValueError("arrays of other types")
    if any(len(one) != len(env_steps) or not one.size for one in arrays.values()):
        raise ValueError("arrays of other sizes")
    return env_steps
