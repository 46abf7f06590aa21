"""Training and using agents from Python: what `emcts train` and `emcts resume` do, and acting with what was learned.

run = emcts.train(FourRooms(size=12), agent="e-az", seeds=4, steps=30_000, time_limit=200, out="runs/rooms")
agent = emcts.load("runs/rooms", env=FourRooms(size=12))
action = agent.act(state, key)
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from rich.console import Console

from emcts.agents.catalogue import Registered
from emcts.agents.env_objects import catalogue_of_run, name_env
from emcts.agents.trained import TrainedAgent, of_seed
from emcts.envs.references import is_reference
from emcts.experiments.setting_paths import OFFLINE, STEPS
from emcts.experiments.setting_values import full_path, parse_setting, setting_types
from emcts.models.encoders import MakeEncoder
from emcts.registry import lookup
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import (
    CheckpointSchedule,
    Config,
    check_finite,
    check_seed_count,
    override,
    plain,
    refuse_changes,
    stored_settings,
)
from emcts.runs.drive import drive
from emcts.runs.folder import Folder, status
from emcts.runs.logging.artifacts import ArtifactLine
from emcts.runs.logging.display import Display, display_for
from emcts.runs.logging.loggers import DEFAULT_LOGGERS, check_loggers
from emcts.runs.logging.metrics import MetricsLine
from emcts.runs.offline import refuse_without_dataset, resolve_offline
from emcts.runs.provenance import provenance
from emcts.runs.summary import RunSummary
from emcts.training.devices import DeviceLayout
from emcts.training.seeds import SeedTrainer

CHECKPOINTS = CheckpointSchedule()


@dataclass(frozen=True)
class Run:
    """The folder of a run. Everything is read from its files, as of now."""

    path: Path

    @property
    def state(self) -> str:
        """`finished`, `stopped` by Ctrl-C or a kill, `running` or `broken`."""
        return status(Folder.open(self.path)).state

    def metrics(self) -> list[MetricsLine]:
        """Returns what was reported: a dictionary for each evaluation of each seed."""
        return Folder.open(self.path).metrics.read()

    def artifacts(self) -> list[ArtifactLine]:
        """Returns what the environment stored of successes, each once for each seed: of SUBLEQ, the programs found."""
        return Folder.open(self.path).artifacts.read()

    def summary(self) -> RunSummary:
        """Returns the results as of the last checkpoint."""
        return Folder.open(self.path).summary()


def train(
    env: object,
    agent: str = "e-az",
    *,
    seeds: int | Sequence[int] = 4,
    steps: int | None = None,
    out: str | Path | None = None,
    time_limit: int | None = None,
    preset: str | None = None,
    offline: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    encoder: MakeEncoder | None = None,
    devices: str = "",
    loggers: Sequence[str] = DEFAULT_LOGGERS,
    checkpoints: CheckpointSchedule = CHECKPOINTS,
    quiet: bool = False,
    **more_settings: object,
) -> Run:
    """Trains an agent as `emcts train` does, and returns its run. Ctrl-C saves and returns, and `resume` continues.

    Args:
        env: an environment, the name of a built-in one, or a reference such as `gymnasium:CartPole-v1`.
        agent: az, az-ube, e-az, mz, mz-ube, e-mz or bdqn.
        seeds: so many from 0 on, or a list of them. They train side by side.
        steps: environment steps of each seed; left out, the preset's number.
        out: the folder of the run; left out, the next free one in `runs`.
        time_limit: steps after which an episode is truncated.
        preset: the name of the settings to start from; left out, the environment's default.
        offline: the folder of another run of the same environment, from whose replay the agent learns without acting
            (docs/guides/offline.md).
        settings: settings by dotted path, such as `{"search.simulations": 32}`.
        encoder: makes a module of your own for what is observed (docs/guides/networks.md).
        devices: `SEEDSxDATA`, such as `4x2`; left out, all devices that fit.
        loggers: what receives the metrics beside metrics.jsonl: `tensorboard`, `wandb`.
        checkpoints: when to save, and how many checkpoints to keep.
        quiet: whether nothing is printed.
        more_settings: settings as arguments, such as `search__simulations=32`; arguments of an environment that a
            reference names belong to `env` (`env__size=12`).
    """
    if out is not None and not str(out):
        raise ValueError("out is empty: name a folder, such as runs/x, or leave it out")
    named = name_env(env, time_limit)
    catalogue, environment = dataclasses.replace(named.catalogue, encoder=encoder), named.environment
    lookup(catalogue.agents(environment), agent, "agent")
    chosen = catalogue.settings(environment, agent, preset)
    if is_reference(environment):
        chosen = dataclasses.replace(chosen, env=named.options)
    elif time_limit is not None:
        raise ValueError(f"time_limit={time_limit}: {environment} ends its episodes itself, leave it out")
    changes = {**(settings or {}), **_dotted(more_settings)}
    if offline is not None:
        refuse_without_dataset(agent, chosen)
        changes[OFFLINE] = str(offline)
    chosen = _with_changes(chosen, changes, steps)
    chosen = catalogue.resolve(environment, agent, chosen)
    config = Config(environment, agent, preset, _seeds(seeds), plain(chosen), checkpoints)
    config, chosen = resolve_offline(config, chosen)
    trainer = _placed(catalogue.trainer(environment, agent, chosen, config.seeds), devices)
    check_loggers(loggers)
    command = f"emcts.train({environment!r}, agent={agent!r}, seeds={list(config.seeds)})"
    folder = Folder.create_in(None if out is None else Path(out), config, provenance(command))
    with folder.discarded_on_error():
        return _train(trainer, folder, command, loggers, quiet)


def resume(
    path: str | Path,
    env: object = None,
    *,
    steps: int | None = None,
    encoder: MakeEncoder | None = None,
    devices: str = "",
    loggers: Sequence[str] = DEFAULT_LOGGERS,
    quiet: bool = False,
) -> Run:
    """Continues a run from its last checkpoint as `emcts resume` does, up to `steps` of each seed if they are more.

    Args:
        path: the folder of the run.
        env: the environment, as an object or a reference, if it is code of yours.
        steps: environment steps of each seed; they can only grow.
        encoder: the module that the run was trained with, if it is yours.
        devices: `SEEDSxDATA`, which may differ from before.
        loggers: what receives the metrics beside metrics.jsonl.
        quiet: whether nothing is printed.
    """
    folder = Folder.open(Path(path))
    config = folder.config()
    catalogue = _catalogue_of(config, env, encoder)
    settings = _with_changes(stored_settings(config, catalogue), {}, steps)
    refuse_changes(config.settings, plain(settings))
    check_loggers(loggers)
    trainer = _placed(catalogue.trainer(config.environment, config.agent, settings, config.seeds), devices)
    return _train(trainer, folder, f"emcts.resume({str(path)!r})", loggers, quiet)


def load(
    path: str | Path,
    env: object = None,
    *,
    encoder: MakeEncoder | None = None,
    checkpoint: str = "latest",
    seed: int | None = None,
) -> TrainedAgent:
    """Loads an agent from the newest intact checkpoint of a run, or from the `best` one by its mean return.

    Args:
        path: the folder of the run.
        env: the environment, as an object or a reference, if it is code of yours.
        encoder: the module that the run was trained with, if it is yours.
        checkpoint: `latest` or `best`.
        seed: one of the run; left out, that of the highest return when the checkpoint was saved.
    """
    lookup({"latest": False, "best": True}, checkpoint, "checkpoint")
    folder = Folder.open(Path(path))
    config = folder.config()
    if seed is not None and seed not in config.seeds:
        raise ValueError(f"seed {seed}: {path} has the seeds {', '.join(map(str, config.seeds))}")
    catalogue = _catalogue_of(config, env, encoder)
    trainer = catalogue.trainer(
        config.environment, config.agent, stored_settings(config, catalogue), config.seeds
    )
    shapes = jax.eval_shape(trainer.init)
    restored = Checkpoints(folder.checkpoints).restore(shapes, best=checkpoint == "best")
    if restored is None:
        raise ValueError(f"{path} has no checkpoint yet: continue it with emcts.resume({str(path)!r})")
    chosen = _best_seed(folder, config.seeds, restored.env_steps) if seed is None else seed
    state = of_seed(restored.state, config.seeds.index(chosen))
    return TrainedAgent(trainer.learner, state, chosen, restored.env_steps)


def _catalogue_of(config: Config, env: object, encoder: MakeEncoder | None) -> Registered:
    stored: Any = config.settings.get("env")
    catalogue = catalogue_of_run(config.environment, stored if isinstance(stored, Mapping) else {}, env)
    return dataclasses.replace(catalogue, encoder=encoder)


def _with_changes(settings: Any, changes: Mapping[str, object], steps: int | None) -> Any:
    types = setting_types(settings)
    parsed: dict[str, object] = {}
    for path, value in changes.items():
        try:
            parsed[full_path(path, types)] = parse_setting(path, value, types)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    if steps is not None:
        parsed[STEPS] = parse_setting(STEPS, steps, types)
    changed = override(settings, parsed)
    check_finite(changed)
    return changed


def _dotted(settings: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("__", "."): value for name, value in settings.items()}


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, int):
        check_seed_count(seeds)
        return tuple(range(seeds))
    return tuple(int(seed) for seed in seeds)


def _placed(trainer: SeedTrainer[PyTree], devices: str) -> SeedTrainer[PyTree]:
    return trainer.on(DeviceLayout.parse(devices)) if devices else trainer


def _train(
    trainer: SeedTrainer[PyTree], folder: Folder, command: str, loggers: Sequence[str], quiet: bool
) -> Run:
    config = folder.config()
    title = f"{folder.path}: {config.agent} on {config.environment}, {len(config.seeds)} seeds"
    display = Display() if quiet else display_for(Console(), title)
    result = drive(trainer, folder, display, command, loggers)
    if result.state == "broken":
        raise RuntimeError(result.message)
    return Run(folder.path)


def _best_seed(folder: Folder, seeds: Sequence[int], env_steps: int) -> int:
    """The seed with the highest return of the last evaluation up to a step."""
    returns = {
        int(line["seed"]): line["return"]
        for line in folder.metrics.read()
        if "return" in line and line["env_steps"] <= env_steps
    }
    return max(seeds, key=lambda seed: returns.get(seed, -np.inf))
