"""What a run or a sweep needs before it begins: steps, disk, and time, from measured or benchmarked speeds."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
from jaxtyping import PyTree

from emcts.experiments.analysis.tables import PROVENANCE, Results
from emcts.experiments.setting_paths import (
    EVALUATION_EPISODES,
    EVALUATION_INTERVAL,
    EVALUATION_STEPS,
    NOVELTY,
    SIZE,
)
from emcts.experiments.sweeps.job import CHECKPOINTS, Job
from emcts.runs.config import Config, flat, override, plain
from emcts.runs.folder import Folder
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue
from emcts.training.progress import Progress, Trainer

TIMED_SECONDS = 2.0  # of iterations, at least
BENCHMARKS = Path(__file__).parents[4] / "docs" / "results"


@dataclass(frozen=True)
class PlannedRun:
    """A run with the steps that are left over all seeds, its speed if known, and the size of its checkpoints.

    `source` says where the speed comes from, with `{device}` in place of the machine.
    """

    job: Job
    steps_left: int
    steps_per_second: float | None
    disk_bytes: int
    source: str | None = None

    @property
    def seconds(self) -> float | None:
        if not self.steps_left:
            return 0.0
        return None if self.steps_per_second is None else self.steps_left / self.steps_per_second


@dataclass(frozen=True)
class StoredSpeed:
    """The speed of a run of stored results: the name of its spec, its machine, its seeds and their steps a second."""

    row: str
    device: str
    seeds: int
    steps_per_second: float


@dataclass(frozen=True)
class RunPlan:
    """What one run takes. Speeds were measured, on a training of some iterations that was discarded."""

    title: str
    seeds: int
    total_steps: int  # of each seed
    parameters: int  # likewise
    state_bytes: int
    replay_bytes: int
    checkpoints: int
    compile_seconds: float
    steps_per_second: float
    evaluation_seconds: float
    evaluations: int

    @property
    def disk_bytes(self) -> int:
        return self.state_bytes * self.checkpoints

    @property
    def seconds(self) -> float:
        training = self.total_steps * self.seeds / self.steps_per_second
        return self.compile_seconds + training + self.evaluations * self.evaluation_seconds


def plan_run(
    config: Config,
    settings: Any,
    catalogue: Catalogue,
    place: Callable[[Trainer], Trainer] = lambda trainer: trainer,
) -> RunPlan:
    """Plans a run: times iterations that learn, and an evaluation, each without its compilation."""

    def trainer(settings: Any) -> Trainer:
        return place(catalogue.trainer(config.environment, config.agent, settings, config.seeds))

    whole = trainer(settings)
    shapes = jax.eval_shape(whole.init)
    # An evaluation of one step after each iteration takes next to no time.
    short = trainer(override(settings, {EVALUATION_INTERVAL: 1, EVALUATION_STEPS: 1, EVALUATION_EPISODES: 1}))
    state, progress, first = _timed_advance(short, short.init())
    first_steps = progress.env_steps
    while not progress.train_steps and progress.env_steps < whole.total_env_steps:
        state, progress, _ = _timed_advance(short, state)
    before, seconds = progress.env_steps, 0.0
    while seconds < TIMED_SECONDS and progress.env_steps < before + whole.total_env_steps:
        state, progress, took = _timed_advance(short, state)
        seconds += took
    each = seconds / (progress.env_steps - before)
    evaluation: dict[str, Any] = dict(flat(plain(settings)))
    episodes = int(evaluation[EVALUATION_EPISODES])
    evaluate = functools.partial(whole.evaluate, state, episodes=episodes, beta=0.0, seed=0)
    compiled, again = _seconds(evaluate), _seconds(evaluate)
    seeds = len(config.seeds)
    return RunPlan(
        title=f"{config.agent} on {config.environment}, on {this_device()[1]}",
        seeds=seeds,
        total_steps=whole.total_env_steps,
        parameters=sum(leaf.size for leaf in jax.tree.leaves(shapes.networks)) // seeds,
        state_bytes=_bytes(shapes),
        replay_bytes=_bytes(shapes.replay),
        checkpoints=config.schedule.keep + 2,
        compile_seconds=max(0.0, first - each * first_steps) + max(0.0, compiled - again),
        steps_per_second=seeds / each,
        evaluation_seconds=again,
        evaluations=-(-whole.total_env_steps // int(evaluation[EVALUATION_INTERVAL])),
    )


def _timed_advance(trainer: Trainer, state: PyTree) -> tuple[PyTree, Progress, float]:
    began = perf_counter()
    state, progress = trainer.advance(state)
    return state, progress, perf_counter() - began


def _seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def plan(
    jobs: Sequence[Job],
    catalogue: Catalogue,
    device: str,
    *,
    measure: Callable[[Job], float] | None = None,
    stored: Sequence[StoredSpeed] = (),
) -> list[PlannedRun]:
    """Plans each run. `measure` returns the speed of the runs of a spec where it is unknown.

    A speed comes from the runs in the folder, else from stored results of the spec, else from a benchmark: each only
    from a machine with the same accelerator, or as many cores.
    """
    sizes: dict[str, int] = {}
    speeds: dict[str, float] = {}
    planned = []
    for job in jobs:
        spec = job.spec.name
        left = 0 if job.is_over else (job.total_env_steps - job.env_steps) * len(job.seeds)
        speed, source = _steps_per_second(job, device, catalogue, stored)
        if speed is None and left and measure is not None:
            if spec not in speeds:
                speeds[spec] = measure(job)
            speed, source = speeds[spec], "measured now"
        if spec not in sizes:
            sizes[spec] = _state_bytes(job, catalogue)
        planned.append(
            PlannedRun(job, left, speed, sizes[spec] * len(job.seeds) * _kept_checkpoints(), source)
        )
    return planned


def stored_speeds(folder: Path) -> list[StoredSpeed]:
    """Returns the speeds of all runs that the tables in a folder are of, an experiment in each folder inside it."""
    files = sorted(folder.glob(f"*/{PROVENANCE}")) if folder.is_dir() else []
    runs = [run for file in files for run in Results(file.parent).provenance()["runs"]]
    return [
        StoredSpeed(
            run["row"],
            run["device"],
            len(run["seeds"]),
            len(run["seeds"]) * run["env_steps"] / run["seconds"],
        )
        for run in runs
        if run["seconds"] > 0
    ]


def measure_speed(job: Job, catalogue: Catalogue) -> float:
    """Trains a run until it has learned for one chunk, discards it, and returns its steps per second over all seeds.

    It evaluates four times as often as the real run, so that this does not take long; that makes it a little slower.
    """
    settings = job.spec.resolved(catalogue)
    interval = dict(flat(plain(settings))).get(EVALUATION_INTERVAL)
    if isinstance(interval, int):
        settings = override(settings, {EVALUATION_INTERVAL: max(1, interval // 4)})
    trainer = catalogue.trainer(job.spec.environment, job.spec.agent, settings, job.seeds)
    state, progress = trainer.advance(trainer.init())
    while not progress.train_steps and progress.env_steps < job.total_env_steps:
        state, progress = trainer.advance(state)
    before, began = progress.env_steps, perf_counter()
    _, progress = trainer.advance(state)
    return len(job.seeds) * (progress.env_steps - before) / (perf_counter() - began)


def this_device() -> tuple[str, str]:
    """Returns the kind of the device, `cpu` or `gpu`, and its name as runs store it."""
    kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
    return kind, provenance("")["device"]


def _steps_per_second(
    job: Job, device: str, catalogue: Catalogue, stored: Sequence[StoredSpeed]
) -> tuple[float | None, str | None]:
    """Returns the speed of all seeds together and where it comes from; None if it was never measured."""
    found = {
        "of the runs in this folder": _speed_of_runs(job.spec.folders(job.path.parent), device),
        "of the stored results, made on {device}": _stored_speed(job, device, stored),
        "of a benchmark on {device}": _speed_of_benchmarks(job, device, catalogue),
    }
    known = [(speed, source) for source, speed in found.items() if speed is not None]
    return known[0] if known else (None, None)


def _stored_speed(job: Job, device: str, stored: Sequence[StoredSpeed]) -> float | None:
    """Returns the slowest of the runs with the nearest number of seeds: their times include compilation."""
    alike = [one for one in stored if (one.row, one.device) == (job.spec.name, device)]
    apart = min((abs(one.seeds - len(job.seeds)) for one in alike), default=0)
    nearest = [one.steps_per_second for one in alike if abs(one.seeds - len(job.seeds)) == apart]
    return min(nearest, default=None)


def _speed_of_runs(folders: Iterable[Folder], device: str) -> float | None:
    """Returns the speed of the slowest run on such a device. Compilation counts: it is part of the time."""
    speeds = []
    for folder in folders:
        summary = folder.summary()
        seconds = max((seed["seconds"] for seed in summary.get("seeds", [])), default=0.0)
        if summary.get("device") == device and seconds > 0:
            speeds.append(sum(seed["env_steps"] for seed in summary["seeds"]) / seconds)
    return min(speeds, default=None)


def _speed_of_benchmarks(job: Job, device: str, catalogue: Catalogue) -> float | None:
    """Returns the speed of the benchmark of this agent and size with the nearest number of seeds."""
    size = dict(flat(plain(job.spec.settings(catalogue)))).get(SIZE)
    environment = job.spec.environment
    name = environment if size is None else f"{environment} {size} x {size}"
    fitting = [
        case
        for case in _benchmark_cases(device)
        if case["case"] == name and case["agent"] == job.spec.agent and _has_same_novelty(case, job)
    ]
    nearest = min(fitting, key=lambda case: abs(case["seeds"] - len(job.seeds)), default=None)
    return None if nearest is None else nearest["steps_per_second"]


def _has_same_novelty(case: Mapping[str, Any], job: Job) -> bool:
    """RND costs more than the counts of the default preset, so their speeds differ."""
    return case["preset"] != "default" or job.spec.changes.get(NOVELTY, "counts") == "counts"


def _benchmark_cases(device: str) -> list[Mapping[str, Any]]:
    results = [json.loads(file.read_text()) for file in sorted(BENCHMARKS.glob("train-*.json"))]
    return [case for result in results if result["device"] == device for case in result["cases"]]


def _state_bytes(job: Job, catalogue: Catalogue) -> int:
    """Returns the size of one seed's state, without creating it."""
    spec = job.spec
    trainer = catalogue.trainer(spec.environment, spec.agent, spec.resolved(catalogue), job.seeds[:1])
    return _bytes(jax.eval_shape(trainer.init))


def _bytes(tree: PyTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _kept_checkpoints() -> int:
    """Counts the last checkpoints, the best, and one that is being written."""
    return CHECKPOINTS.keep + 2
