"""The runs of one spec, seed by seed, read from their files alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from emcts.experiments.analysis.tables import Cell, Table, TableRow, number
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.config import flat
from emcts.runs.curves import Curve, curve
from emcts.runs.folder import Folder

FIRST_TIMES = ("first_goal_step", "solved_step", "regret_step")
"""Columns of the table of seeds that hold the step at which something first happened."""


@dataclass(frozen=True)
class RunGroup:
    """A spec and its runs, each of which holds some of the seeds."""

    spec: RunSpec
    folders: tuple[Folder, ...]

    def setting(self, path: str) -> Any:
        """Returns the value that the runs have for a setting, named by its dotted path."""
        return dict(flat(self.folders[0].config().settings))[path]

    def seeds(self) -> Table:
        """Returns one row per seed: its steps, its first times and its final return."""
        rows: list[TableRow] = []
        for folder in self.folders:
            simulated = curve(folder, "simulator_steps")
            for seed in folder.summary().get("seeds", []):
                row: dict[str, Cell] = {
                    "row": self.spec.name,
                    "label": self.spec.label,
                    "seed": seed["seed"],
                    "env_steps": seed["env_steps"],
                    "first_goal_step": seed["first_reward_step"],
                    "solved_step": seed["solved_step"],
                    "regret_step": seed["regret_step"],
                    "final_return": seed["final_return"],
                    "simulator_steps": seed.get("simulator_steps"),
                }
                rows.append({**row, **_simulator_steps_at(row, simulated)})
        return sorted(rows, key=lambda row: number(row["seed"]))

    def curve(self, metric: str) -> Curve | None:
        """Returns a metric of all seeds, over every step at which a run reported it; NaN where a seed did not."""
        parts = [one for folder in self.folders if (one := curve(folder, metric)) is not None]
        if not parts:
            return None
        env_steps = np.unique(np.concatenate([one.env_steps for one in parts]))
        return Curve(env_steps, np.concatenate([_at_steps(one, env_steps) for one in parts]))

    def provenance(self) -> list[dict[str, Any]]:
        """Returns the command, machine, seeds and steps of each run."""
        return [_provenance(self.spec, folder) for folder in self.folders]


def all_seeds(groups: Sequence[RunGroup]) -> list[TableRow]:
    """Returns the tables of seeds of several groups as one."""
    return [row for group in groups for row in group.seeds()]


def simulator_steps_column(name: str) -> str:
    """Returns the column with the simulator steps up to a first time, such as `solved_step`."""
    return f"{name.removesuffix('_step')}_simulator_steps"


def relative(command: str) -> str:
    """Returns a command without the folders of the machine that it ran on."""
    parts = command.split()
    return " ".join(part.rpartition("/")[2] if part.startswith("/") else part for part in parts)


def _simulator_steps_at(row: TableRow, simulated: Curve | None) -> TableRow:
    """Interpolates the simulator steps at each first time: all seeds take as many, evenly between evaluations."""
    if simulated is None:
        return {}
    steps, counts = np.append(0, simulated.env_steps), np.append(0.0, simulated.mean)
    return {
        simulator_steps_column(name): None
        if row[name] is None
        else float(np.interp(number(row[name]), steps, counts))
        for name in FIRST_TIMES
    }


def _at_steps(one: Curve, env_steps: Int[np.ndarray, "T"]) -> Float[np.ndarray, "S T"]:
    values = np.full((len(one.values), len(env_steps)), np.nan)
    values[:, np.searchsorted(env_steps, one.env_steps)] = one.values
    return values


def _provenance(spec: RunSpec, folder: Folder) -> dict[str, Any]:
    summary, config = folder.summary(), folder.config()
    seeds = summary.get("seeds", [])
    made_by = {name: summary.get(name) for name in ("command", "commit", "versions", "device", "machine")}
    return {
        "row": spec.name,
        "run": folder.path.name,
        "seeds": list(config.seeds),
        "env_steps": max((seed["env_steps"] for seed in seeds), default=0),
        "simulator_steps": max((seed.get("simulator_steps") or 0 for seed in seeds), default=0),
        "seconds": max((seed["seconds"] for seed in seeds), default=0.0),
        "state": summary.get("state"),
        **made_by,
        "command": relative(str(made_by["command"] or "")),
    }
