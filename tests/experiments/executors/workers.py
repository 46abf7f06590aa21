"""Toys whose worker processes die, stop or fail at a step, the first time that they reach it.

They append each chunk that they begin to a file in the folder that `MARKS` names.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emcts.runs.logging import run_writer
from emcts.training.progress import Piece
from tests.runs.toy import ITERATIONS, ToyCatalogue, ToyChunk, ToySettings, ToyState, ToyTrainer

MARKS = "EMCTS_TEST_MARKS"
DIES_AT, STOPS_AT, FAILS_AT = 600, 300, 100  # steps; who does it depends on the environment and the seeds


def begun(path: Path, name: str) -> list[tuple[int, int]]:
    """Returns the process and the step of each chunk that began."""
    file = path / f"{name}.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(process), int(step)) for process, step in map(str.split, lines)]


@dataclass(frozen=True)
class MarkedTrainer(ToyTrainer):
    name: str

    def run_piece(
        self, state: ToyState, chunk: ToyChunk, iterations: int
    ) -> tuple[ToyState, ToyChunk, Piece]:
        if int(chunk.done):
            return super().run_piece(state, chunk, iterations)
        run_writer.draw_run = lambda folder, out: out  # a figure takes longer than the whole run
        step = int(state.env_steps[0])
        marks = Path(os.environ[MARKS])
        first_time = all(before != step for _, before in begun(marks, self.name))
        with (marks / f"{self.name}.txt").open("a") as file:
            file.write(f"{os.getpid()} {step}\n")
        if first_time and self.name == "hilly-walker-0" and step == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        if first_time and self.name == "hilly-walker-2" and step == STOPS_AT:
            os.kill(os.getpid(), signal.SIGTERM)
        if self.name == "hilly-runner-1" and step == FAILS_AT:
            raise RuntimeError("the runner fell")
        return super().run_piece(state, chunk, ITERATIONS)


class MarkedCatalogue(ToyCatalogue):
    def trainer(
        self, environment: str, agent: str, settings: ToySettings, seeds: tuple[int, ...]
    ) -> MarkedTrainer:
        return MarkedTrainer(settings, seeds, f"{environment}-{agent}-{seeds[0]}")


def without_time(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the metrics of a run without the time that they took."""
    return [{**line, "seconds": 0} for line in lines]
