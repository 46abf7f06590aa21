"""The runs that a spec is split into, and how each is begun or continued."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emcts.experiments.setting_paths import OFFLINE, STEPS
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.config import (
    CheckpointSchedule,
    Config,
    override,
    plain,
    refuse_changes,
    resolve_as,
)
from emcts.runs.folder import Folder, status
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue
from emcts.training.progress import Trainer

CHECKPOINTS = CheckpointSchedule(seconds=300.0, keep=2)


@dataclass(frozen=True)
class Job:
    """One run of a spec: some of its seeds, side by side, in a folder."""

    spec: RunSpec
    seeds: tuple[int, ...]
    path: Path
    total_env_steps: int

    @property
    def work(self) -> int:
        """The total number of steps, over all seeds."""
        return self.total_env_steps * len(self.seeds)

    @property
    def env_steps(self) -> int:
        """The steps of each seed as of the last checkpoint."""
        return status(Folder.open(self.path)).env_steps if self.has_begun else 0

    @property
    def has_begun(self) -> bool:
        return (self.path / "config.json").is_file()

    @property
    def is_broken(self) -> bool:
        return self.has_begun and status(Folder.open(self.path)).state == "broken"

    @property
    def is_over(self) -> bool:
        """Whether the run is finished, or broken: the same settings would only break it again."""
        return self.env_steps >= self.total_env_steps or self.is_broken

    def has_had(self, event: str) -> bool:
        """Returns whether every seed has had an event, as of the last checkpoint."""
        seeds = Folder.open(self.path).summary().get("seeds", []) if self.has_begun else []
        return bool(seeds) and all(seed.get(event) is not None for seed in seeds)

    def folder(self, catalogue: Catalogue, command: str) -> Folder:
        """Creates the run, or opens it. Other settings are refused, but for more steps, which `drive` stores."""
        settings = self.spec.settings(catalogue)
        if not self.has_begun:
            names = (self.spec.environment, self.spec.agent, self.spec.preset)
            new = override(self.spec.resolved(catalogue), self._source())
            config = Config(*names, self.seeds, plain(new), CHECKPOINTS)
            return Folder.create(self.path, config, provenance(command))
        folder = Folder.open(self.path)
        config = folder.config()
        longest = max(config.total_env_steps or 0, self.total_env_steps)
        resolved = self.spec.resolved(catalogue)
        changes = {STEPS: longest, **self._source(config)}
        wanted = plain(resolve_as(override(settings, changes), resolved, config.settings))
        try:
            refuse_changes(config.settings, wanted)
        except ValueError as error:
            raise ValueError(
                f"{self.path} was begun with other settings ({error}): choose another --out"
            ) from None
        return folder

    def trainer(self, catalogue: Catalogue, folder: Folder) -> Trainer:
        """Returns the trainer with the sizes that the run has stored, and its steps if they are more."""
        config = folder.config()
        stored, longest = config.settings, max(config.total_env_steps or 0, self.total_env_steps)
        settings = override(self.spec.settings(catalogue), {STEPS: longest, **self._source(config)})
        settings = resolve_as(settings, self.spec.resolved(catalogue), stored)
        return catalogue.trainer(self.spec.environment, self.spec.agent, settings, self.seeds)

    def _source(self, config: Config | None = None) -> dict[str, object]:
        """Returns the folder of the run that this one learns from, as a setting: its own, once it has begun."""
        if self.spec.offline is None:
            return {}
        if config is not None:
            return {OFFLINE: config.settings[OFFLINE]}
        return {OFFLINE: str(run_path(self.path.parent, self.spec.offline, self.seeds))}


def run_path(out: Path, spec: str, seeds: Sequence[int]) -> Path:
    """Returns the folder of a run of a spec."""
    return out / f"{spec}-seeds-{seeds[0]}-{seeds[-1]}"


def jobs(specs: Iterable[RunSpec], out: Path, catalogue: Catalogue, device: str) -> list[Job]:
    """Returns the runs of the specs, in order: existing runs, and new ones for the seeds that are left."""
    found: list[Job] = []
    for spec in specs:
        total = getattr(spec.settings(catalogue), STEPS)
        existing = [
            Job(spec, folder.config().seeds, folder.path, total)
            for folder in spec.folders(out)
            if min(folder.config().seeds) in spec.all_seeds
        ]
        taken = {seed for job in existing for seed in job.seeds}
        left = [seed for seed in spec.all_seeds if seed not in taken]
        new = [
            Job(spec, part, run_path(out, spec.name, part), total)
            for part in _parts(left, spec.seeds_per_run[device])
        ]
        found += existing + new
    return found


def _parts(seeds: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(seeds[start : start + size]) for start in range(0, len(seeds), size)]
