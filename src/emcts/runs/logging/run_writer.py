"""All that a run writes besides its checkpoints, in step with them."""

from collections.abc import Mapping, Sequence

import numpy as np

from emcts.runs.curves import has_curves
from emcts.runs.figure import draw_run
from emcts.runs.files import remove_partial
from emcts.runs.folder import Folder
from emcts.runs.logging.artifacts import ArtifactWriter
from emcts.runs.logging.loggers import open_loggers
from emcts.runs.logging.maps import MapHistory, moments_of
from emcts.runs.logging.metrics import LatestMetrics, MetricsWriter
from emcts.runs.provenance import Provenance
from emcts.runs.summary import summarise
from emcts.training.progress import Progress


class RunWriter:
    """Writes metrics, artifacts, maps, the summary and the figure, and passes metrics to the loggers.

    Opening it removes what was written after `env_steps`.
    """

    def __init__(self, folder: Folder, env_steps: int, total: int, loggers: Sequence[str] = ()) -> None:
        self.folder, self.seeds, self.total = folder, folder.config().seeds, total
        remove_partial(folder.path)
        self.metrics = MetricsWriter(folder.metrics, self.seeds, env_steps)
        self.artifacts = ArtifactWriter(folder.artifacts, folder.path / "artifacts", env_steps)
        self.maps = MapHistory.read(folder.path / "maps.npz", until=env_steps)
        self.loggers = open_loggers(loggers, folder, env_steps)

    @property
    def latest(self) -> LatestMetrics:
        return self.metrics.latest

    def write(self, progress: Progress) -> None:
        lines = self.metrics.write(progress)
        self.artifacts.write(progress.artifacts)
        for logger in self.loggers:
            logger.write(lines)

    def wants_maps(self, env_steps: int) -> bool:
        """Returns whether maps are due: a moment is the first of any seed, or one of the seed that is drawn."""
        each = {seed: moments_of(line) for seed, line in self.latest.items()}
        first = {
            name: min(one[name] for one in each.values() if name in one)
            for one in each.values()
            for name in one
        }
        moments = [*first.values(), *each.get(self.seeds[0], {}).values()]
        return self.maps.is_due(env_steps, self.total, moments)

    def write_maps(self, env_steps: int, maps: Mapping[str, np.ndarray]) -> None:
        self.maps = self.maps.add(env_steps, maps)

    def write_summary(self, state: str, provenance: Provenance) -> None:
        summary = summarise(self.seeds, self.latest, state, self.total)
        self.folder.write("summary.json", {**summary, **provenance})

    def draw(self) -> None:
        if has_curves(self.folder):
            draw_run(self.folder, self.folder.path / "figure.png")

    def close(self) -> None:
        for logger in self.loggers:
            logger.close()


class NullRunWriter:
    """Writes nothing: for a process that is not the leader of its group."""

    @property
    def latest(self) -> LatestMetrics:
        return {}

    def write(self, progress: Progress) -> None: ...

    def wants_maps(self, env_steps: int) -> bool:
        return False

    def write_maps(self, env_steps: int, maps: Mapping[str, np.ndarray]) -> None: ...

    def write_summary(self, state: str, provenance: Provenance) -> None: ...

    def draw(self) -> None: ...

    def close(self) -> None: ...
