"""The demo: that its agent learns, what is read off it, and how it is told."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from emcts import cli
from emcts.cli import demo as command
from emcts.experiments.demo import Demo, Snapshot, begin, curve, draw, solved_steps, training, treasure_steps
from emcts.training.progress import Progress


def test_an_agent_learns() -> None:
    demo = Demo(size=4, seeds=2, steps=1000)
    trainer = demo.trainer("e-az")
    run = training(trainer)
    learning = list(begin({"e-az": run}).values())
    while not learning[-1].solved:
        assert learning[-1].env_steps < demo.steps
        learning.append(next(run))
    np.testing.assert_allclose(curve(learning, "return").values[:, -1], 0.99, rtol=1e-5)
    assert np.all(treasure_steps(learning) <= solved_steps(learning))
    visits = np.nan_to_num(learning[-1].maps["visits"])
    np.testing.assert_array_equal(visits.sum(axis=(1, 2)), learning[-1].env_steps)
    np.testing.assert_array_equal(
        (visits > 0).sum(axis=(1, 2)), curve(learning, "states_discovered").values[:, -1]
    )


def made_up(found_at: float) -> Iterator[Snapshot]:
    """Two seeds that see more and more, and return the treasure from `found_at` on."""
    for step in range(100, 2000, 100):
        found = step >= found_at
        metrics = {
            "return": np.full(2, 0.99 if found else -0.01),
            "solved": np.full(2, float(found)),
            "states_discovered": np.full(2, step / 100),
            "first_reward_step": np.array([found_at - 50.0, found_at - 10.0])
            if found
            else np.full(2, np.nan),
            "solved_step": np.full(2, float(found_at) if found else np.nan),
        }
        maps = {name: np.full((2, 6, 6), step / 100) for name in ("visits", "UBE std", "search std")}
        yield Snapshot(Progress(step, step, metrics), maps)


def test_what_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = iter([made_up(500), made_up(900)])
    monkeypatch.setattr(command, "training", lambda trainer: next(runs))
    cli.main(["demo", "--size", "6", "--seeds", "2", "--out", str(tmp_path / "new")])
    told = " ".join(capsys.readouterr().out.split())
    assert "found the treasure in 2 of 2 seas, after 470 steps on average" in told
    assert "found it in 0 of 2 seas within 500 steps" in told
    assert "once in 64 episodes" in told
    assert "0 E-AZ 5 of 21 450 500 0.990" in told
    assert "1 AZ 5 of 21 never never -0.010" in told
    assert 10_000 < (tmp_path / "new" / "deep-sea.png").stat().st_size < 300_000


def test_it_ends_without_the_treasure_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "training", lambda trainer: made_up(np.inf))
    monkeypatch.setattr(command, "draw", lambda learnings, file: file)
    command.demo(size=6, seeds=2, steps=300, out=tmp_path)
    assert "found it in 0 of 2 seas within 300 steps" in " ".join(capsys.readouterr().out.split())


def test_a_picture_of_a_short_run(tmp_path: Path) -> None:
    once = [next(made_up(500))]
    assert draw({"e-az": once, "az": once}, tmp_path / "demo.png").stat().st_size > 10_000


@pytest.mark.parametrize("bad", [{"size": 1}, {"steps": 0}, {"seeds": 0}])
def test_bad_settings(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="size|steps|seeds"):
        Demo(**bad)
