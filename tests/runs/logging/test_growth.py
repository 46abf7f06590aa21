"""A run that goes on for weeks keeps no more in memory than one that has begun."""

import tracemalloc
from pathlib import Path

import numpy as np

from emcts.runs.config import Config, plain
from emcts.runs.folder import Folder
from emcts.runs.logging.run_writer import RunWriter
from emcts.training.progress import Progress
from tests.runs.toy import ToySettings


def test_evaluations_are_not_kept_in_memory(tmp_path: Path) -> None:
    config = Config("plain", "walker", None, (0, 1), plain(ToySettings()))
    writer = RunWriter(Folder.create(tmp_path / "run", config, {}), 0, 10**9, ["tensorboard"])

    draw = np.random.default_rng(0)

    def write(first: int, count: int) -> None:
        for step in range(first, first + count):
            values = {f"metric_{number}": draw.random(2) for number in range(20)}
            writer.write(Progress(step, step, values))

    write(0, 10)
    tracemalloc.start()
    try:
        write(10, 60)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        writer.close()
    assert kept < 20_000, "over 60 evaluations of two seeds, whose lines have 60 kB"
