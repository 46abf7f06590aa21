"""Everything that a run writes down besides its checkpoints, in step with them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from emcts.runs.board import Board, TensorBoard
from emcts.runs.config import word_size
from emcts.runs.figure import draw_run, has_curves
from emcts.runs.finds import Finds
from emcts.runs.folder import Folder
from emcts.runs.maps import MapHistory
from emcts.runs.summary import Latest, absorb, summary, to_lines
from emcts.runs.trainer import Progress


class Journal:
    """Metrics, finds, maps, events and the summary. Opening it cuts away what came after `env_steps`."""

    def __init__(self, folder: Folder, env_steps: int, total: int, boards: Sequence[Board] = ()) -> None:
        config = folder.config()
        self.folder, self.seeds, self.total = folder, config.seeds, total
        self.latest = absorb({}, folder.metrics.cut(env_steps))
        self.finds = Finds.resume(folder, word_size(config.settings), env_steps)
        self.maps = MapHistory.read(folder.path / "maps.npz", until=env_steps)
        self.boards = [TensorBoard(folder.path / "board", self.seeds, env_steps), *boards]
        self.started = time.monotonic() - max((line["seconds"] for line in self.latest.values()), default=0.0)

    def write(self, progress: Progress) -> None:
        lines = to_lines(self.seeds, progress, time.monotonic() - self.started)
        self.folder.metrics.append(lines)
        self.latest = absorb(self.latest, lines)
        self.finds.add(progress.finds)
        for board in self.boards:
            board.write(lines)

    def wants_maps(self, env_steps: int) -> bool:
        return self.maps.is_due(env_steps, self.total)

    def write_maps(self, env_steps: int, maps: Mapping[str, np.ndarray]) -> None:
        self.maps = self.maps.add(env_steps, maps)

    def write_summary(self, state: str, provenance: Mapping[str, Any]) -> None:
        self.folder.write(
            "summary.json", {**summary(self.seeds, self.latest, state, self.total), **provenance}
        )

    def draw(self) -> None:
        if has_curves(self.folder):
            draw_run(self.folder, self.folder.path / "figure.png")

    def close(self) -> None:
        for board in self.boards:
            board.close()


class Unwritten:
    """Nothing: for a process that does not lead, and leaves writing to the one that does."""

    def __init__(self) -> None:
        self.latest: Latest = {}

    def write(self, progress: Progress) -> None: ...

    def wants_maps(self, env_steps: int) -> bool:
        return False

    def write_maps(self, env_steps: int, maps: Mapping[str, np.ndarray]) -> None: ...

    def write_summary(self, state: str, provenance: Mapping[str, Any]) -> None: ...

    def draw(self) -> None: ...

    def close(self) -> None: ...
