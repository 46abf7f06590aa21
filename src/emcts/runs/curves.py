"""Learning curves of runs, read from their metrics, and as a table."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from emcts.runs.files import write_atomically
from emcts.runs.folder import Folder

CURVES = {"return": "return", "states_discovered": "states discovered", "uncertainty": "uncertainty"}
COLUMNS = ("run", "metric", "env_steps", "seeds", "mean", "standard_error")


@dataclass(frozen=True)
class Curve:
    """One metric of all seeds at the steps at which any of them reported it; NaN where a seed did not."""

    env_steps: Int[np.ndarray, "T"]
    values: Float[np.ndarray, "S T"]

    @property
    def mean(self) -> Float[np.ndarray, "T"]:
        return np.nanmean(self.values, axis=0)

    @property
    def standard_error(self) -> Float[np.ndarray, "T"]:
        """The standard error of the mean; 0 where fewer than two seeds reported."""
        count = np.isfinite(self.values).sum(axis=0)
        with np.errstate(over="ignore"):  # of huge numbers the error is infinite
            squares = np.nansum((self.values - self.mean[None]) ** 2, axis=0)
        return np.sqrt(squares / np.maximum(count - 1, 1) / count)


def curve(folder: Folder, name: str) -> Curve | None:
    """Reads a metric of a run; None if the run never reported it."""
    reported = [line for line in folder.metrics.read() if name in line]
    if not reported:
        return None
    seeds = folder.config().seeds
    env_steps = np.unique([line["env_steps"] for line in reported])
    values = np.full((len(seeds), len(env_steps)), np.nan)
    rows = {seed: row for row, seed in enumerate(seeds)}
    columns = {step: column for column, step in enumerate(env_steps.tolist())}
    for line in reported:
        if line["seed"] not in rows:
            raise ValueError(f"{folder.metrics.file} has a seed {line['seed']}, which {folder.path} has not")
        values[rows[int(line["seed"])], columns[int(line["env_steps"])]] = line[name]
    return Curve(env_steps, values)


def has_curves(folder: Folder) -> bool:
    return any(name in line for line in folder.metrics.read() for name in CURVES)


def write_table(folders: Sequence[Folder], out: Path) -> Path:
    """Writes a CSV file with a row per run, metric and step: the mean over seeds and its standard error."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for folder in folders:
        for name in CURVES:
            one = curve(folder, name)
            if one is None:
                continue
            count = np.isfinite(one.values).sum(axis=0)
            for row in zip(one.env_steps, count, one.mean, one.standard_error, strict=True):
                step, seeds, mean, error = row
                writer.writerow([folder.path.name, name, step, seeds, f"{mean:.6g}", f"{error:.3g}"])
    out.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(out, text.getvalue())
