"""The demo: E-AZ and AZ train on Deep Sea with the same settings, as two runs, until E-AZ has solved it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from emcts.envs import DeepSea
from emcts.experiments import setting_paths as paths
from emcts.experiments.sweeps.job import Job
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.config import check_seed_count
from emcts.runs.figure import draw_curves, draw_maps, write_png
from emcts.runs.folder import Folder
from emcts.runs.logging.maps import MapHistory
from emcts.runs.logging.metrics import LatestMetrics, with_lines

LABELS = {"e-az": "E-AZ", "az": "AZ"}
MAPS = {"e-az": ("visits", "UBE std", "search std"), "az": ("visits",)}


@dataclass(frozen=True)
class Demo:
    """Deep Sea of `size` on `seeds` seeds, each with an action mapping of its own, for at most `steps` per seed."""

    size: int = 20
    seeds: int = 4
    steps: int = 6000

    def __post_init__(self) -> None:
        DeepSea(self.size)  # raises an error for a size that it does not have
        check_seed_count(self.seeds, "--seeds")
        if self.steps < 1:
            raise ValueError(f"--steps {self.steps}: give at least 1")

    def job(self, agent: str, out: Path, steps: int) -> Job:
        """Returns the run of an agent, with the defaults of Deep Sea made smaller for a laptop."""
        changes = {
            paths.SIZE: self.size,
            paths.STEPS: steps,
            paths.EVALUATION_INTERVAL: min(100, self.steps),
            paths.WIDTH: 128,
            paths.SIMULATIONS: 32,
        }
        spec = RunSpec(agent, LABELS[agent], "deep-sea", agent, self.seeds, "paper-deep-sea", changes=changes)
        return Job(spec, tuple(spec.all_seeds), out / agent, steps)


def latest_metrics(folder: Folder) -> LatestMetrics:
    """Returns the latest value of each metric, by seed."""
    return with_lines({}, folder.metrics.read())


def steps_to_goal(folder: Folder) -> list[float]:
    """Returns the steps to the first goal of the seeds that reached it, exploring or not."""
    return [
        metrics["first_reward_step"]
        for metrics in latest_metrics(folder).values()
        if "first_reward_step" in metrics
    ]


def draw(folders: Sequence[Folder], out: Path) -> Path:
    """Plots both agents' learning curves and state visits, and E-AZ's uncertainty, over the training."""
    histories = [_maps(folder) for folder in folders]
    heights = [1.2, *(0.9 * len(history.maps) for history in histories)]
    figure = Figure(figsize=(10, 2.8 * float(np.sum(heights))), layout="constrained")
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    curves, *maps = (figure.add_subfigure(grid[row]) for row in range(len(heights)))
    draw_curves(curves, folders, each_seed=True)
    for part, folder, history in zip(maps, folders, histories, strict=True):
        part.suptitle(f"{LABELS[folder.config().agent]}, cell by cell")
        draw_maps(part, history, folder)
    return write_png(figure, out)


def _maps(folder: Folder) -> MapHistory:
    history = MapHistory.read(folder.path / "maps.npz")
    return replace(history, maps={name: history.maps[name] for name in MAPS[folder.config().agent]})
