"""Files of runs, sweeps and results that anyone may have changed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.catalogue import installed
from emcts.experiments.analysis.tables import Results
from emcts.experiments.paper import EXPERIMENTS
from emcts.experiments.sweeps.file import read_sweep
from emcts.experiments.sweeps.grid import run_specs
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import CheckpointSchedule, Config, override, plain, stored_settings
from emcts.runs.curves import write_table
from emcts.runs.folder import Folder, find_runs, status
from emcts.runs.logging.artifacts import ArtifactWriter
from emcts.runs.logging.maps import MapHistory
from emcts.runs.logging.metrics import MetricsWriter
from emcts.training.progress import Artifact
from tests.fuzz import FEW_FILES, FILES
from tests.fuzz.cases import command, pick, refused_or_read, run_cases
from tests.fuzz.mutations import mutated_bytes, mutated_json_lines, mutated_json_text

STATE = {"weights": jnp.arange(4.0)}
STORED = Path(__file__).parents[2] / "results" / "figure-2-left"
SWEEP = """name = "sizes"
environment = "deep-sea"
agent = "e-az"
seeds = 2

[settings]
steps = 1000
exploration.beta = 0.5

[grid]
env.size = [4, 6]

[[runs]]
name = "one"
seeds = 3

[[runs]]
name = "two"
agent = "az"
[runs.grid]
model.width = [8, 16]
"""
COMMAND_EVERY = 40  # of how many cases one runs whole commands
DRAWN_EVERY = 40  # of how many tables of results a figure is drawn
WEIGHTS = {
    "config.json": 12,
    "summary.json": 7,
    "metrics.jsonl": 7,
    "artifacts.jsonl": 4,
    "maps.npz": 3,
    "checkpoints": 3,
    "sweep.toml": 3,
    "results": 1,
}


@dataclass(frozen=True)
class Tree:
    """A folder with two runs, a sweep file and tables of results."""

    root: Path

    @property
    def run(self) -> Folder:
        return Folder(self.root / "runs" / "a")

    @property
    def checkpoints(self) -> Path:
        return self.run.checkpoints / "step-000000000007"

    def file(self, name: str, draw: Random) -> Path:
        """A file of this name, or one of the files of a folder."""
        if name == "sweep.toml":
            return self.root / name
        if name == "results":
            return draw.choice(sorted((self.root / "results" / STORED.name).glob("*.csv")))
        if name == "checkpoints":
            files = sorted(file for file in self.checkpoints.rglob("*") if file.is_file())
            return draw.choice([self.checkpoints / "manifest.json", draw.choice(files)])
        return self.run.path / name


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.chdir(tmp_path)
    settings = override(installed().settings("deep-sea", "e-az"), {"steps": 1000})
    for name in ("a", "b"):
        config = Config("deep-sea", "e-az", None, (0, 1), plain(settings), CheckpointSchedule())
        make_run(tmp_path / "runs" / name, config)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    copies = tmp_path / "results" / STORED.name
    copies.mkdir(parents=True)
    for file in STORED.glob("*.csv"):
        (copies / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr("emcts.cli.resume.train_run", lambda *arguments: None)
    monkeypatch.setattr("emcts.cli.plot.draw_run", lambda folder, out: out)
    return Tree(tmp_path)


def make_run(path: Path, config: Config) -> None:
    """Writes a run with every file that one has."""
    folder = Folder.create(path, config, {"command": "emcts train", "device": "CPU, 2 cores"})
    seeds = [{"seed": seed, "env_steps": 7, "train_steps": 0, "seconds": 0.5} for seed in config.seeds]
    steps = ("first_reward_step", "solved_step", "regret_step", "final_return", "simulator_steps")
    nothing = dict.fromkeys(steps)
    folder.write(
        "summary.json",
        {
            "state": "stopped",
            "total_env_steps": 1000,
            "mean_final_return": 0.25,
            "seeds_solved": 0,
            "seeds": [{**nothing, **seed} for seed in seeds],
            "command": "emcts train",
        },
    )
    folder.metrics.append(
        {"seed": seed, "env_steps": step, "return": 0.5, "uncertainty": 0.1, "seconds": 1.0}
        for step in (3, 7)
        for seed in config.seeds
    )
    ArtifactWriter(folder.artifacts, folder.path / "artifacts", 0).write(
        Artifact(seed, 5, {"words": [14, 13]}, "subleq 14 13\n", ".asm") for seed in config.seeds
    )
    MapHistory.read(path / "maps.npz").add(3, {"visits": np.ones((2, 4, 4))})
    Checkpoints(folder.checkpoints).save(STATE, 7, 0.5, config.identity)


def readers(tree: Tree, name: str) -> list[Callable[[], object]]:
    """Everything that reads a file of this name."""
    catalogue, run = installed(), tree.run
    if name == "config.json":
        return [
            lambda: status(run),
            lambda: run.resume_command,
            run.provenance,
            lambda: trainer(run.config(), catalogue),
        ]
    several: dict[str, list[Callable[[], object]]] = {
        "summary.json": [lambda: status(run)],
        "metrics.jsonl": [
            lambda: write_table([run], tree.root / "table.csv"),
            lambda: MetricsWriter(run.metrics, (0, 1), 7),
        ],
        "artifacts.jsonl": [lambda: ArtifactWriter(run.artifacts, run.path / "artifacts", 7)],
        "maps.npz": [lambda: MapHistory.read(run.path / "maps.npz", until=5)],
        "checkpoints": [
            lambda: Checkpoints(run.checkpoints).restore(STATE, best=True),
            Checkpoints(run.checkpoints).identity,
        ],
        "sweep.toml": [lambda: run_specs(read_sweep(tree.root / name).grids, catalogue)],
        "results": [Results(tree.root / "results" / STORED.name).read],
    }
    return several[name]


def trainer(config: Config, catalogue: Any) -> object:
    settings = stored_settings(config, catalogue)
    return catalogue.trainer(config.environment, config.agent, settings, config.seeds)


def whole_commands(name: str) -> list[list[str]]:
    """The commands that read a file of this name."""
    if name == "sweep.toml":
        return []
    if name == "results":
        return [["reproduce", STORED.name, "--from-results", "--results", "results"]]
    return [
        ["runs", "runs"],
        ["resume", "runs/a"],
        ["plot", "runs/a", "--table", "table.csv"],
        *([["evaluate", "runs/a"]] if name == "config.json" else []),
    ]


def mutated(name: str, content: bytes, draw: Random) -> bytes:
    if draw.random() < 0.5 or not name.endswith((".json", ".jsonl")):
        return mutated_bytes(content, draw)
    return (mutated_json_lines if name.endswith("l") else mutated_json_text)(content, draw)


def one_case(tree: Tree) -> Callable[[Random], None]:
    def case(draw: Random) -> None:
        name = pick(draw, WEIGHTS)
        file = tree.file(name, draw)
        before = file.read_bytes()
        changed = mutated(file.name, before, draw)
        try:
            for read in readers(tree, name):
                file.write_bytes(changed)  # again: reading metrics as a resumed run does also writes them
                refused_or_read(read, (file, changed))
            if draw.randrange(DRAWN_EVERY if name == "results" else COMMAND_EVERY) == 0:
                for arguments in whole_commands(name):
                    file.write_bytes(changed)
                    command(*arguments)
        finally:
            file.write_bytes(before)

    return case


def test_few_mutated_files_are_no_traceback(tree: Tree) -> None:
    run_cases(one_case(tree), FEW_FILES, "files")
    assert [run.path.name for run in find_runs(tree.root / "runs")] == ["a", "b"]


@pytest.mark.long
def test_no_mutated_file_is_a_traceback(tree: Tree) -> None:
    run_cases(one_case(tree), FILES, "many files")


def test_a_case_that_ends_in_a_traceback_is_found(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise KeyError("seed")

    monkeypatch.setattr("tests.fuzz.test_files.status", fail)
    with pytest.raises(pytest.fail.Exception, match="1 kinds of tracebacks[^$]*KeyError: 'seed'"):
        run_cases(one_case(tree), 20, "files")


def test_each_experiment_can_be_read_from_changed_tables() -> None:
    """The one whose tables are mutated is among them."""
    assert STORED.name in EXPERIMENTS
