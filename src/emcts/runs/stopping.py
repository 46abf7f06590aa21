"""What a run tells the one who presses Ctrl-C, and how the command line leaves at once."""

import os
import sys
import time
from dataclasses import dataclass

from emcts import interrupts
from emcts.runs import process_group
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.folder import Folder
from emcts.runs.logging.display import Display

SAVING = "saving"
REMOVED = "{} is removed, the same command begins anew"


@dataclass
class Now:
    """What the process does at the moment, for the one who presses Ctrl-C."""

    folder: Folder
    checkpoints: Checkpoints
    display: Display
    doing: str | None = None  # None: nothing is trained that could be lost
    until: float | None = None  # about when it ends
    is_new: bool = False  # the folder is removed if nothing was trained in it
    is_stopping: bool = False
    shown: str = ""

    def does(self, doing: str | None, seconds: float | None = None) -> None:
        self.until = None if seconds is None else time.monotonic() + seconds
        self.doing = doing
        if self.is_stopping:
            self._show()

    @property
    def text(self) -> str:
        if self.doing is None:
            return "stopping as soon as this is done; there is nothing to save"
        left = "" if self.until is None else f" (about {max(1, round(self.until - time.monotonic()))} s)"
        what = (
            "saving, then stopping" if self.doing == SAVING else f"stopping after {self.doing}{left}, to save"
        )
        saved = self.checkpoints.steps()
        lost = f"what was trained since step {saved[-1]:,}" if saved else "what was trained"
        return f"{what}; Ctrl-C again to leave at once and lose {lost}"

    def stopping(self, number: int) -> None:
        """Shows when the process stops. If it would only wait for the compiler, it is ended here."""
        self.is_stopping = True
        if self.doing is None and self._can_leave:
            self.leave(number)
        self._show()

    def leave(self, number: int) -> None:
        """Ends the command line at once: the main thread may wait for a compiled program for long."""
        if not self._can_leave:
            return
        how = "nothing had to be saved" if self.doing is None else "without saving"
        self.display.close()
        resume = f"continue with `{self.folder.resume_command}`"
        removed = self.is_new and self.doing is None and self.folder.discard_untrained()
        self.display.message(f"stopped, {how}: {REMOVED.format(self.folder.path) if removed else resume}")
        sys.stdout.flush()
        os._exit(128 + number)

    def _show(self) -> None:
        text, before = self.text, self.shown
        self.shown = text
        if text != before:  # both threads may show the same
            self.display.stopping(text)

    @property
    def _can_leave(self) -> bool:
        return interrupts.is_command() and process_group.is_single()
