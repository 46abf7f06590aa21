"""The processes that train one run: which of them leads, how they communicate, and the signals that stop them.

The leader alone writes files and shows progress; all save and restore their part of a checkpoint. With a single
process, which is its own leader, every function here returns at once.
"""

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

import jax
import numpy as np
from jax.experimental import multihost_utils

LONGEST_TEXT = 4096
HALF = 1 << 30  # a number is sent as two of 32 bits
GRACE_SECONDS = 1.0  # for Python to leave by itself after a second Ctrl-C, before the process is ended


def is_leader() -> bool:
    return jax.process_index() == 0


def is_single() -> bool:
    return jax.process_count() == 1


def wait_for_all(name: str) -> None:
    """Blocks until all processes have called this with the same name."""
    if not is_single():
        multihost_utils.sync_global_devices(name)


def broadcast(number: int) -> int:
    """Returns the leader's number in every process."""
    if is_single():
        return number
    high, low = multihost_utils.broadcast_one_to_all(np.array(divmod(number, HALF), np.int32))
    return int(high) * HALF + int(low)


def broadcast_text(text: str) -> str:
    """Returns the leader's text in every process."""
    if is_single():
        return text
    encoded = text.encode()
    if len(encoded) > LONGEST_TEXT:
        raise ValueError(
            f"a text of {len(encoded)} bytes is too long to broadcast: use at most {LONGEST_TEXT} bytes"
        )
    letters = np.zeros(LONGEST_TEXT, np.uint8)
    letters[: len(encoded)] = list(encoded)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(letters))).rstrip(b"\0").decode()


def maximum(number: int) -> int:
    """Returns the largest number of all processes."""
    if is_single():
        return number
    return int(np.max(multihost_utils.process_allgather(np.int32(number))))


class Interruption:
    """A context that records SIGTERM and SIGINT (Ctrl-C), so that the process can save before it exits.

    A second Ctrl-C raises `KeyboardInterrupt`. Python does neither while the main thread waits for a compiled program
    or for the compiler. So another thread hears of signals at once: it calls `stopping` after the first, and `leave`
    after a second Ctrl-C that had no effect within some seconds.
    """

    def __init__(
        self,
        stopping: Callable[[int], None] = lambda number: None,
        leave: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.signal: int | None = None
        self._stopping, self._leave = stopping, leave
        self._over = threading.Event()

    def __enter__(self) -> "Interruption":
        # Other threads than the main one get no signals, and must not ask for them.
        is_main = threading.current_thread() is threading.main_thread()
        signals = (signal.SIGTERM, signal.SIGINT) if is_main else ()
        self._before = {number: signal.signal(number, self._record) for number in signals}
        self._over.clear()
        if is_main:
            self._heard, self._told = socket.socketpair()
            self._told.setblocking(False)
            self._wakeup_before = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, args=(self._heard,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            signal.set_wakeup_fd(self._wakeup_before)
            self._told.close()  # which ends the thread

    @property
    def exit_code(self) -> int:
        """The code that a shell reports for a death by the signal: 143 for SIGTERM, 130 for Ctrl-C."""
        return 128 + (self.signal or 0)

    def add(self, number: int) -> None:
        """Records a signal that another process of the run received; 0 for none."""
        if number:  # without one nothing is set: a signal to this process may arrive at this moment
            self.signal = self.signal or number

    def _record(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number

    def _listen(self, heard: socket.socket) -> None:
        """Reads the numbers of signals, one byte each, as they arrive."""
        interrupts = 0
        with heard:
            while numbers := heard.recv(1):
                (number,) = numbers
                if number not in self._before:
                    continue
                interrupts += number == signal.SIGINT
                if interrupts < 2:
                    self._stopping(number)
                elif not self._over.wait(GRACE_SECONDS):
                    self._leave(number)
