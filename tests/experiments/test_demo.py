"""The demo: that its agent learns, when it stops, and what it prints and draws."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from emcts import cli
from emcts.agents.catalogue import installed
from emcts.cli import demo
from emcts.experiments.demo import Demo, latest_metrics
from emcts.runs.drive import drive
from emcts.runs.logging.display import Display
from emcts.runs.logging.maps import MapHistory
from emcts.runs.logging.metrics import is_solved
from emcts.training.progress import Piece, Progress


@pytest.mark.long
def test_an_agent_learns_and_stops_when_it_is_solved(tmp_path: Path) -> None:
    job = Demo(size=4, seeds=2, steps=1000).job("e-az", tmp_path, 1000)
    folder = job.folder(installed(), "")
    drive(job.trainer(installed(), folder), folder, Display(), "", stop=is_solved)
    latest = latest_metrics(folder)
    for metrics in latest.values():
        assert metrics["env_steps"] < 1000
        assert metrics["return"] == pytest.approx(0.99)
        assert metrics["first_reward_step"] <= metrics["solved_step"]
    history = MapHistory.read(folder.path / "maps.npz")
    visits = np.nan_to_num(history.maps["visits"][-1])
    np.testing.assert_array_equal(visits.sum(axis=(1, 2)), history.env_steps[-1])
    assert (visits[0] > 0).sum() <= latest[0]["states_discovered"] <= 4 * 5 // 2


@dataclass(frozen=True)
class Scripted:
    """Seeds that discover more and more states, and return the goal's reward from `found_at` on."""

    seeds: tuple[int, ...]
    total_env_steps: int
    found_at: float
    shardings: None = None
    chunk_shardings: None = None

    def init(self) -> Array:
        return jnp.zeros(len(self.seeds), jnp.int32)

    def compilations(self, state: Array) -> dict[str, Any]:
        return {}

    def begin_chunk(self) -> Array:
        return jnp.zeros(0)

    def run_piece(self, state: Array, chunk: Array, iterations: int) -> tuple[Array, Array, Piece]:
        return state + 100, chunk, Piece(int(state[0]) + 100, 1, True, False, True)

    def advance(self, state: Array) -> tuple[Array, Progress]:
        return self.end_chunk(state + 100, self.begin_chunk())

    def report(self, state: Array, chunk: Array) -> Progress:
        raise AssertionError("its chunks are one piece")

    def end_chunk(self, state: Array, chunk: Array) -> tuple[Array, Progress]:
        step = int(state[0])
        found, count = step >= self.found_at, len(self.seeds)
        metrics = {
            "return": np.full(count, 0.99 if found else -0.01),
            "solved": np.full(count, float(found)),
            "states_discovered": np.full(count, step / 100),
            "first_reward_step": np.array([self.found_at - 50.0, self.found_at - 10.0])
            if found
            else np.full(count, np.nan),
            "solved_step": np.full(count, self.found_at if found else np.nan),
        }
        return state, Progress(step, step, metrics)

    def evaluate(self, state: Array, *, episodes: int, beta: float, seed: int) -> dict[str, np.ndarray]:
        raise AssertionError("the demo evaluates nothing besides")

    def maps(self, state: Array) -> dict[str, np.ndarray]:
        grid = np.full((len(self.seeds), 6, 6), int(state[0]) / 100)
        return {"visits": grid, "UBE std": grid, "search std": grid}


def script(monkeypatch: pytest.MonkeyPatch, found_at: dict[str, float]) -> None:
    def trainer(self: Any, environment: str, agent: str, settings: Any, seeds: tuple[int, ...]) -> Scripted:
        return Scripted(seeds, settings.steps, found_at[agent])

    monkeypatch.setattr(type(installed()), "trainer", trainer)
    monkeypatch.setattr(demo, "_page", lambda run, out: out / run.path.name / "inspect.html")


def test_table_figure_and_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(monkeypatch, {"e-az": 500.0, "az": 900.0})
    command = ["demo", "--size", "6", "--seeds", "2", "--out", str(tmp_path / "new")]
    cli.main(command)
    out = " ".join(capsys.readouterr().out.split())
    assert "found the goal on 2 of 2 seeds, after 470 steps on average" in out
    assert "found it on 0 of 2 seeds within 500 steps" in out
    assert "once in 64 episodes" in out
    assert "move by move, for your browser" in out
    assert "0 E-AZ 5 of 21 450 500 0.990" in out
    assert "1 AZ 5 of 21 never never -0.010" in out
    assert 10_000 < (tmp_path / "new" / "deep-sea.png").stat().st_size < 300_000
    before = (tmp_path / "new" / "e-az" / "metrics.jsonl").read_text()
    cli.main(command)
    assert (tmp_path / "new" / "e-az" / "metrics.jsonl").read_text() == before, "it trained no further"


def test_it_ends_without_the_goal_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A figure of a run with a single evaluation is drawn, too."""
    script(monkeypatch, {"e-az": math.inf, "az": math.inf})
    cli.main(["demo", "--size", "6", "--seeds", "2", "--steps", "100", "--out", str(tmp_path)])
    assert "found it on 0 of 2 seeds within 100 steps" in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "deep-sea.png").stat().st_size > 10_000


@pytest.mark.parametrize("bad", [{"size": 1}, {"steps": 0}, {"seeds": 0}])
def test_bad_settings(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="size|steps|seeds"):
        Demo(**bad)
