"""Who trains the runs of a sweep, without Ray: what a worker does, what it may take, and what one sees of it."""

import io
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emcts.experiments import worker
from emcts.experiments.executors import Here, Outcome
from emcts.experiments.plan import plan_of
from emcts.experiments.progress import Tally
from emcts.experiments.ray_executor import refuse_stranger
from emcts.experiments.share import Share
from emcts.experiments.sweep import Row, jobs
from emcts.experiments.watching import LineWatch, LiveWatch, Watched, watch_on
from emcts.experiments.worker import Seen, Terminated, see, train, version, wait_for_lock
from emcts.runs.folder import Folder
from tests.experiments.toys import RUNNER, WALKER
from tests.runs.toy import ToyCatalogue, ToyTrainer

CATALOGUE = ToyCatalogue()


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)


def swept(rows: list[Row], out: Path) -> tuple[Outcome, str]:
    screen = io.StringIO()
    planned = plan_of(jobs(rows, out, CATALOGUE, "cpu"), CATALOGUE, "an abacus")
    return Here().run(planned, ToyCatalogue, Console(file=screen, width=200), "emcts"), screen.getvalue()


def test_a_broken_run_is_told_now_and_later_and_stops_nobody(tmp_path: Path) -> None:
    rows = [RUNNER.changed(nan_at=300), WALKER.with_seeds(1)]
    outcome, said = swept(rows, tmp_path)
    assert (outcome.exit_code, list(outcome.problems)) == (1, [str(tmp_path / "run-seeds-0-1")])
    assert "a loss was not finite: seed 1 at step 300" in outcome.problems[str(tmp_path / "run-seeds-0-1")]
    assert "sweep: 2 of 2 runs over" in said
    again, said = swept(rows, tmp_path)
    assert again.exit_code == 1
    assert "broke in an earlier sweep" in again.problems[str(tmp_path / "run-seeds-0-1")]
    assert said == ""


def test_other_settings_are_refused_before_the_first_run(tmp_path: Path) -> None:
    short = [WALKER.with_seeds(1).changed(total_env_steps=200)]
    swept(short, tmp_path)
    rows = [RUNNER, WALKER.with_seeds(1).changed(size=5)]
    with pytest.raises(ValueError, match="walk-seeds-0-0 was begun with other settings"):
        swept(rows, tmp_path)
    assert not (tmp_path / "run-seeds-0-1").exists()


def test_exit_codes() -> None:
    assert Outcome().exit_code == 0
    assert Outcome({"a": "bad"}).exit_code == 1
    assert Outcome({"a": "bad"}, stopped=130).exit_code == 130


def test_a_worker_trains_and_tells(tmp_path: Path) -> None:
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    told = train(job, ToyCatalogue, "emcts")
    assert (told.state, told.said) == ("finished", ())
    assert told.message.startswith("finished: 1,000 steps")
    (longer,) = jobs([RUNNER.changed(total_env_steps=1200)], tmp_path, CATALOGUE, "cpu")
    assert train(longer, ToyCatalogue, "emcts").said == ("resumes from step 1,000",)
    (other,) = jobs([RUNNER.changed(size=7, total_env_steps=1300)], tmp_path, CATALOGUE, "cpu")
    refused = train(other, ToyCatalogue, "emcts")
    assert (refused.state, "begun with other settings" in refused.message) == ("failed", True)


def test_a_worker_that_is_taken_away_asks_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ToyTrainer.advance

    def advance(self: ToyTrainer, state: Any) -> Any:
        state, progress = whole(self, state)
        if progress.env_steps == 300:
            os.kill(os.getpid(), signal.SIGTERM)
        return state, progress

    monkeypatch.setattr(ToyTrainer, "advance", advance)
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    with pytest.raises(Terminated, match="stopped and saved at step 300"):
        train(job, ToyCatalogue, "emcts")
    assert train(job, ToyCatalogue, "emcts").said == ("resumes from step 300",)


def test_a_lock_that_stays_is_waited_for_and_then_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LOCK_SECONDS", 0.0)
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    folder = job.folder(CATALOGUE, "emcts")
    with folder.lock():
        told = train(job, ToyCatalogue, "emcts")
        asked = []
        monkeypatch.setattr("time.sleep", lambda seconds: asked.append(seconds))
        monkeypatch.setattr(Folder, "is_locked", lambda self: len(asked) < 3)
        wait_for_lock(folder, 60.0)
    assert (told.state, "another process is training" in told.message) == ("failed", True)
    assert asked == [1.0, 1.0, 1.0]


def test_what_a_worker_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SEEING_SECONDS", 0.0)
    sign = tmp_path / ".seen-1"
    assert see(sign) == Seen(None, True, version())
    sign.write_text(".seen-1")
    refuse_stranger("node7", see(sign), sign)
    for seen, message in [
        (Seen(None, False, version()), f"node7 does not see {tmp_path}: all machines need one file system"),
        (Seen(".seen-1", False, version()), "may not write there"),
        (Seen(".seen-1", True, "0.0.1 (abc)"), r"node7 has emcts 0\.0\.1 \(abc\), this machine"),
    ]:
        with pytest.raises(ValueError, match=message):
            refuse_stranger("node7", seen, sign)


def test_shares_of_a_machine() -> None:
    cpu, gpu = {"CPU": 8.0}, {"CPU": 4.0, "GPU": 1.0}
    assert Share().resources([cpu], gpus=False) == {"num_cpus": 1, "num_gpus": 0}
    assert Share(cpus_per_run=8).resources([cpu, {"CPU": 2.0}], gpus=False)["num_cpus"] == 8
    for runs in range(1, 60):
        share = Share(runs_per_gpu=runs).resources([gpu], gpus=True)["num_gpus"]
        assert runs * round(share * 10_000) <= 10_000 < (runs + 1) * round(share * 10_000 + 1)
    assert Share(cpus_per_run=3).variables() == {"NPROC": "3"}
    shared = Share(runs_per_gpu=4).variables()
    assert 4 * float(shared["XLA_CLIENT_MEM_FRACTION"]) == pytest.approx(0.9)
    with pytest.raises(ValueError, match="takes 8 CPUs, but no machine has more than 4 to give"):
        Share(cpus_per_run=8).resources([cpu, gpu], gpus=True)
    with pytest.raises(ValueError, match="--runs-per-gpu 2: Ray sees no GPU"):
        Share(runs_per_gpu=2).resources([cpu], gpus=False)
    with pytest.raises(ValueError, match="--cpus-per-run 0: give at least 1"):
        Share(cpus_per_run=0)


def test_a_run_is_followed_through_its_files(tmp_path: Path) -> None:
    (job,) = jobs([RUNNER], tmp_path, CATALOGUE, "cpu")
    run, tally = Watched(0, job), Tally([job.work], [0], [None])
    run.look()
    run.count(tally)
    assert (run.begun, run.standing, tally.done) == (False, None, [0])
    folder = job.folder(CATALOGUE, "emcts")
    line = {"env_steps": 100, "return": 0.5, "seconds": 1.0}
    folder.metrics.append([{"seed": seed, **line} for seed in (0, 1)])
    with (job.path / "metrics.jsonl").open("a") as file:
        file.write('{"seed": 0, "env_')
    with folder.lock():
        assert not run.changed_hands()
    run.look()
    run.count(tally)
    assert run.begun
    assert run.standing is not None
    assert (run.standing.env_steps, tally.done) == (100, [200])
    with (job.path / "metrics.jsonl").open("a") as file:
        file.write('steps": 300, "seconds": 2.0}\n')
    run.look()
    assert (run.standing.env_steps, run.latest[0]["return"]) == (300, 0.5)
    folder.metrics.truncate(100)
    run.look()
    assert run.standing.env_steps == 100, "it went back to its checkpoint"
    with folder.lock():
        assert [run.changed_hands(), run.changed_hands()] == [True, False]
    assert not Watched(0, job).begun, "by an earlier sweep"


def test_time_left_of_runs_side_by_side() -> None:
    tally = Tally([1000, 1000, 1000], [0, 0, 0], [10.0, 10.0, 10.0], side_by_side=2)
    assert tally.seconds_left == 150
    tally.side_by_side = 3
    assert tally.seconds_left == 100


@pytest.mark.parametrize("live", [True, False])
def test_the_sweep_is_shown_with_its_runs(tmp_path: Path, live: bool) -> None:
    todo = jobs([WALKER], tmp_path, CATALOGUE, "cpu")
    runs = [Watched(number, job) for number, job in enumerate(todo)]
    todo[0].folder(CATALOGUE, "").metrics.append(
        [{"seed": 0, "env_steps": 300, "seconds": 1.0, "return": 2.5}]
    )
    runs[0].look()
    screen = io.StringIO()
    watch = watch_on(Console(file=screen, force_terminal=live, width=120))
    assert isinstance(watch, LiveWatch if live else LineWatch)
    if isinstance(watch, LineWatch):
        watch.seconds = 0.0
    with watch:
        watch.say("walk-seeds-2-3: finished")
        watch.show(Tally.of(todo, [None, None, None]), runs[:2])
    shown = " ".join(screen.getvalue().split())
    for words in ("walk-seeds-2-3: finished", "300 of 1,000", "2.5", "compiling", "0 of 3 runs over"):
        assert words in shown
