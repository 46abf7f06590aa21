"""Trains one run in many processes, all but the last of which are killed, each at another moment.

Prints a JSON list of `[moment, exit status, last step written, newest checkpoint]`. The processes are forks of this
one, which has imported everything and computed nothing, so that each of them starts at once.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from emcts.runs import checkpoints
from emcts.runs import drive as driving
from emcts.runs import folder as folders
from emcts.runs.folder import Folder
from emcts.runs.logging import run_writer
from emcts.runs.logging.display import LineDisplay
from emcts.runs.stored_json import JsonLines
from tests.runs.toy import ToySettings, ToyTrainer

SEEDS = (1, 2)
SETTINGS = ToySettings(steps=1200, ballast=500_000)
CHUNKS = 2  # between checkpoints


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(place: Any, name: str, condition: Callable[..., bool] = lambda *_: True) -> None:
    """Dies instead of calling a function, when its arguments are such."""
    call = getattr(place, name)

    def instead(*given: Any, **named: Any) -> Any:
        if condition(*given):
            die()
        return call(*given, **named)

    setattr(place, name, instead)


def after(place: Any, name: str, condition: Callable[..., bool] = lambda *_: True) -> None:
    """Dies when a function has done its work."""
    call = getattr(place, name)

    def instead(*given: Any, **named: Any) -> Any:
        result = call(*given, **named)
        if condition(*given):
            die()
        return result

    setattr(place, name, instead)


def in_a_chunk(_: Folder) -> None:
    after(ToyTrainer, "run_piece")


def after_an_evaluation(_: Folder) -> None:
    after(ToyTrainer, "end_chunk")


def while_orbax_writes(folder: Folder) -> None:
    pattern = ".partial-step-*/arrays*/*/d/*"
    left_over = set(folder.checkpoints.glob(pattern))

    def watch() -> None:
        while set(folder.checkpoints.glob(pattern)) <= left_over:
            time.sleep(0.0005)
        die()

    threading.Thread(target=watch, daemon=True).start()


def before_the_manifest(_: Folder) -> None:
    before(checkpoints, "_sums")


def before_the_checkpoint_has_its_name(_: Folder) -> None:
    before(os, "replace", lambda old, new: Path(new).name.startswith("step-"))


def after_the_checkpoint_has_its_name(_: Folder) -> None:
    after(os, "replace", lambda old, new: Path(new).name.startswith("step-"))


def while_an_old_checkpoint_goes(_: Folder) -> None:
    def lose_half(path: Path, *_: Any, **__: Any) -> None:
        if "old-step" in path.name:
            (path / "manifest.json").unlink()
            die()

    shutil.rmtree = lose_half  # type: ignore[assignment]


def in_a_line(_: Folder) -> None:
    def half(lines: JsonLines, new: Iterable[dict[str, Any]]) -> None:
        with lines.file.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in new)[:-20])
        die()

    JsonLines.append = half  # type: ignore[assignment, method-assign]


def while_lines_are_cut(_: Folder) -> None:
    before(os, "replace", lambda old, new: Path(new).name == "metrics.jsonl")


def before_the_summary(_: Folder) -> None:
    before(folders, "write_atomically", lambda file, content: file.name == "summary.json")


def never(_: Folder) -> None:
    run_writer.draw_run = lambda folder, out: out  # a picture takes longer than all of the run


MOMENTS = (
    in_a_chunk,
    after_an_evaluation,
    while_orbax_writes,
    before_the_manifest,
    before_the_checkpoint_has_its_name,
    after_the_checkpoint_has_its_name,
    before_the_summary,
    in_a_line,
    while_lines_are_cut,
    while_an_old_checkpoint_goes,
    never,
)


def train(folder: Folder, moment: Callable[[Folder], None]) -> int:
    """The exit status of a process that trains until a moment comes."""
    child = os.fork()
    if child == 0:
        moment(folder)
        driving.drive(ToyTrainer(SETTINGS, SEEDS), folder, LineDisplay(lambda text: None), "emcts train")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(path: Path) -> None:
    folder = Folder.open(path)
    reported = []
    for moment in MOMENTS:
        status = train(folder, moment)
        written = max((line["env_steps"] for line in folder.metrics.read()), default=0)
        saved = max(checkpoints.Checkpoints(folder.checkpoints).steps(), default=0)
        reported.append([moment.__name__, status, written, saved])
    print(json.dumps(reported))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
