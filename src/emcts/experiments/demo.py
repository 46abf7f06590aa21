"""Two agents that learn Deep Sea with the same settings: E-AZ, whose search knows what it has not seen, and AZ."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure, SubFigure

from emcts.agents import catalogue, deep_sea
from emcts.agents.trainer import SeedTrainer
from emcts.envs import DeepSea
from emcts.runs.curves import Curve
from emcts.runs.figure import write_png
from emcts.training.progress import Progress

AGENTS = {"e-az": "E-AZ", "az": "AZ"}
CURVES = {"return": "return without exploring", "states_discovered": "cells seen"}
MAPS = (("e-az", "visits"), ("e-az", "UBE std"), ("e-az", "search std"), ("az", "visits"))
MAP_TIMES = 4


@dataclasses.dataclass(frozen=True)
class Demo:
    """Deep Sea of `size`, in `seeds` seas with action maps of their own, for at most `steps` in each."""

    size: int = 20
    seeds: int = 4
    steps: int = 6000

    def __post_init__(self) -> None:
        DeepSea(self.size)  # refuses a size it does not have
        for name in ("seeds", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def trainer(self, agent: str) -> SeedTrainer:
        """The defaults of Deep Sea, made lighter for a laptop."""
        settings = dataclasses.replace(
            deep_sea.BEST,
            size=self.size,
            total_env_steps=self.steps,
            steps_between_evaluations=min(100, self.steps),
            width=128,
            simulations=32,
        )
        return catalogue.trainer("deep-sea", agent, settings, tuple(range(self.seeds)))


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """An agent after a chunk of its training, all seeds; `maps` are of the cells."""

    progress: Progress
    maps: Mapping[str, Float[np.ndarray, "S N N"]]

    @property
    def env_steps(self) -> int:
        return self.progress.env_steps

    @property
    def solved(self) -> bool:
        """Whether every seed reached the goal in all episodes of its last evaluation."""
        return bool(np.all(self.progress.metrics["solved"] == 1))


Learning = Sequence[Snapshot]  # of one agent, in order


def training(trainer: SeedTrainer) -> Iterator[Snapshot]:
    """An agent that learns for as long as it is asked to."""
    state = trainer.init()
    while True:
        state, progress = trainer.advance(state)
        yield Snapshot(progress, trainer.maps(state))


def begin(trainings: Mapping[str, Iterator[Snapshot]]) -> dict[str, Snapshot]:
    """The first snapshot of each. They are compiled side by side, as a compiler keeps one core busy."""
    with ThreadPoolExecutor(len(trainings)) as pool:
        return dict(zip(trainings, pool.map(next, trainings.values()), strict=True))


def treasure_steps(learning: Learning) -> Float[np.ndarray, "S"]:
    """The steps after which each seed first had the treasure, exploring or not; NaN if it never had."""
    return learning[-1].progress.metrics["first_reward_step"]


def solved_steps(learning: Learning) -> Float[np.ndarray, "S"]:
    """The steps after which each seed first went for the treasure when evaluated; NaN if it never did."""
    return learning[-1].progress.metrics["solved_step"]


def curve(learning: Learning, name: str) -> Curve:
    """A metric of all seeds over time."""
    values = np.stack([snapshot.progress.metrics[name] for snapshot in learning], axis=1)
    return Curve(np.array([snapshot.env_steps for snapshot in learning]), values)


def draw(learnings: Mapping[str, Learning], file: Path) -> Path:
    """Learning curves of both agents, and below them how the first seed's maps changed."""
    figure = Figure(figsize=(10, 12.5), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=[1, 3])
    _draw_curves(figure.add_subfigure(grid[0]), learnings)
    _draw_maps(figure.add_subfigure(grid[1]), learnings)
    file.parent.mkdir(parents=True, exist_ok=True)
    return write_png(figure, file)


def _draw_curves(figure: SubFigure, learnings: Mapping[str, Learning]) -> None:
    axes = figure.subplots(1, len(CURVES))
    for axis, (name, label) in zip(axes, CURVES.items(), strict=True):
        for agent, learning in learnings.items():
            one = curve(learning, name)
            (line,) = axis.plot(one.env_steps, one.mean, linewidth=2, label=AGENTS[agent])
            axis.plot(one.env_steps, one.values.T, color=line.get_color(), linewidth=0.5, alpha=0.6)
        axis.set(xlabel="environment steps of each seed", ylabel=label)
    axes[0].legend()


def _draw_maps(figure: SubFigure, learnings: Mapping[str, Learning]) -> None:
    figure.suptitle("the first of the seas, cell by cell")
    axes = figure.subplots(len(MAPS), MAP_TIMES)
    for row, (agent, name) in zip(axes, MAPS, strict=True):
        learning = learnings[agent]
        times = np.linspace(0, len(learning) - 1, MAP_TIMES).round().astype(int)
        grids = np.stack([learning[time].maps[name][0] for time in times])
        shown = np.ma.masked_invalid(grids)
        norm = LogNorm(1, max(shown.max(), 2)) if name == "visits" else Normalize(0, shown.max())
        for axis, time, values in zip(row, times, shown, strict=True):
            image = axis.imshow(values, norm=norm, interpolation="nearest")
            axis.set(title=f"{learning[time].env_steps:,} steps", xticks=[], yticks=[])
        row[0].set_ylabel(f"{AGENTS[agent]}: {name}")
        figure.colorbar(image, ax=list(row), shrink=0.85)
