"""Figures are drawn from the files of runs."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from emcts.envs.deep_sea.render import heat_maps
from emcts.runs.config import Config
from emcts.runs.figure import _norm, draw_comparison, draw_maps, draw_run, write_png
from emcts.runs.folder import Folder
from emcts.runs.logging.maps import MapHistory
from emcts.runs.logging.metrics import MetricsLine

LINES: list[MetricsLine] = [
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


def test_maps_say_what_happened(folder: Folder) -> None:
    history = MapHistory.read(folder.path / "maps.npz")
    for step in (10, 20):
        history = history.add(step, {"visits": np.full((2, 5, 5), step)})
    folder.metrics.append([{"seed": 0, "env_steps": 20, "first_reward_step": 14}])
    folder.metrics.append([{"seed": 7, "env_steps": 20, "solved_step": 9}])
    figure = Figure()
    draw_maps(figure, history, folder)
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["10 steps\n", "20 steps\nfirst reward"], "of the seed that is drawn"


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


def test_png_is_a_small_picture(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).random((100, 100))
    file = write_png(heat_maps({"a": noise, "b": noise, "c": noise}), tmp_path / "map.png")
    assert 1_000 < file.stat().st_size < 300_000
    pixels = matplotlib.image.imread(file)
    assert pixels.shape[1] > 2 * pixels.shape[0], "three panels side by side"
    assert pixels.std() > 0.05


def test_png_gives_up_resolution_before_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = heat_maps({"": np.random.default_rng(0).random((100, 100))})
    full = write_png(figure, tmp_path / "full.png").stat().st_size
    monkeypatch.setattr("emcts.runs.figure.MAX_PNG_BYTES", full)
    assert write_png(figure, tmp_path / "less.png").stat().st_size < full
    monkeypatch.setattr("emcts.runs.figure.MAX_PNG_BYTES", 1_000)
    with pytest.raises(ValueError, match="over 300 kB"):
        write_png(figure, tmp_path / "none.png")
