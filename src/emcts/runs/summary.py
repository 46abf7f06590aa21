"""The summary of a run: the content of `summary.json`."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from emcts.runs.logging.metrics import LatestMetrics, Value, mean, seeds_solved
from emcts.runs.provenance import Provenance


class SeedSummary(TypedDict):
    """The results of one seed. A step is None if the event never happened."""

    seed: int
    first_reward_step: int | None
    solved_step: int | None
    regret_step: int | None
    final_return: float | None
    env_steps: int
    train_steps: int
    simulator_steps: int | None
    seconds: float


class RunSummary(Provenance, total=False):
    """The results of a run, and the command, code and machine that made them. Empty before the first checkpoint."""

    state: str
    total_env_steps: int
    mean_final_return: float | None
    seeds_solved: int | None
    seeds: list[SeedSummary]


def summarise(seeds: Sequence[int], latest: LatestMetrics, state: str, total: int) -> RunSummary:
    """Returns the summary without its provenance."""
    return {
        "state": state,
        "total_env_steps": total,
        "mean_final_return": mean(latest, "return"),
        "seeds_solved": seeds_solved(latest),
        "seeds": [_of_seed(seed, latest.get(seed, {})) for seed in seeds],
    }


def _of_seed(seed: int, line: Mapping[str, Value]) -> SeedSummary:
    return {
        "seed": seed,
        "first_reward_step": _whole(line.get("first_reward_step")),
        "solved_step": _whole(line.get("solved_step")),
        "regret_step": _whole(line.get("regret_step")),
        "final_return": line.get("return"),
        "env_steps": int(line.get("env_steps", 0)),
        "train_steps": int(line.get("train_steps", 0)),
        "simulator_steps": _whole(line.get("simulator_steps")),
        "seconds": line.get("seconds", 0.0),
    }


def _whole(step: Value | None) -> int | None:
    return None if step is None else int(step)
