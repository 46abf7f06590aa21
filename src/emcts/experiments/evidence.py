"""What the runs of a row say, seed by seed: read from their files alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from emcts.envs.deep_sea import GOAL_REWARD, MOVE_COST, SOLVED_BELOW
from emcts.experiments.results import Cell, Line, Table, number
from emcts.experiments.sweep import Row
from emcts.runs.curves import Curve, curve
from emcts.runs.folder import Folder

STEPS = ("first_goal_step", "solved_step", "regret_step")
"""Columns of the seeds' table that say when something first happened."""


@dataclass(frozen=True)
class Evidence:
    """A row and its runs, each of some of the seeds."""

    row: Row
    folders: tuple[Folder, ...]

    def setting(self, name: str) -> Any:
        """As the runs have it."""
        return self.folders[0].config().settings[name]

    def seeds(self) -> Table:
        """A line for each seed: how far it came, and when it first did what."""
        lines: list[Line] = []
        for folder in self.folders:
            earlier, taken = _regret_of_chunks(folder), curve(folder, "simulator_steps")
            for seed in folder.summary().get("seeds", []):
                line: dict[str, Cell] = {
                    "row": self.row.name,
                    "label": self.row.label,
                    "seed": seed["seed"],
                    "env_steps": seed["env_steps"],
                    "first_goal_step": seed["first_reward_step"],
                    "solved_step": seed["solved_step"],
                    "regret_step": seed.get("regret_step", earlier.get(seed["seed"])),
                    "final_return": seed["final_return"],
                    "simulator_steps": seed.get("simulator_steps"),
                }
                lines.append({**line, **_simulated_by(line, taken)})
        return sorted(lines, key=lambda line: number(line["seed"]))

    def curve(self, name: str) -> Curve | None:
        """Of all seeds, over every step at which a run spoke; NaN where one did not."""
        parts = [one for folder in self.folders if (one := curve(folder, name)) is not None]
        if not parts:
            return None
        env_steps = np.unique(np.concatenate([one.env_steps for one in parts]))
        return Curve(env_steps, np.concatenate([_spread(one, env_steps) for one in parts]))

    def provenance(self) -> list[dict[str, Any]]:
        """What made each run."""
        return [_made(self.row, folder) for folder in self.folders]


def steps_per_seed(
    table: Table, row: str, name: str
) -> tuple[Float[np.ndarray, "S"], Float[np.ndarray, "S"]]:
    """Of the seeds of a row: when it happened, NaN if never; and how far each was followed."""
    lines = [line for line in table if line["row"] == row]
    when = [np.nan if line[name] is None else line[name] for line in lines]
    return np.array(when, np.float64), np.array([line["env_steps"] for line in lines], np.float64)


def simulated(name: str) -> str:
    """The column of the seeds' table that has the simulator steps up to a first time, such as `solved_step`."""
    return f"{name.removesuffix('_step')}_simulator_steps"


def known_mean(lines: Table, name: str) -> float | None:
    """Of a column, over the lines that have it; None if none does."""
    known = [number(line[name]) for line in lines if line.get(name) is not None]
    return float(np.mean(known)) if known else None


def _simulated_by(line: Line, taken: Curve | None) -> Line:
    """The simulator steps up to each first time. All seeds take as many, and between two evaluations evenly."""
    if taken is None:
        return {}
    steps, counts = np.append(0, taken.env_steps), np.append(0.0, taken.mean)
    return {
        simulated(name): None if line[name] is None else float(np.interp(number(line[name]), steps, counts))
        for name in STEPS
    }


def _spread(one: Curve, env_steps: Int[np.ndarray, "T"]) -> Float[np.ndarray, "S T"]:
    values = np.full((len(one.values), len(env_steps)), np.nan)
    values[:, np.searchsorted(env_steps, one.env_steps)] = one.values
    return values


def _regret_of_chunks(folder: Folder) -> dict[int, int]:
    """For runs that did not keep it: the evaluation by which the average regret of a seed's training episodes was
    below 90%, from their returns. Noisy returns do not say.
    """
    config = folder.config()
    if config.environment != "deep-sea" or config.settings.get("stochastic"):
        return {}
    earned: dict[int, float] = {}
    played: dict[int, float] = {}
    solved: dict[int, int] = {}
    for line in folder.metrics.read():
        seed, episodes = int(line["seed"]), line.get("episodes", 0.0)
        earned[seed] = earned.get(seed, 0.0) + episodes * line.get("train_return", 0.0)
        played[seed] = played.get(seed, 0.0) + episodes
        regret = 1 - earned[seed] / max(played[seed], 1) / (GOAL_REWARD - MOVE_COST)
        if regret < SOLVED_BELOW:
            solved.setdefault(seed, int(line["env_steps"]))
    return solved


def _made(row: Row, folder: Folder) -> dict[str, Any]:
    summary, config = folder.summary(), folder.config()
    by = {name: summary.get(name) for name in ("command", "commit", "versions", "device", "machine")}
    return {
        "row": row.name,
        "run": folder.path.name,
        "seeds": list(config.seeds),
        "env_steps": max((seed["env_steps"] for seed in summary.get("seeds", [])), default=0),
        "simulator_steps": max(
            (seed.get("simulator_steps") or 0 for seed in summary.get("seeds", [])), default=0
        ),
        "seconds": max((seed["seconds"] for seed in summary.get("seeds", [])), default=0.0),
        "state": summary.get("state"),
        **by,
        "command": relative(summary.get("command") or ""),
    }


def relative(command: str) -> str:
    """A command without the folders of the machine it ran on."""
    parts: Sequence[str] = command.split()
    return " ".join(part.rpartition("/")[2] if part.startswith("/") else part for part in parts)
