"""Pictures and boards are made from what runs wrote down."""

import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import LogNorm
from tensorboardX.proto.event_pb2 import Event

from emcts.runs.board import TensorBoard, WeightsAndBiases
from emcts.runs.config import Config
from emcts.runs.figure import _norm, curve, draw_comparison, draw_run
from emcts.runs.folder import Folder
from emcts.runs.maps import MapHistory

LINES = [
    {"seed": 0, "env_steps": 10, "return": 1.0, "states_discovered": 3.0},
    {"seed": 7, "env_steps": 10, "return": 3.0},
    {"seed": 0, "env_steps": 20, "states_discovered": 4.0},
    {"seed": 7, "env_steps": 20, "return": 5.0},
]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder.create(tmp_path / "run", Config("plain", "walker", None, (0, 7), {}), {})
    folder.metrics.append(LINES)
    return folder


def test_curves_leave_gaps_where_a_seed_was_silent(folder: Folder) -> None:
    returns = curve(folder, "return")
    assert returns is not None
    np.testing.assert_array_equal(returns.env_steps, [10, 20])
    np.testing.assert_array_equal(returns.values, [[1.0, np.nan], [3.0, 5.0]])
    np.testing.assert_array_equal(returns.mean, [2.0, 5.0])
    np.testing.assert_allclose(returns.standard_error, [1.0, 0.0])
    assert curve(folder, "uncertainty") is None


def test_a_run_is_drawn_with_its_maps(folder: Folder, tmp_path: Path) -> None:
    plain = draw_run(folder, tmp_path / "new" / "plain.png").stat().st_size
    history = MapHistory.read(folder.path / "maps.npz")
    for step in (10, 20):
        history = history.add(
            step, {"visits": np.full((2, 5, 5), step), "nothing": np.full((2, 5, 5), np.nan)}
        )
    drawn = draw_run(folder, tmp_path / "maps.png")
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert plain < drawn.stat().st_size < 300_000


def test_runs_are_compared(folder: Folder, tmp_path: Path) -> None:
    other = Folder.create(tmp_path / "other", Config("plain", "runner", None, (0, 7), {}), {})
    other.metrics.append({**line, "uncertainty": 1.0} for line in LINES)
    assert draw_comparison([folder, other], tmp_path / "both.png").stat().st_size < 300_000
    assert [path.name for path in tmp_path.glob("*.png")] == ["both.png"]


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "run", Config("plain", "walker", None, (0,), {}), {})
    with pytest.raises(ValueError, match="no curve to draw yet"):
        draw_run(folder, tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_maps_that_span_decades_are_drawn_by_decades() -> None:
    assert isinstance(_norm(np.ma.masked_invalid([0.0, 1.0, 50000.0])), LogNorm)
    assert not isinstance(_norm(np.ma.masked_invalid([0.0, 1.0, 5.0])), LogNorm)
    assert not isinstance(_norm(np.ma.masked_invalid([-1.0, 1.0, 50000.0])), LogNorm)


def test_maps_are_cut_and_taken_at_even_times(tmp_path: Path) -> None:
    history = MapHistory.read(tmp_path / "maps.npz")
    steps = [step for step in range(10, 3210, 10) if history.is_due(step, 3200)]
    assert steps == list(range(10, 3210, 10))  # nothing taken yet: the first is due whenever it comes
    for step in range(10, 3210, 10):
        if history.is_due(step, 3200):
            history = history.add(step, {"visits": np.full((1, 2, 2), step)})
    assert history.env_steps.tolist() == [10, *range(200, 3201, 200)]
    kept = MapHistory.read(history.file, until=500)
    assert kept.env_steps.tolist() == [10, 200, 400]
    np.testing.assert_array_equal(kept.maps["visits"][:, 0, 0, 0], [10, 200, 400])


def events(folder: Path) -> list[Event]:
    found = []
    for file in sorted(folder.iterdir(), key=lambda file: file.suffix):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("Q", data[:8])
            found.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return found


def test_tensorboard_gets_each_seed_and_forgets_what_is_redone(tmp_path: Path) -> None:
    for lines, since in [(LINES, 0), (LINES[2:], 10)]:
        board = TensorBoard(tmp_path, (0, 7), since)
        board.write(lines)
        board.close()
    told = [
        (value.tag, event.step, value.simple_value)
        for event in events(tmp_path / "seed-7")
        for value in event.summary.value
    ]
    assert told == [("return", 10, 3.0), ("return", 20, 5.0), ("return", 20, 5.0)]
    starts = [event.step for event in events(tmp_path / "seed-7") if event.HasField("session_log")]
    assert starts == [11]


def test_weights_and_biases_gets_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[Any] = []
    run = SimpleNamespace(log=lambda values, step: logged.append((step, values)), finish=lambda: None)

    def init(**given: Any) -> Any:
        logged.append(given["config"])
        return run

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, __spec__=object()))
    board = WeightsAndBiases(tmp_path / "x", {"agent": "walker"})
    board.write(LINES[1:2])
    board.close()
    assert logged == [{"agent": "walker"}, (10, {"return/seed-7": 3.0, "env_steps": 10})]
