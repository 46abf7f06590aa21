"""Progress as lines, and the lines so far as a summary of each seed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from emcts.runs.lines import Line
from emcts.runs.trainer import Progress

Latest = dict[int, Line]  # of each seed: the last value of everything that was ever said


def to_lines(seeds: Sequence[int], progress: Progress, seconds: float) -> list[Line]:
    """One line for each seed. What is not finite is left out."""
    lines = []
    for index, seed in enumerate(seeds):
        steps = {
            "seed": seed,
            "env_steps": progress.env_steps,
            "train_steps": progress.train_steps,
            "simulator_steps": progress.simulator_steps,
        }
        said = {name: float(values[index]) for name, values in progress.metrics.items()}
        finite = {name: value for name, value in said.items() if np.isfinite(value)}
        lines.append({**steps, **finite, "seconds": round(seconds, 3)})
    return lines


def absorb(latest: Latest, lines: Iterable[Line]) -> Latest:
    """What is known after some more lines."""
    known = dict(latest)
    for line in lines:
        known[line["seed"]] = {**known.get(line["seed"], {}), **line}
    return known


def mean(latest: Latest, name: str) -> float | None:
    """Over the seeds that have said it; None if none has."""
    values = [line[name] for line in latest.values() if name in line]
    return float(np.mean(values)) if values else None


def largest(latest: Latest, name: str) -> float | None:
    """Of the seeds that have said it; None if none has."""
    return max((line[name] for line in latest.values() if name in line), default=None)


def summary(seeds: Sequence[int], latest: Latest, state: str, total: int) -> dict[str, Any]:
    """The content of `summary.json`, less where it was made. A step that never came is null."""
    return {
        "state": state,
        "total_env_steps": total,
        "mean_final_return": mean(latest, "return"),
        "seeds_solved": sum("solved_step" in line for line in latest.values()),
        "seeds": [_of_seed(seed, latest.get(seed, {})) for seed in seeds],
    }


def _of_seed(seed: int, line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "seed": seed,
        "first_reward_step": _whole(line.get("first_reward_step")),
        "solved_step": _whole(line.get("solved_step")),
        "regret_step": _whole(line.get("regret_step")),
        "final_return": line.get("return"),
        "env_steps": line.get("env_steps", 0),
        "train_steps": line.get("train_steps", 0),
        "simulator_steps": line.get("simulator_steps"),
        "seconds": line.get("seconds", 0.0),
    }


def _whole(step: float | None) -> int | None:
    return None if step is None else int(step)
