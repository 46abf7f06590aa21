"""Writing files: whole, under names of their own, and never through a link."""

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from emcts.runs import files
from emcts.runs.config import CheckpointSchedule, Config, plain
from emcts.runs.files import append, create_exclusively, make_folder, remove, write_atomically
from emcts.runs.folder import Folder
from emcts.runs.logging.artifacts import ArtifactWriter
from emcts.runs.logging.tensorboard import TensorBoard
from tests.runs.toy import ToySettings


def config(**changes: Any) -> Config:
    named = {"environment": "plain", "agent": "walker", "preset": None, "seeds": (0, 1)}
    return Config(**{**named, "settings": plain(ToySettings()), **changes})


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    return Folder.create(tmp_path / "run", config(), {"command": "emcts train"})


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text("mine")
    return file


def test_a_lock_that_is_a_link_is_refused(run: Folder, victim: Path) -> None:
    (run.path / ".lock").symlink_to(victim)
    with pytest.raises(ValueError, match="is a symbolic link"), run.lock():
        pass
    assert victim.read_text() == "mine"


def test_a_lock_that_is_a_pipe_does_not_block(run: Folder) -> None:
    os.mkfifo(run.path / ".lock")
    assert not run.is_locked()
    with pytest.raises(ValueError, match="is not a regular file"), run.lock():
        pass


def test_a_link_in_the_place_of_a_file_is_replaced(run: Folder, victim: Path) -> None:
    for name in ("figure.png", ".figure.png.partial", "summary.json"):
        (run.path / name).symlink_to(victim)
    write_atomically(run.path / "figure.png", "a figure")
    run.write("summary.json", {})
    assert victim.read_text() == "mine"
    assert (run.path / "figure.png").read_text() == "a figure"
    assert not (run.path / "summary.json").is_symlink()


def test_a_link_is_not_appended_to(run: Folder, victim: Path) -> None:
    run.metrics.file.symlink_to(victim)
    with pytest.raises(ValueError, match="is a symbolic link"):
        run.metrics.append([{"seed": 0, "env_steps": 1}])
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("linked", ["tensorboard", "tensorboard/seed-1", "tensorboard/seed-0/events"])
def test_events_are_not_written_through_links(run: Folder, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run.path / linked).parent.mkdir(parents=True, exist_ok=True)
    (run.path / linked).symlink_to(elsewhere)
    with pytest.raises(ValueError, match="is a symbolic link"):
        TensorBoard(run, 0)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        {"seed": "x/../../../victim"},
        {"seed": 0.5},
        {"seed": True},
        {"suffix": "/../../victim"},
        {"suffix": ""},
        {"text": 5},
        {"data": []},
        {"env_steps": None},
    ],
)
def test_an_artifact_leads_nowhere_else(run: Folder, victim: Path, line: dict[str, Any]) -> None:
    good = {"seed": 0, "env_steps": 1, "data": {}, "text": "", "suffix": ".txt"}
    run.artifacts.file.write_text(json.dumps({**good, **line}) + "\n")
    with pytest.raises(ValueError, match="artifacts.jsonl, line 1|is no suffix"):
        ArtifactWriter(run.artifacts, run.path / "artifacts", 5)
    assert victim.read_text() == "mine"
    assert not (run.path / "artifacts").exists()


def test_a_folder_of_artifacts_that_is_a_link_is_refused(run: Folder, tmp_path: Path) -> None:
    (run.path / "artifacts").symlink_to(tmp_path)
    run.artifacts.append([{"seed": 0, "env_steps": 1, "data": {}, "text": "a", "suffix": ".txt"}])
    with pytest.raises(ValueError, match="is a symbolic link"):
        ArtifactWriter(run.artifacts, run.path / "artifacts", 5)
    assert not (tmp_path / "seed-0.txt").exists()


def test_removing_a_link_leaves_what_it_leads_to(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(victim)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert (tmp_path / "folder" / "link").is_symlink()
    remove(tmp_path / "folder")
    remove(tmp_path / "nothing")
    assert victim.read_text() == "mine"


def test_what_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    folder = Folder.create(tmp_path / "runs" / "a", config(), {})
    make_folder(folder.path, "tensorboard", "seed-0")
    append(folder.path / "tensorboard" / "seed-0" / "events", b"x")
    assert (tmp_path / "disk" / "a" / "tensorboard" / "seed-0" / "events").read_bytes() == b"x"


def all_at_once(work: Any, count: int) -> list[Any]:
    """The results of calls in threads that start together; an error is a result."""
    barrier, results = threading.Barrier(count), []

    def one(number: int) -> None:
        barrier.wait()
        try:
            results.append(work(number))
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_runs_that_start_together_have_folders_of_their_own(tmp_path: Path) -> None:
    made = all_at_once(lambda seed: Folder.create_next(tmp_path, config(seeds=(seed,)), {}), 8)
    assert {folder.path.name for folder in made} == {f"plain-walker-{number}" for number in range(1, 9)}
    assert sorted(folder.config().seeds for folder in made) == [(seed,) for seed in range(8)]


@pytest.mark.parametrize("links", [True, False])
def test_one_of_several_runs_gets_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Also on a file system without hard links."""
    if not links:

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(1, "not supported")

        monkeypatch.setattr(os, "link", refuse)
    results = all_at_once(lambda seed: Folder.create(tmp_path / "a", config(seeds=(seed,)), {}), 8)
    errors = [result for result in results if isinstance(result, Exception)]
    assert len(errors) == 7
    assert all("holds a run already" in str(error) for error in errors)
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["config.json"]


def test_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    texts = [str(number) * 100_000 for number in range(8)]
    assert not any(
        isinstance(result, Exception)
        for result in all_at_once(lambda number: write_atomically(tmp_path / "file", texts[number]), 8)
    )
    assert (tmp_path / "file").read_text() in texts
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_what_killed_writers_left_is_removed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / ".config.json.0f.partial").write_text("half")
    (tmp_path / ".x.partial").symlink_to(victim)
    files.remove_partial(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["victim"]
    with pytest.raises(FileExistsError):
        create_exclusively(victim, "other")
    assert victim.read_text() == "mine"


def test_json_is_valid_json(run: Folder) -> None:
    file = run.write("evaluation.json", {"mean": math.nan, "seeds": [{"return": (1.0, -math.inf)}]})
    assert json.loads(file.read_text(), parse_constant=lambda _: pytest.fail("not JSON")) == {
        "mean": None,
        "seeds": [{"return": [1.0, None]}],
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": (-1,)}, "seed -1: seeds are from 0 to 4,294,967,295"),
        ({"seeds": (2**32,)}, "seed 4294967296"),
        ({"seeds": (1, 1)}, "repeat"),
        ({"environment": "a\x1b[2Jb"}, "is no name"),
        ({"settings": {"exploration": {"beta": math.nan}}}, "setting exploration.beta is nan: give a finite"),
        ({"settings": {"importance": [0.0, math.inf]}}, "setting importance is inf"),
    ],
)
def test_a_configuration_is_checked_before_a_folder_is_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)
    with pytest.raises(ValueError, match="finite number above 0"):
        CheckpointSchedule(seconds=math.nan)


def fails(folder: Folder, error: BaseException, trained: bool) -> None:
    with folder.discarded_on_error(), folder.lock():
        make_folder(folder.path, "tensorboard", "seed-0")
        if trained:
            folder.metrics.append([{"seed": 0, "env_steps": 1}])
        raise error


def test_a_run_that_fails_before_it_trains_leaves_nothing(tmp_path: Path) -> None:
    """The corrected command finds its folder free; what was there before stays."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="too large"):
            fails(Folder.create(tmp_path / "run", config(), {}), RuntimeError("too large"), trained=False)
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["notes.txt"]
    with pytest.raises(ValueError, match="bad"):
        fails(Folder.create(tmp_path / "other", config(), {}), ValueError("bad"), trained=False)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("error", "trained"), [(RuntimeError(), True), (KeyboardInterrupt(), False)])
def test_a_run_that_can_go_on_is_kept(tmp_path: Path, error: BaseException, trained: bool) -> None:
    folder = Folder.create(tmp_path / "run", config(), {})
    with pytest.raises(type(error)):
        fails(folder, error, trained)
    assert (folder.path / "config.json").exists()
