"""TensorBoard events of a run."""

import time
from collections.abc import Iterable
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from emcts.runs.files import make_folder
from emcts.runs.folder import Folder
from emcts.runs.logging.metrics import MetricsLine, metrics_of


class TensorBoard:
    """Events in a folder for each seed.

    Written without the thread of tensorboardX, in which a full disk goes unnoticed until its queue blocks.
    """

    def __init__(self, folder: Folder, env_steps: int) -> None:
        seeds = folder.config().seeds
        self.writers = {
            seed: _open(make_folder(folder.path, "tensorboard", f"seed-{seed}"), env_steps) for seed in seeds
        }

    def write(self, lines: Iterable[MetricsLine]) -> None:
        for line in lines:
            writer = self.writers[int(line["seed"])]
            for name, value in metrics_of(line).items():
                event = Event(wall_time=time.time(), step=line["env_steps"], summary=scalar(name, value))
                writer.write_event(event)
            writer.flush()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


def _open(folder: Path, env_steps: int) -> EventsWriter:
    files = list(folder.iterdir())
    if links := [file for file in files if file.is_symlink()]:
        raise ValueError(f"{links[0]} is a symbolic link, which a run does not write through: remove it")
    # The number of files is part of the name: two files opened within a second would share a name.
    before = len(files)
    writer = EventsWriter(str(folder / "events"), f".{before}")
    if before:
        # The start of a session makes TensorBoard discard the events from its step on.
        start = SessionLog(status=SessionLog.START)
        writer.write_event(Event(wall_time=time.time(), step=env_steps + 1, session_log=start))
    return writer
