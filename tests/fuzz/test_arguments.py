"""Command lines, through the parsing and checking of every command up to where it would train, draw or measure."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from emcts.agents.catalogue import installed
from emcts.experiments.executors import EXECUTORS
from emcts.experiments.executors.executor import SweepResult
from emcts.experiments.executors.local import LocalExecutor
from emcts.experiments.paper import EXPERIMENTS
from emcts.experiments.sweeps.plan import RunPlan
from emcts.runs.config import CheckpointSchedule, Config, flat, override, plain
from emcts.runs.curves import CURVES, curve
from emcts.runs.folder import Folder
from tests.fuzz import ARGUMENTS, FEW_ARGUMENTS
from tests.fuzz.cases import command, pick, run_cases
from tests.fuzz.mutations import mutated_arguments
from tests.fuzz.test_files import SWEEP, make_run

LINES: dict[str, tuple[str, ...]] = {
    "train": (
        "train deep-sea --agent e-az --seeds 2 --out new --env.size 6",
        "train deep-sea --agent bdqn --steps 1000 --seed-list 3 5 --plan",
        "train subleq --agent e-mz --env.task identity --max-minutes 1 --stop-when-solved",
        "train subleq --agent az --preset paper --loggers tensorboard --devices 1x1",
        "train minatar-breakout --agent mz --checkpoint-seconds 5 --keep-checkpoints 2",
        "train deep-sea --agent az --env size=5 stochastic=true --distributed --coordinator 127.0.0.1:1 --process 0",
        "train no.such:Thing --agent e-az --env size=5 --time-limit 9",
        "train gymnax:No-v0 --agent mz --time-limit 9",
        "train --help",
    ),
    "resume": (
        "resume runs/a --steps 2000",
        "resume runs/a --max-minutes 3 --loggers tensorboard --env-from a:b",
    ),
    "evaluate": ("evaluate runs/a --episodes 3 --beta 0.5 --seed 1 --best",),
    "plot": ("plot runs/a --out x.png --table t.csv", "plot runs/a runs/b --out x.png", "plot runs"),
    "runs": ("runs runs", "runs"),
    "demo": ("demo --size 4 --seeds 2 --steps 100 --out demo",),
    "sweep": (
        "sweep deep-sea --agent e-az,az --grid exploration.beta=0.1,1 --env.size 6 --seeds 2 --plan",
        "sweep sweep.toml --seeds 1 --on ray --runs-per-gpu 2 --out swept",
        "sweep subleq --agent az --grid model.width=8,16 --grid steps=100,200 --env task=identity --measure --plan",
    ),
    "reproduce": (
        "reproduce figure-2-left --plan --rows *-e-az --seeds 2",
        "reproduce table-1 --from-results --results results",
        "reproduce figure-3 --smoke --agents e-az --steps 100 --out new --first-seed 3",
        "reproduce figure-4 --from-runs runs/a runs/b --paper-settings",
    ),
    "bench": ("bench search --smoke --no-growth --out b.json", "bench worlds --rows rooms --seeds 2"),
    "subleq": (
        "subleq enumerate identity --words 2 --word-size 16",
        "subleq tasks --word-size 32 --signed",
        "subleq assemble program.asm",
    ),
    "evaluat": ("evaluat runs/a", "--version", "-h train"),
}
WEIGHTS = {
    "train": 4,
    "resume": 1,
    "evaluate": 3,
    "plot": 4,
    "runs": 3,
    "demo": 3,
    "sweep": 3,
    "reproduce": 4,
    "bench": 3,
    "subleq": 4,
    "evaluat": 1,
}
KEPT = ("runs", "sweep.toml", "program.asm")


class Over(SystemExit):
    """Ends a command where it would train or measure."""


def over(*arguments: object, **named: object) -> None:
    raise Over(0)


@pytest.fixture
def options() -> dict[str, list[str]]:
    """The options of each command; those of a training are also its settings."""
    named = flat(plain(installed().settings("deep-sea", "e-az")))
    settings = [f"--{name.replace('_', '-')}" for name, _ in named]
    found = {}
    for group, lines in LINES.items():
        words = [word for line in lines for word in line.split() if word.startswith("-")]
        found[group] = words + (settings if group in ("train", "resume", "sweep") else ["--x"])
    return found


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two runs, a sweep and a program, in which nothing trains, draws or connects."""
    monkeypatch.chdir(tmp_path)
    settings = override(installed().settings("deep-sea", "e-az"), {"steps": 1000})
    for name in ("a", "b"):
        config = Config("deep-sea", "e-az", None, (0, 1), plain(settings), CheckpointSchedule())
        make_run(tmp_path / "runs" / name, config)
        shutil.rmtree(tmp_path / "runs" / name / "checkpoints")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "program.asm").write_text("subleq 1 2\n")
    plan = RunPlan("a plan", 1, 1, 1, 1, 1, 1, 1.0, 1.0, 1.0, 1)
    monkeypatch.setattr("emcts.cli.train.train_run", over)
    monkeypatch.setattr("emcts.cli.resume.train_run", over)
    monkeypatch.setattr("emcts.cli.train.plan_run", lambda *arguments: plan)
    monkeypatch.setattr("emcts.cli.demo.drive", over)
    monkeypatch.setattr("emcts.cli.plot.draw_run", lambda folder, out: read_curves([folder], out))
    monkeypatch.setattr("emcts.cli.plot.draw_comparison", read_curves)
    monkeypatch.setattr("emcts.cli.execution.measure_speed", lambda job, catalogue: 1.0)
    monkeypatch.setattr("emcts.cli.bench._benchmark", lambda name: SimpleNamespace(main=over))
    monkeypatch.setattr("emcts.experiments.paper.experiment.write_png", lambda figure, file: file)
    monkeypatch.setattr("emcts.experiments.sweeps.plan._state_bytes", lambda job, catalogue: 1000)
    monkeypatch.setattr("emcts.envs.subleq.enumerate_solutions", lambda *arguments, **named: [])
    monkeypatch.setattr("jax.distributed.initialize", refuse_connection)
    monkeypatch.setattr(LocalExecutor, "run", lambda self, request: SweepResult())
    monkeypatch.setitem(EXECUTORS, "ray", lambda options: contextlib.nullcontext(LocalExecutor()))
    for experiment in EXPERIMENTS.values():  # drawing takes most of a second
        monkeypatch.setattr(
            type(experiment), "draw_from", lambda self, results, out=None: results.read() and Path("x")
        )


def refuse_connection(*arguments: object, **named: object) -> None:
    raise RuntimeError("there is nobody")


def read_curves(folders: Sequence[Folder], out: Path) -> Path:
    """Stands for drawing."""
    for folder in folders:
        for name in CURVES:
            curve(folder, name)
    return out


def is_safe(argument: str) -> bool:
    """Whether it names no place outside of this folder, where a command might write, and no long or large work."""
    value = argument.rpartition("=")[2]
    return not value.startswith(("/", "~")) and ".." not in value


def one_case(options: dict[str, list[str]]) -> Callable[[Random], None]:
    def case(draw: Random) -> None:
        group = pick(draw, WEIGHTS)
        line = draw.choice(LINES[group]).split()
        arguments = mutated_arguments(line, draw, options[group])
        with unchanged(Path.cwd()):
            command(*(argument for argument in arguments if is_safe(argument)))

    return case


@contextlib.contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Removes what a command wrote, and restores what it changed."""
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    yield
    for file in folder.rglob("*"):
        if file.is_file() and file not in before:
            file.unlink()
    for file, content in before.items():
        if not file.is_file() or file.read_bytes() != content:
            file.write_bytes(content)
    for other in folder.iterdir():
        if other.name not in KEPT and other.is_dir():
            shutil.rmtree(other)
    for run in (folder / "runs").iterdir():
        if run.name not in ("a", "b"):
            shutil.rmtree(run) if run.is_dir() else run.unlink()


def test_few_mutated_command_lines_are_no_traceback(options: dict[str, list[str]]) -> None:
    run_cases(one_case(options), FEW_ARGUMENTS, "arguments")


@pytest.mark.long
def test_no_mutated_command_line_is_a_traceback(options: dict[str, list[str]]) -> None:
    run_cases(one_case(options), ARGUMENTS, "many arguments")
