"""The configuration of some runs as data: an agent, its settings and its seeds."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emcts.experiments.setting_paths import EVALUATION_INTERVAL, OFFLINE, OFFLINE_STEPS, SIZE, STEPS
from emcts.runs.config import Config, check_seed_count, flat, override, plain, resolve_as
from emcts.runs.folder import Folder, find_runs
from emcts.training.catalogue import Catalogue

LENGTH = (STEPS, EVALUATION_INTERVAL)
"""Settings that say how long to train and how often to evaluate, not what is trained."""


@dataclass(frozen=True)
class RunSpec:
    """An agent with its settings, to train on some seeds.

    `changes` replace settings of the preset, by dotted path. `seeds_per_run` is how many seeds one run trains side by
    side, for each kind of device. `offline` names the spec whose runs an agent that does not act learns from: those of
    the same seeds, in the same folder.
    """

    name: str
    label: str
    environment: str
    agent: str
    seeds: int
    paper_preset: str
    preset: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    seeds_per_run: Mapping[str, int] = field(default_factory=lambda: {"cpu": 4, "gpu": 20})
    first_seed: int = 0
    offline: str | None = None

    @property
    def all_seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def settings(self, catalogue: Catalogue) -> Any:
        """Returns the settings of the preset with the changes."""
        settings = override(catalogue.settings(self.environment, self.agent, self.preset), self.changes)
        # The folder is known once a run is one of the folder of a sweep.
        return settings if self.offline is None else override(settings, {OFFLINE: self.offline})

    def resolved(self, catalogue: Catalogue) -> Any:
        """Returns the settings with a value for each that is left open."""
        return catalogue.resolve(self.environment, self.agent, self.settings(catalogue))

    def with_changes(self, changes: Mapping[str, Any]) -> "RunSpec":
        return replace(self, changes={**self.changes, **changes})

    def with_seeds(self, seeds: int) -> "RunSpec":
        check_seed_count(seeds, "--seeds")
        return replace(self, seeds=seeds)

    def with_paper_settings(self) -> "RunSpec":
        """Returns the spec with the paper's preset."""
        return replace(self, preset=self.paper_preset)

    def for_smoke_test(self, catalogue: Catalogue) -> "RunSpec":
        """Returns the spec with settings that train in seconds, and two seeds. Its name has the size that it runs."""
        small = self.with_changes(catalogue.smoke_changes(self.environment, self.agent))
        if self.offline is not None:  # from all of a run that is shorter
            small = small.with_changes({OFFLINE_STEPS: None})
        before, after = self.changes.get(SIZE), small.changes.get(SIZE)
        names: dict[str, Any] = {
            field: None if name is None else name.replace(f"-{before}-", f"-{after}-")
            for field, name in (("name", self.name), ("offline", self.offline))
        }
        return replace(small, **names, seeds=2)

    def describes(self, config: Config) -> bool:
        """Returns whether a run has the environment, the agent and the changed settings of this spec."""
        settings = dict(flat(config.settings))
        wanted = json.loads(json.dumps(dict(self.changes)))  # tuples as lists, as a config has them
        same = (config.environment, config.agent) == (self.environment, self.agent)
        return same and all(
            settings.get(path) == value for path, value in wanted.items() if path not in LENGTH
        )

    def differences(self, config: Config, catalogue: Catalogue) -> dict[str, list[Any]]:
        """Returns the settings that differ, as [the run's, this spec's]; None where one has no such setting."""
        settings, resolved = self.settings(catalogue), self.resolved(catalogue)
        ours = dict(flat(plain(resolve_as(settings, resolved, config.settings))))
        theirs = dict(flat(config.settings))
        paths = sorted(path for path in ours.keys() | theirs.keys() if path not in (*LENGTH, OFFLINE))
        return {
            path: [theirs.get(path), ours.get(path)] for path in paths if theirs.get(path) != ours.get(path)
        }

    def folders(self, out: Path) -> list[Folder]:
        """Returns the runs of this spec in a folder, by the names that sweeps give them."""
        if not out.is_dir():
            return []
        name = re.compile(rf"{re.escape(self.name)}-seeds-\d+-\d+")
        return [folder for folder in find_runs(out) if name.fullmatch(folder.path.name)]
