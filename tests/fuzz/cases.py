"""Running many cases: what they print, how long they may take, and the tracebacks among them."""

import contextlib
import io
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from random import Random
from types import FrameType

import pytest

from emcts.cli import main

SECONDS = 60  # that a case may take
SHOWN = 10  # kinds of tracebacks
REFUSALS = (ValueError, OSError, ModuleNotFoundError, OverflowError, MemoryError)
"""Errors of which the command line makes one line."""


def run_cases(case: Callable[[Random], object], count: int, name: str) -> None:
    """Runs the cases with the numbers below `count`, and fails with every kind of traceback that they end in."""
    kinds: dict[str, str] = {}
    for number in range(count):
        try:
            with _time_limit():
                case(Random(f"{name} {number}"))
        except Exception as error:
            kinds.setdefault(_place(error), f"case {number}: {_last_lines(error)}")
    if kinds:
        pytest.fail(f"{len(kinds)} kinds of tracebacks\n\n" + "\n\n".join(list(kinds.values())[:SHOWN]))


def command(*arguments: str, text: bytes = b"") -> tuple[int, str, str]:
    """Runs a command in this process, and returns its exit code and what it printed, as a terminal's UTF-8.

    An error that is not one of those of the command line is raised, with the arguments as a note.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _standard_input(text):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
        except Exception as error:
            error.add_note(f"arguments {list(arguments)!r}, standard input {text[:2000]!r}")
            raise
    shown = []
    for stream in (out, err):
        stream.flush()
        shown.append(stream.buffer.getvalue().decode())
    assert isinstance(code, int) or code is None, (code, arguments)
    if code == 2 and not shown[1].strip():
        raise AssertionError(f"{list(arguments)!r} is refused without a word")
    return code or 0, shown[0], shown[1]


def refused_or_read(read: Callable[[], object], what: object) -> None:
    """Reads something that may be wrong: any error is one of the command line's, in a single line."""
    try:
        read()
    except Exception as error:
        if isinstance(error, REFUSALS) and "\n" not in str(error):
            return
        error.add_note(repr(what)[:2000])
        raise


def pick(draw: Random, weights: dict[str, int]) -> str:
    return draw.choices(list(weights), list(weights.values()))[0]


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"took longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _standard_input(text: bytes) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), "utf-8"))
        yield


def _place(error: Exception) -> str:
    """The kind of an error, and the last line of the package that it came through."""
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "emcts" in frame.filename] or frames
    return f"{type(error).__name__} {ours[-1].filename}:{ours[-1].lineno}"


def _last_lines(error: Exception) -> str:
    return "".join(traceback.format_exception(error)[-6:])[-3000:]
