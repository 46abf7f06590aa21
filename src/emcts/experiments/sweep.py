"""A sweep as data: rows that name an agent, its settings and its seeds, and the runs that a row is made of."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emcts.runs.config import (
    TOTAL,
    CheckpointSchedule,
    Config,
    flat,
    plain,
    refuse_changes,
    resolve,
    resolve_as,
)
from emcts.runs.folder import Folder, find_runs, status
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue
from emcts.training.progress import Trainer

WHEN_SAVED = CheckpointSchedule(seconds=300.0, keep=2)
SPACING = "steps_between_evaluations"
PACE = (TOTAL, SPACING)  # how long and how often one looks: not what is trained


@dataclass(frozen=True)
class Row:
    """An agent with its settings, on so many seeds.

    `changes` are on top of the preset. `at_once` is how many seeds train side by side, on each kind of device.
    """

    name: str
    label: str
    environment: str
    agent: str
    seeds: int
    paper_preset: str
    preset: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    at_once: Mapping[str, int] = field(default_factory=lambda: {"cpu": 4, "gpu": 20})
    first_seed: int = 0

    @property
    def all_seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def settings(self, catalogue: Catalogue) -> Any:
        defaults = catalogue.settings(self.environment, self.agent, self.preset)
        return dataclasses.replace(defaults, **self.changes)

    def changed(self, **changes: Any) -> "Row":
        return dataclasses.replace(self, changes={**self.changes, **changes})

    def with_seeds(self, seeds: int) -> "Row":
        if seeds < 1:
            raise ValueError(f"--seeds {seeds}: give at least 1")
        return dataclasses.replace(self, seeds=seeds)

    def with_paper_settings(self) -> "Row":
        """The paper's preset in place of ours."""
        return dataclasses.replace(self, preset=self.paper_preset)

    def made_small(self, catalogue: Catalogue) -> "Row":
        """The same at the size of a smoke test."""
        small = catalogue.smoke_changes(self.environment, self.agent)
        return dataclasses.replace(self.changed(**small), seeds=2)

    def describes(self, config: Config) -> bool:
        """Whether a run is one of this row, as far as the row itself says what is trained."""
        wanted = {name: value for name, value in self.changes.items() if name not in PACE}
        same = (config.environment, config.agent) == (self.environment, self.agent)
        return same and all(config.settings.get(name) == value for name, value in wanted.items())

    def differences(self, config: Config, catalogue: Catalogue) -> dict[str, list[Any]]:
        """The settings that a run does not share with this row, as [the run's, the row's]; None where one has none."""
        ours = dict(flat(plain(resolve_as(self.settings(catalogue), config.settings))))
        theirs = dict(flat(config.settings))
        names = sorted(name for name in ours.keys() | theirs.keys() if name not in PACE)
        return {
            name: [theirs.get(name), ours.get(name)] for name in names if theirs.get(name) != ours.get(name)
        }


@dataclass(frozen=True)
class Job:
    """One run of a row: some of its seeds, side by side, in a folder."""

    row: Row
    seeds: tuple[int, ...]
    path: Path
    total_env_steps: int

    @property
    def work(self) -> int:
        """The steps of all its seeds."""
        return self.total_env_steps * len(self.seeds)

    @property
    def env_steps(self) -> int:
        """That each seed has made, as of its last checkpoint."""
        return status(Folder.open(self.path)).env_steps if self.begun else 0

    @property
    def begun(self) -> bool:
        return (self.path / "config.json").is_file()

    @property
    def is_broken(self) -> bool:
        return self.begun and status(Folder.open(self.path)).state == "broken"

    @property
    def is_over(self) -> bool:
        """Finished, or broken: the same settings would only break it again."""
        return self.env_steps >= self.total_env_steps or self.is_broken

    def folder(self, catalogue: Catalogue, command: str) -> Folder:
        """Of the run, made if it was not begun, lengthened if it was to end sooner. Other settings are refused."""
        settings = self.row.settings(catalogue)
        if not self.begun:
            names = (self.row.environment, self.row.agent, self.row.preset)
            config = Config(*names, self.seeds, plain(resolve(settings)), WHEN_SAVED)
            return Folder.create(self.path, config, provenance(command))
        folder = Folder.open(self.path)
        config = folder.config()
        longest = max(config.total_env_steps or 0, self.total_env_steps)
        wanted = plain(resolve_as(dataclasses.replace(settings, **{TOTAL: longest}), config.settings))
        try:
            refuse_changes(config.settings, wanted)
        except ValueError as error:
            raise ValueError(
                f"{self.path} was begun with other settings ({error}): choose another --out"
            ) from None
        if wanted != config.settings:
            folder.write_config(dataclasses.replace(config, settings=wanted), folder.provenance())
        return folder

    def trainer(self, catalogue: Catalogue, folder: Folder) -> Trainer:
        stored = folder.config().settings
        settings = dataclasses.replace(self.row.settings(catalogue), **{TOTAL: stored.get(TOTAL)})
        settings = resolve_as(settings, stored)
        return catalogue.trainer(self.row.environment, self.row.agent, settings, self.seeds)


def jobs(rows: Iterable[Row], out: Path, catalogue: Catalogue, device: str) -> list[Job]:
    """The runs of the rows, in order: those whose folders are there, and new ones for the seeds that they leave."""
    found: list[Job] = []
    for row in rows:
        total = getattr(row.settings(catalogue), TOTAL)
        begun = [
            Job(row, folder.config().seeds, folder.path, total)
            for folder in folders_of(row, out)
            if min(folder.config().seeds) in row.all_seeds
        ]
        taken = {seed for job in begun for seed in job.seeds}
        left = [seed for seed in row.all_seeds if seed not in taken]
        new = [
            Job(row, part, out / f"{row.name}-seeds-{part[0]}-{part[-1]}", total)
            for part in _parts(left, row.at_once[device])
        ]
        found += begun + new
    return found


def folders_of(row: Row, out: Path) -> list[Folder]:
    """The runs of a row in a folder, by the names that sweeps give them."""
    if not out.is_dir():
        return []
    name = re.compile(rf"{re.escape(row.name)}-seeds-\d+-\d+")
    return [folder for folder in find_runs(out) if name.fullmatch(folder.path.name)]


def _parts(seeds: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(seeds[start : start + size]) for start in range(0, len(seeds), size)]
