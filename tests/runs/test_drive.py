"""Driving a run: interrupted and resumed equals never interrupted, and every error leaves a usable run."""

import dataclasses
import errno
import json
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from emcts.api import Run
from emcts.runs import pacing
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import CheckpointSchedule, Config, plain
from emcts.runs.curves import has_curves
from emcts.runs.drive import RunResult, drive
from emcts.runs.files import DiskFull, write_atomically
from emcts.runs.folder import Folder, status
from emcts.runs.logging.display import Display, LineDisplay
from emcts.runs.logging.maps import MapHistory
from emcts.runs.logging.metrics import MetricsLine
from emcts.runs.stored_json import JsonLines
from emcts.training.progress import Piece
from tests.runs.toy import CHUNK, ToyNovelty, ToySettings, ToyState, ToyTrainer

SEEDS = (3, 5)
EVERY_THREE = CheckpointSchedule(chunks=3)
EARLY = (25, 50)  # steps of the first chunk after which metrics are reported


@dataclasses.dataclass(frozen=True)
class Watched(ToyTrainer):
    """Does something after a step: after the piece that reaches it, and after its chunk if it ends one."""

    step: int
    then: Callable[[], Any]

    def run_piece(self, state, chunk, iterations):
        if self.step % CHUNK:
            iterations = 1
        state, chunk, piece = super().run_piece(state, chunk, iterations)
        if piece.env_steps == self.step and not piece.is_last:
            self.then()
        return state, chunk, piece

    def end_chunk(self, state, chunk):
        state, progress = super().end_chunk(state, chunk)
        if progress.env_steps == self.step:
            self.then()
        return state, progress


def make(path: Path, settings: ToySettings | None = None) -> Folder:
    config = Config("plain", "walker", None, SEEDS, plain(settings or ToySettings()), EVERY_THREE)
    return Folder.create(path, config, {"command": "emcts train"})


def go(folder: Folder, trainer: ToyTrainer | None = None) -> tuple[RunResult, list[str]]:
    said: list[str] = []
    result = drive(
        trainer or ToyTrainer(ToySettings(), SEEDS), folder, LineDisplay(said.append), "emcts train"
    )
    return result, said


def interrupted(folder: Folder, step: int, number: int = signal.SIGTERM) -> RunResult:
    return go(
        folder,
        Watched(ToyTrainer(ToySettings(), SEEDS).settings, SEEDS, step, lambda: os.kill(os.getpid(), number)),
    )[0]


def timeless(lines: JsonLines[MetricsLine]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines.read()]


def final_state(folder: Folder) -> ToyState:
    restored = Checkpoints(folder.checkpoints).restore(ToyTrainer(ToySettings(), SEEDS).init())
    assert restored is not None
    return restored.state


def assert_equal_runs(one: Folder, two: Folder) -> None:
    assert timeless(one.metrics) == timeless(two.metrics)
    assert one.artifacts.read() == two.artifacts.read()
    for seed in SEEDS:
        name = f"artifacts/seed-{seed}.words"
        assert (one.path / name).read_text() == (two.path / name).read_text()
    maps, others = (MapHistory.read(folder.path / "maps.npz") for folder in (one, two))
    np.testing.assert_array_equal(maps.env_steps, others.env_steps)
    jax.tree.map(np.testing.assert_array_equal, dict(maps.maps), dict(others.maps))
    here, there = final_state(one), final_state(two)
    np.testing.assert_array_equal(jax.random.key_data(here.key), jax.random.key_data(there.key))
    np.testing.assert_array_equal(here.weights, there.weights)
    summaries = [{**folder.summary(), "seeds": None} for folder in (one, two)]
    assert summaries[0] == summaries[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A run that was never interrupted."""
    folder = make(tmp_path_factory.mktemp("runs") / "whole")
    assert go(folder)[0].state == "finished"
    return folder


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `whole` is drawn: a picture takes longer than all the rest of a toy run."""
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)


def test_a_finished_run_has_everything(whole: Folder) -> None:
    lines = whole.metrics.read()
    steps = [line["env_steps"] for line in lines if line["seed"] == 5]
    assert steps == [*EARLY, *range(100, 1001, 100)]
    assert ["return" in line for line in lines if line["seed"] == 5][:4] == [False, False, False, True]
    assert all("nan_step" not in line for line in lines)
    summary = whole.summary()
    assert summary["state"] == "finished"
    assert summary["seeds_solved"] == 1
    first, second = summary["seeds"]
    assert (first["seed"], first["first_reward_step"], first["solved_step"]) == (3, 300, 500)
    assert (second["solved_step"], second["env_steps"], second["train_steps"]) == (None, 1000, 100)
    assert (first["regret_step"], second["regret_step"]) == (400, None)
    assert second["simulator_steps"] == lines[-1]["simulator_steps"] == 2**40 + 32_000, "to the last digit"
    assert second["final_return"] == lines[-1]["return"]
    assert {"command", "commit", "versions", "device", "machine"} <= set(summary)
    assert (whole.path / "figure.png").stat().st_size < 300_000
    assert list((whole.path / "tensorboard" / "seed-3").iterdir())
    assert Checkpoints(whole.checkpoints).steps() == [900, 1000]


def test_every_artifact_is_kept_once(whole: Folder) -> None:
    found = [line for line in Run(whole.path).artifacts() if line["seed"] == 3]
    assert [(line["env_steps"], line["data"]["words"]) for line in found] == [
        (200, [14, 13, 3]),
        (400, [14, 13, 4]),
        (600, [14, 13, 5]),
        (1000, [14, 13, 6]),
    ]
    text = (whole.path / "artifacts" / "seed-3.words").read_text()
    assert text == "".join(line["text"] for line in found)
    assert text.endswith("step 600: [14, 13, 5]\nstep 1,000: [14, 13, 6]\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_finishes_the_chunk_and_resume_goes_on(
    tmp_path: Path, whole: Folder, number: int, code: int
) -> None:
    folder = make(tmp_path / "run")
    result = interrupted(folder, 400, number)
    assert (result.state, result.exit_code) == ("stopped", code)
    assert f"emcts resume {folder.path}" in result.message
    assert Checkpoints(folder.checkpoints).steps() == [300, 400]
    assert folder.summary()["state"] == "stopped"
    assert folder.metrics.read()[-1]["env_steps"] == 400
    _, said = go(folder)
    assert said[0] == "resumes from step 400"
    assert_equal_runs(folder, whole)


@pytest.mark.parametrize("step", [25, 450, 975])
def test_a_signal_in_a_chunk_stops_after_the_piece_and_resume_goes_on(
    tmp_path: Path, whole: Folder, step: int
) -> None:
    folder = make(tmp_path / "run")
    result = interrupted(folder, step)
    assert (result.state, result.message) == (
        "stopped",
        f"stopped and saved at step {step}: continue with `emcts resume {folder.path}`",
    )
    assert Checkpoints(folder.checkpoints).steps()[-1] == step
    assert folder.summary()["state"] == "stopped"
    early = [when for when in EARLY if when <= step]
    assert len(folder.metrics.read()) == 2 * (len(early) + step // CHUNK)
    result, said = go(folder)
    assert said[0] == f"resumes from step {step}"
    assert_equal_runs(folder, whole)


def test_the_first_save_comes_soon_and_in_the_middle_of_a_chunk(
    tmp_path: Path, whole: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed soon after: metrics and state are as if it had never been."""

    def crash() -> None:
        raise RuntimeError("crash")

    monkeypatch.setattr(pacing, "FIRST_SAVE_SECONDS", 0.0)
    config = dataclasses.replace(whole.config(), schedule=CheckpointSchedule())
    folder = Folder.create(tmp_path / "run", config, {})
    with pytest.raises(RuntimeError):
        go(folder, Watched(ToySettings(), SEEDS, 75, crash))
    assert Checkpoints(folder.checkpoints).steps() == [25]
    with pytest.raises(RuntimeError):
        go(folder, Watched(ToySettings(), SEEDS, 375, crash))
    assert Checkpoints(folder.checkpoints).steps() == [25, 50]
    assert go(folder)[1][0] == "resumes from step 50"
    assert_equal_runs(folder, whole)


def test_metrics_come_before_the_first_evaluation(tmp_path: Path, whole: Folder) -> None:
    """A run that is killed in its first chunk has lines, which every reader takes, and which come once."""

    def crash() -> None:
        raise RuntimeError("crash")

    folder = make(tmp_path / "run")
    with pytest.raises(RuntimeError):
        go(folder, Watched(ToySettings(), SEEDS, 75, crash))
    early = timeless(folder.metrics)
    assert early == timeless(whole.metrics)[: 2 * len(EARLY)]
    assert all({"train_steps", "draw"} < set(line) and "return" not in line for line in early)
    assert not has_curves(folder)
    assert status(folder).mean_return is None
    interrupted(folder, 75)
    assert timeless(folder.metrics) == early
    summary = folder.summary()
    assert (summary["mean_final_return"], summary["seeds"][0]["env_steps"]) == (None, EARLY[-1])
    assert status(folder).state == "stopped"
    go(folder)
    assert_equal_runs(folder, whole)


def test_a_checkpoint_in_a_chunk_has_no_score(tmp_path: Path) -> None:
    """Nothing was evaluated there: the best is one of those that were."""
    folder = make(tmp_path / "run")
    interrupted(folder, 625)
    best = Checkpoints(folder.checkpoints).restore(ToyTrainer(ToySettings(), SEEDS).init(), best=True)
    assert best is not None
    assert best.env_steps == 600
    assert best.chunk is None


def test_a_loss_that_is_not_finite_is_never_saved(tmp_path: Path) -> None:
    """A signal in the chunk in which it happens leaves the last good checkpoint as the newest."""
    settings = ToySettings(nan_at=525)
    folder = make(tmp_path / "run", settings)
    trainer = Watched(settings, SEEDS, 550, lambda: os.kill(os.getpid(), signal.SIGTERM))
    result, _ = go(folder, trainer)
    assert result.state == "stopped"
    assert "without saving, since a loss was not finite" in result.message
    assert result.message.endswith("from step 300")
    assert Checkpoints(folder.checkpoints).steps() == [300]
    assert go(folder, ToyTrainer(settings, SEEDS))[0].state == "broken"


@pytest.mark.parametrize("step", [250, 400])
def test_a_signal_is_shown_until_the_end(tmp_path: Path, step: int) -> None:
    shown: list[str] = []

    class Watching(Display):
        def stopping(self, text: str) -> None:
            shown.append(text)

    folder = make(tmp_path / "run")
    heard = threading.Event()

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while not shown and not heard.wait(0.01):
            pass  # the thread that shows it is another one

    drive(Watched(ToySettings(), SEEDS, step, press), folder, Watching(), "emcts train")
    what = "this piece of training" if step == 250 else "this evaluation"
    lost = "what was trained" if step == 250 else "what was trained since step 300"
    text = rf"stopping after {what} \(about [12] s\), to save; Ctrl-C again to leave at once and lose {lost}"
    assert re.fullmatch(text, shown[0])
    assert shown[-1].startswith("saving, then stopping")


def test_a_signal_before_anything_was_trained(tmp_path: Path, whole: Folder) -> None:
    class Slow(ToyTrainer):
        def compilations(self, state):
            return {"training": lambda: os.kill(os.getpid(), signal.SIGTERM)}

    folder = make(tmp_path / "run")
    result, said = go(folder, Slow(ToySettings(), SEEDS))
    assert (result.state, result.exit_code) == ("stopped", 143)
    assert said[0] == "compiling training ..."
    assert "compiled training in 0 s" in said
    assert "stopped before anything was trained: continue with" in said[-1]
    assert Checkpoints(folder.checkpoints).steps() == []
    go(folder)
    assert_equal_runs(folder, whole)


@pytest.mark.parametrize("also", [None, "notes.txt", "checkpoints/25"])
def test_a_new_run_that_is_stopped_before_anything_was_trained_leaves_no_folder(
    tmp_path: Path, also: str | None
) -> None:
    class Slow(ToyTrainer):
        def compilations(self, state):
            return {"training": lambda: os.kill(os.getpid(), signal.SIGTERM)}

    said: list[str] = []
    folder = make(tmp_path / "run")
    if also is not None:
        (folder.path / also).parent.mkdir(exist_ok=True)
    if also == "notes.txt":
        (folder.path / also).write_text("mine")
    elif also is not None:
        (folder.path / also).mkdir()
    display = LineDisplay(said.append)
    result = drive(Slow(ToySettings(), SEEDS), folder, display, "emcts train", is_new=True)
    assert (result.state, result.exit_code) == ("stopped", 143)
    assert folder.path.exists() == (also is not None)
    assert ("is removed, the same command begins anew" in said[-1]) == (also is None)


def test_pieces_are_of_some_seconds() -> None:
    length = pacing.PieceLength()
    assert (length.iterations, length.seconds) == (1, None), "nothing is known before the first"
    length.update(Piece(10, 1, False, False, True), 0.1)
    assert length.iterations == 20
    assert length.seconds == pytest.approx(2)
    length.update(Piece(210, 20, False, False, True), 8.0)
    assert length.iterations == 5
    length.update(Piece(260, 5, False, True, True), 2.0)
    assert length.iterations == 1, "learning begins, and nobody knows how long that takes"
    length.update(Piece(270, 1, False, False, True), 60.0)
    assert (length.iterations, length.seconds) == (1, 60)


def test_when_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(pacing.time, "monotonic", lambda: now)
    timer = pacing.SaveTimer(CheckpointSchedule(seconds=120.0), since=0.0)
    due = []
    for now in (10.0, 16.0, 100.0, 250.0, 257.0, 370.0):
        if timer.is_due(in_chunk=True):
            due.append(now)
    assert due == [16.0, 257.0], "the first soon, later ones in a chunk only if it is long"
    now = 377.0
    assert timer.is_due(), "at the end of a chunk after the time of the schedule"


def test_a_crash_between_checkpoints_is_redone(tmp_path: Path, whole: Folder) -> None:
    """Metrics, artifacts and maps after the checkpoint are removed, and so is a line cut short."""

    def crash() -> None:
        raise RuntimeError("crash")

    folder = make(tmp_path / "run")
    with pytest.raises(RuntimeError):
        go(folder, Watched(ToySettings(), SEEDS, 600, crash))
    with folder.metrics.file.open("a") as file:
        file.write('{"seed": 3, "env_steps": 60')
    (folder.path / "artifacts" / "seed-5.words").unlink()
    assert folder.metrics.read()[-1]["env_steps"] == 500
    _, said = go(folder)
    assert said[0] == "resumes from step 300"
    assert_equal_runs(folder, whole)


def test_a_crash_before_the_first_checkpoint_starts_again(tmp_path: Path, whole: Folder) -> None:
    def crash() -> None:
        raise RuntimeError("crash")

    folder = make(tmp_path / "run")
    with pytest.raises(RuntimeError):
        go(folder, Watched(ToySettings(), SEEDS, 200, crash))
    assert [line["env_steps"] for line in folder.metrics.read()][::2] == [*EARLY, 100]
    assert go(folder)[0].state == "finished"
    assert_equal_runs(folder, whole)


def test_a_damaged_checkpoint_costs_one_interval(tmp_path: Path, whole: Folder) -> None:
    folder = make(tmp_path / "run")
    interrupted(folder, 700)
    (Checkpoints(folder.checkpoints).path(700) / "manifest.json").write_text("oops")
    result, said = go(folder)
    assert result.state == "finished"
    assert said[0] == "warning: manifest.json of step-000000000700 is not JSON; using an older checkpoint"
    assert said[1] == "resumes from step 600"
    assert_equal_runs(folder, whole)


def test_everything_damaged_is_an_error_that_changes_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "run")
    interrupted(folder, 200)
    (Checkpoints(folder.checkpoints).path(200) / "manifest.json").unlink()
    metrics = folder.metrics.file.read_bytes()
    with pytest.raises(ValueError, match="can be read"):
        go(folder)
    assert folder.metrics.file.read_bytes() == metrics


def test_a_longer_run_equals_one_that_was_always_long(tmp_path: Path) -> None:
    long = ToySettings(steps=1400)
    once = make(tmp_path / "once", long)
    go(once, ToyTrainer(long, SEEDS))
    twice = make(tmp_path / "twice")
    go(twice)
    twice.write_config(dataclasses.replace(twice.config(), settings=plain(long)), twice.provenance())
    assert go(twice, ToyTrainer(long, SEEDS))[0].state == "finished"
    assert timeless(once.metrics) == timeless(twice.metrics)
    np.testing.assert_array_equal(final_state(once).weights, final_state(twice).weights)


def test_changed_settings_are_refused_by_name(tmp_path: Path) -> None:
    folder = make(tmp_path / "run")
    interrupted(folder, 200)
    wide = ToySettings(ballast=9)
    folder.write_config(dataclasses.replace(folder.config(), settings=plain(wide)), {})
    with pytest.raises(ValueError, match="setting ballast is 8 in this run, got 9"):
        go(folder, ToyTrainer(wide, SEEDS))
    with pytest.raises(ValueError, match=r"trainer has seeds \[1\], the run \[3, 5\]"):
        go(folder, ToyTrainer(wide, (1,)))


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    settings = ToySettings(nan_at=500)
    folder = make(tmp_path / "run", settings)
    result, said = go(folder, ToyTrainer(settings, SEEDS))
    assert (result.state, result.exit_code) == ("broken", 1)
    assert "seed 5 at step 500" in result.message
    assert "last good checkpoint is at step 300" in result.message
    assert said[-1] == result.message
    assert (folder.checkpoints / "broken-000000000500").is_dir()
    assert folder.summary()["state"] == "broken"
    assert Checkpoints(folder.checkpoints).steps() == [300]
    again, said = go(folder, ToyTrainer(settings, SEEDS))
    assert said[0] == "resumes from step 300"
    assert again == result


def test_a_full_hash_table_is_warned_of_once(tmp_path: Path) -> None:
    settings = ToySettings(places=4000, novelty=ToyNovelty(12))
    folder = make(tmp_path / "run", settings)
    trainer = Watched(settings, SEEDS, 600, lambda: os.kill(os.getpid(), signal.SIGTERM))
    _, said = go(folder, trainer)
    warnings = [line for line in said if line.startswith("warning")]
    assert len(warnings) == 1
    assert "12.5% of the hash table is in use" in warnings[0]
    assert "raise --novelty.hash-bits (now 12)" in warnings[0]
    assert any("table full 15.0%" in line for line in said)
    assert [line["table_occupancy"] for line in folder.metrics.read()][-1] == 0.15
    _, said = go(folder, ToyTrainer(settings, SEEDS))
    assert not [line for line in said if line.startswith("warning")], "it warned before it was stopped"


def test_a_hash_table_with_room_is_not_warned_of(tmp_path: Path) -> None:
    settings = ToySettings(places=10_000)
    _, said = go(make(tmp_path / "run", settings), ToyTrainer(settings, SEEDS))
    assert any("table full 10.0%" in line for line in said)
    assert not [line for line in said if line.startswith("warning")]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    folder = make(tmp_path / "run")
    with folder.lock():
        assert folder.is_locked()
        with pytest.raises(ValueError, match="another process is training"):
            go(folder)
    assert not folder.is_locked()


@pytest.mark.parametrize(
    "where", ["emcts.runs.stored_json.JsonLines.append", "emcts.runs.checkpoints._write_arrays"]
)
def test_a_full_disk_stops_with_advice(
    tmp_path: Path, whole: Folder, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = make(tmp_path / "run")
    with monkeypatch.context() as patch:
        trainer = Watched(ToySettings(), SEEDS, 500, lambda: patch.setattr(where, full))
        with pytest.raises(DiskFull, match=r"the disk is full: .* continues from step 300"):
            go(folder, trainer)
    assert [path.name for path in folder.checkpoints.iterdir()] == ["step-000000000300"]
    go(folder)
    assert_equal_runs(folder, whole)


def test_a_file_is_replaced_in_full_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_atomically(tmp_path / "file", "before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(DiskFull, match=f"no space left to write {file}"):
            write_atomically(file, "after")
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_damage_in_the_middle_of_the_metrics_is_named(tmp_path: Path) -> None:
    lines: JsonLines[MetricsLine] = JsonLines(tmp_path / "metrics.jsonl", MetricsLine)
    lines.append([{"seed": 0, "env_steps": 1}, {"seed": 0, "env_steps": 2}])
    lines.file.write_text(lines.file.read_text().replace("1}", "1"))
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        lines.read()


def test_a_run_never_overwrites_files(tmp_path: Path, whole: Folder) -> None:
    with pytest.raises(ValueError, match="holds a run already: continue it with `emcts resume"):
        make(whole.path)
    (tmp_path / "summary.json").write_text("mine")
    with pytest.raises(ValueError, match="holds summary.json, which a run would overwrite"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    (tmp_path / "summary.json").rename(tmp_path / "notes.txt")
    make(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["seeds"] == [3, 5]
    assert (tmp_path / "notes.txt").read_text() == "mine"
