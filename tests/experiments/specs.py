"""Specs and run folders that need no training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.config import Config
from emcts.runs.folder import Folder

WALKER = RunSpec(
    "walk", "Walker", "plain", "walker", seeds=5, paper_preset="long", seeds_per_run={"cpu": 2, "gpu": 4}
)
RUNNER = RunSpec("run", "Runner", "plain", "runner", seeds=2, paper_preset="long")


def made_up_run(
    path: Path,
    lines: Sequence[Mapping[str, Any]],
    seeds: Sequence[Mapping[str, Any]],
    *,
    environment: str = "deep-sea",
    agent: str = "e-az",
    settings: Mapping[str, Any] | None = None,
) -> Folder:
    """Writes a finished run with these metrics and these seeds in its summary."""
    config = Config(environment, agent, None, tuple(seed["seed"] for seed in seeds), settings or {})
    folder = Folder.create(path, config, {})
    folder.metrics.append([dict(line) for line in lines])
    missing = {
        "first_reward_step": None,
        "solved_step": None,
        "regret_step": None,
        "final_return": None,
        "env_steps": 0,
        "train_steps": 0,
        "simulator_steps": None,
        "seconds": 1.0,
    }
    made_by = {"state": "finished", "command": f"emcts train --out {path}", "device": "an abacus"}
    folder.write("summary.json", {"seeds": [{**missing, **seed} for seed in seeds], **made_by})
    return folder


def group(spec: RunSpec, *folders: Folder) -> RunGroup:
    return RunGroup(spec, folders)
