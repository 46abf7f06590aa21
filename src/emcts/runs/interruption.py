"""Signals that ask a run to stop: it finishes its chunk, saves and leaves."""

import os
import signal
from types import FrameType, TracebackType
from typing import Any

NOTICE = b"\nstopping after this chunk, to save; Ctrl-C again leaves at once, without\n"


class Interruption:
    """Notes SIGTERM and SIGINT (Ctrl-C) instead of dying of them. A second Ctrl-C does not wait."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """As a shell reports a death by the signal: 143 for SIGTERM, 130 for Ctrl-C."""
        return 128 + (self.signal or 0)

    def heed(self, number: int) -> None:
        """A signal that another process of the run got; 0 for none."""
        if number:  # without one nothing is set: a signal of our own may come in just now
            self.signal = self.signal or number

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        # Straight to the descriptor: a signal may come in the middle of a print, which cannot be entered twice.
        os.write(2, NOTICE)
