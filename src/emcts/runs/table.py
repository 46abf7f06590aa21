"""The curves of runs as a table: what is drawn, in numbers."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from emcts.runs import atomic
from emcts.runs.figure import CURVES, curve
from emcts.runs.folder import Folder

COLUMNS = ("run", "metric", "env_steps", "seeds", "mean", "standard_error")


def write_table(folders: Sequence[Folder], out: Path) -> Path:
    """A CSV file with one row per run, metric and step: the mean over seeds and its standard error."""
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
    atomic.write(out, text.getvalue())
    return out
