"""Ctrl-C while the command line still imports: one line and exit code 130, where Python would print a traceback.

Imported before everything that takes long. In a program that uses emcts as a library it does nothing.
"""

import itertools
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

EXIT_CODE = 128 + signal.SIGINT
NOTICE = b"emcts: interrupted\n"


def guard() -> None:
    """Makes Ctrl-C end the process at once, if it is the command line: nothing is there to be saved yet."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def release() -> None:
    """Makes Ctrl-C raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_command() -> bool:
    """Returns whether this process is `emcts ...` or `python -m emcts ...`."""
    program = Path(sys.argv[0]) if sys.argv else Path()
    if program.name == "-m":  # while Python looks for the module
        return ("-m", "emcts") in itertools.pairwise(sys.orig_argv)
    return program.stem == "emcts" or program.parts[-2:] == ("emcts", "__main__.py")


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, NOTICE)
    os._exit(EXIT_CODE)


guard()
