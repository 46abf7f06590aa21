"""Loggers receive what is written to `metrics.jsonl`, and one entry of the table adds one."""

import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

from emcts.runs.config import Config, plain
from emcts.runs.drive import drive
from emcts.runs.folder import Folder
from emcts.runs.logging.display import Display
from emcts.runs.logging.loggers import LOGGERS, LoggerEntry, check_loggers, open_loggers
from emcts.runs.logging.metrics import MetricsLine
from tests.runs.toy import ToySettings, ToyTrainer

LINES: list[MetricsLine] = [
    {"seed": 0, "env_steps": 10, "return": 1.0, "states_discovered": 3.0},
    {"seed": 7, "env_steps": 10, "return": 3.0},
    {"seed": 0, "env_steps": 20, "states_discovered": 4.0},
    {"seed": 7, "env_steps": 20, "return": 5.0},
]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    config = Config("plain", "walker", None, (0, 7), plain(ToySettings(steps=200)))
    return Folder.create(tmp_path / "run", config, {})


def events(folder: Path) -> list[Event]:
    found = []
    for file in sorted(folder.iterdir(), key=lambda file: file.suffix):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("Q", data[:8])
            found.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return found


def test_tensorboard_gets_each_seed_and_discards_what_is_redone(folder: Folder) -> None:
    for lines, since in [(LINES, 0), (LINES[2:], 10)]:
        (logger,) = open_loggers(["tensorboard"], folder, since)
        logger.write(lines)
        logger.close()
    written = events(folder.path / "tensorboard" / "seed-7")
    reported = [
        (value.tag, event.step, value.simple_value) for event in written for value in event.summary.value
    ]
    assert reported == [("return", 10, 3.0), ("return", 20, 5.0), ("return", 20, 5.0)]
    starts = [event.step for event in written if event.HasField("session_log")]
    assert starts == [11]


def test_weights_and_biases_gets_the_same(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[Any] = []
    run = SimpleNamespace(log=lambda values, step: logged.append((step, values)), finish=lambda: None)

    def init(**given: Any) -> Any:
        logged.append(given["config"]["agent"])
        return run

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, __spec__=object()))
    (logger,) = open_loggers(["wandb"], folder, 0)
    logger.write(LINES[1:2])
    logger.close()
    assert logged == ["walker", (10, {"return/seed-7": 3.0, "env_steps": 10})]


def test_a_logger_is_one_entry_of_the_table(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[object] = []

    class Collector:
        def __init__(self, folder: Folder, env_steps: int) -> None:
            received.append((folder, env_steps))

        def write(self, lines: Iterable[MetricsLine]) -> None:
            received.extend(lines)

        def close(self) -> None:
            received.append("closed")

    monkeypatch.setitem(LOGGERS, "collector", LoggerEntry(Collector, "json"))
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)
    drive(ToyTrainer(ToySettings(steps=200), (0, 7)), folder, Display(), "emcts train", ["collector"])
    assert received == [(folder, 0), *folder.metrics.read(), "closed"]
    assert not (folder.path / "tensorboard").exists()


def test_unknown_and_missing_loggers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="unknown logger 'wandbb': did you mean 'wandb'?"):
        check_loggers(["wandbb"])
    monkeypatch.setattr("emcts.runs.logging.loggers.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r'the logger wandb needs the package wandb: pip install "emcts\[wandb\]"'
    ):
        check_loggers(["wandb"])
