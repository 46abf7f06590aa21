"""Where to watch a run from outside: TensorBoard, and Weights & Biases for those who have it."""

import time
import zlib
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from emcts.runs.lines import Line

NOT_METRICS = ("seed", "env_steps")


@runtime_checkable
class Board(Protocol):
    """Takes the lines of `metrics.jsonl` as they come."""

    def write(self, lines: Iterable[Line]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Events in a folder for each seed.

    Written without tensorboardX's own thread, in which a full disk would go unnoticed until its queue blocks.
    """

    def __init__(self, folder: Path, seeds: Iterable[int], env_steps: int) -> None:
        self.writers = {seed: _open(folder / f"seed-{seed}", env_steps) for seed in seeds}

    def write(self, lines: Iterable[Line]) -> None:
        for line in lines:
            writer = self.writers[line["seed"]]
            for name, value in _metrics(line).items():
                event = Event(wall_time=time.time(), step=line["env_steps"], summary=scalar(name, value))
                writer.write_event(event)
            writer.flush()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class WeightsAndBiases:
    """One run there, with the metrics of every seed under its number."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        check_wandb()
        wandb = import_module("wandb")
        name = folder.absolute().name
        # The same folder is the same run there, also after a resume; another folder of that name is not.
        identity = f"{name}-{zlib.crc32(str(folder.absolute()).encode()):08x}"
        self.run = wandb.init(project="emcts", id=identity, name=name, config=dict(config), resume="allow")

    def write(self, lines: Iterable[Line]) -> None:
        for line in lines:
            values = {f"{name}/seed-{line['seed']}": value for name, value in _metrics(line).items()}
            self.run.log({**values, "env_steps": line["env_steps"]}, step=line["env_steps"])

    def close(self) -> None:
        self.run.finish()


def check_wandb() -> None:
    """Complains, before anything is made, where Weights & Biases is not installed."""
    if find_spec("wandb") is None:
        raise ValueError('--wandb needs the package wandb: pip install "emcts[wandb]"')


def _metrics(line: Line) -> dict[str, float]:
    return {name: float(value) for name, value in line.items() if name not in NOT_METRICS}


def _open(folder: Path, env_steps: int) -> EventsWriter:
    folder.mkdir(parents=True, exist_ok=True)
    # Two files opened within a second would have one name.
    before = len(list(folder.iterdir()))
    writer = EventsWriter(str(folder / "events"), f".{before}")
    if before:
        # A start of a session tells TensorBoard to forget the events from its step on.
        start = SessionLog(status=SessionLog.START)
        writer.write_event(Event(wall_time=time.time(), step=env_steps + 1, session_log=start))
    return writer
