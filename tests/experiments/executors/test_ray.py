"""A sweep on Ray, with toys: workers die, stop and fail, and the sweep ends as if one process had trained it."""

import io
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from emcts.cli import main
from emcts.experiments.executors.executor import Executor, SweepRequest, SweepResult
from emcts.experiments.executors.ray import RayExecutor, on_ray
from emcts.experiments.executors.resources import Resources
from emcts.experiments.paper import EXPERIMENTS
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.sweeps.job import Job, jobs
from emcts.experiments.sweeps.plan import plan
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import CheckpointSchedule, Config, plain
from emcts.runs.drive import drive
from emcts.runs.folder import Folder, find_runs, status
from emcts.runs.logging.display import LineDisplay
from tests.experiments.executors.workers import DIES_AT, MARKS, STOPS_AT, MarkedCatalogue, begun, without_time
from tests.experiments.toy_figure import analyse, draw
from tests.runs.toy import ToyTrainer

SEEDS_PER_RUN = {"cpu": 2, "gpu": 2}
WALK = RunSpec("walk", "Walker", "hilly", "walker", seeds=4, paper_preset="long", seeds_per_run=SEEDS_PER_RUN)
RUN = RunSpec("run", "Runner", "plain", "runner", seeds=4, paper_preset="long", seeds_per_run=SEEDS_PER_RUN)
SWEEP = """
[[runs]]
name = "nan"
environment = "plain"
agent = "walker"
seeds = 1
settings = {nan_at = 300}

[[runs]]
environment = "hilly"
agent = "runner"
seeds = 2
seeds_per_run = 1
"""
EXPERIMENT = Experiment(
    "toy", "walks", (WALK, RUN), (), analyse, draw, {"summary": ("label", "seeds", "found")}
)


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("marks")
    os.environ[MARKS] = str(folder)
    yield folder
    del os.environ[MARKS]


@pytest.fixture(scope="module")
def executor(marks: Path) -> Iterator[RayExecutor]:
    """One Ray for all tests of this file: it takes seconds to start."""
    with on_ray(None, Resources()) as ray:
        yield ray


@pytest.fixture
def in_workers(executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a folder of its own, with commands that train marked toys on that Ray."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emcts.agents.catalogue.installed", MarkedCatalogue)
    monkeypatch.setattr(
        "emcts.experiments.executors.ray.on_ray", lambda address, resources: nullcontext(executor)
    )
    monkeypatch.setitem(EXPERIMENTS, "toy", EXPERIMENT)
    return tmp_path


def swept(executor: Executor, specs: list[RunSpec], out: Path) -> tuple[SweepResult, list[Job], str]:
    catalogue, screen = MarkedCatalogue(), io.StringIO()
    found = jobs(specs, out, catalogue, "cpu")
    planned = plan(found, catalogue, "an abacus")
    outcome = executor.run(
        SweepRequest(planned, MarkedCatalogue, Console(file=screen, width=200), "emcts reproduce toy")
    )
    return outcome, found, screen.getvalue()


@pytest.mark.long
def test_a_killed_worker_and_a_stopped_one_change_nothing(
    in_workers: Path, marks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Path("runs/reproduce")
    often = CheckpointSchedule(
        chunks=2, keep=2
    )  # a sweep saves every few minutes, and the run is to die before that
    dying = Config("hilly", "walker", None, (0, 1), plain(WALK.settings(MarkedCatalogue())), often)
    Folder.create(runs / "walk-seeds-0-1", dying, {})

    main(["reproduce", "toy", "--on", "ray", "--first-seed", "0"])
    out = capsys.readouterr().out
    assert "4 runs on Ray" in out
    assert f"walk-seeds-0-1: resumes from step {DIES_AT}" in out
    assert Path("results/toy/toy.png").exists()
    for name, step in [("hilly-walker-0", DIES_AT), ("hilly-walker-2", STOPS_AT)]:
        processes = list(dict.fromkeys(process for process, _ in begun(marks, name)))
        assert len(processes) == 2
        assert os.getpid() not in processes
        steps = [[at for process, at in begun(marks, name) if process == one] for one in processes]
        assert steps[0][0] == 0
        assert steps[0][-1] == step
        assert steps[1][0] == (DIES_AT if step == DIES_AT else STOPS_AT + 100), "went on from its checkpoint"
    for folder in map(Folder.open, sorted(runs.iterdir())):
        assert status(folder).state == "finished"
        alone = Folder.create(in_workers / "alone" / folder.path.name, folder.config(), {})
        settings = (WALK if folder.path.name.startswith("walk") else RUN).settings(MarkedCatalogue())
        drive(ToyTrainer(settings, folder.config().seeds), alone, LineDisplay(lambda text: None), "")
        assert without_time(folder.metrics.read()) == without_time(alone.metrics.read())
    before = sorted((file, file.stat().st_mtime_ns) for file in runs.rglob("*"))

    main(["reproduce", "toy", "--on", "ray", "--first-seed", "0"])
    assert "runs on Ray" not in capsys.readouterr().out
    assert sorted((file, file.stat().st_mtime_ns) for file in runs.rglob("*")) == before


@pytest.mark.long
def test_runs_that_break_or_fail_leave_the_others_alone(
    in_workers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.toml").write_text(SWEEP)
    with pytest.raises(SystemExit) as caught:
        main(["sweep", "mine.toml", "--on", "ray"])
    assert caught.value.code == 1
    out = capsys.readouterr().out
    assert "runs/sweep-mine/nan-seeds-0-0: a loss was not finite or exploded: seed 0 at step 300" in out
    assert "RuntimeError: the runner fell" in out
    assert "runner-hilly-seeds-0-0: finished" in out
    runs = {folder.path.name: status(folder).state for folder in find_runs(Path("runs/sweep-mine"))}
    assert runs == {
        "nan-seeds-0-0": "broken",
        "runner-hilly-seeds-0-0": "finished",
        "runner-hilly-seeds-1-1": "stopped",
    }


def test_a_signal_stops_the_sweep_after_a_checkpoint(
    executor: RayExecutor, marks: Path, tmp_path: Path
) -> None:
    endless = {"chunk_seconds": 0.1, "steps": 1_000_000}
    spec = RunSpec("stop", "", "plain", "walker", 4, "long", changes=endless, seeds_per_run=SEEDS_PER_RUN)

    def interrupt() -> None:
        while len(begun(marks, "plain-walker-0")) < 3:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    (marks / "plain-walker-0.txt").unlink(missing_ok=True)
    threading.Thread(target=interrupt, daemon=True).start()
    outcome, found, _ = swept(executor, [spec], tmp_path)
    assert (outcome.stopped, outcome.problems) == (130, {})
    (last,) = Checkpoints(found[0].path / "checkpoints").steps()
    assert last == found[0].env_steps >= 300


def test_a_folder_that_workers_see(executor: RayExecutor, tmp_path: Path) -> None:
    executor.check_folder(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
