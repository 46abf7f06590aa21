"""How long a piece of training is, and when a run saves."""

import time
from dataclasses import dataclass, field

from emcts.runs.config import CheckpointSchedule
from emcts.training.progress import Piece

PIECE_SECONDS = 2.0  # of training, between which a run shows its speed, saves and stops
FIRST_SAVE_SECONDS = 15.0  # after which a process saves for the first time


@dataclass
class PieceLength:
    """Chooses the iterations of the next piece, so that it takes about two seconds. Before a measurement it is one."""

    per_iteration: float | None = None  # seconds

    @property
    def iterations(self) -> int:
        return 1 if self.per_iteration is None else max(1, int(PIECE_SECONDS / max(self.per_iteration, 1e-6)))

    @property
    def seconds(self) -> float | None:
        """About how long the next piece takes, None if unknown."""
        return None if self.per_iteration is None else self.iterations * self.per_iteration

    def update(self, piece: Piece, seconds: float) -> None:
        self.per_iteration = None if piece.changes_pace else seconds / piece.iterations


@dataclass
class SaveTimer:
    """Decides, once per piece, whether to save.

    A schedule in seconds applies at the end of a chunk, where the score of the checkpoint is known; in the middle of
    one after twice the time. The first save of a process comes soon. A schedule in chunks is exact.
    """

    schedule: CheckpointSchedule
    chunks: int = 0
    since: float = field(default_factory=time.monotonic)
    is_first: bool = True

    def is_due(self, in_chunk: bool = False) -> bool:
        self.chunks += not in_chunk
        if self.schedule.chunks is not None:
            due = self.chunks >= self.schedule.chunks
        else:
            seconds = self.schedule.seconds * (2 if in_chunk else 1)
            if self.is_first:
                seconds = min(seconds, FIRST_SAVE_SECONDS)
            due = time.monotonic() - self.since >= seconds
        if due:
            self.chunks, self.since, self.is_first = 0, time.monotonic(), False
        return due
