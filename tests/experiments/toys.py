"""Rows and run folders that take no training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emcts.experiments.evidence import Evidence
from emcts.experiments.sweep import Row
from emcts.runs.config import Config
from emcts.runs.folder import Folder

WALKER = Row("walk", "Walker", "plain", "walker", seeds=5, paper_preset="long", at_once={"cpu": 2, "gpu": 4})
RUNNER = Row("run", "Runner", "plain", "runner", seeds=2, paper_preset="long")


def made_up_run(
    path: Path,
    lines: Sequence[Mapping[str, Any]],
    seeds: Sequence[Mapping[str, Any]],
    *,
    environment: str = "deep-sea",
    agent: str = "e-az",
    settings: Mapping[str, Any] | None = None,
) -> Folder:
    """A finished run with these metrics, and these lines in its summary."""
    config = Config(environment, agent, None, tuple(seed["seed"] for seed in seeds), settings or {})
    folder = Folder.create(path, config, {})
    folder.metrics.append([dict(line) for line in lines])
    unsaid = {
        "first_reward_step": None,
        "solved_step": None,
        "final_return": None,
        "env_steps": 0,
        "seconds": 1.0,
    }
    made_by = {"state": "finished", "command": f"emcts train --out {path}", "device": "an abacus"}
    folder.write("summary.json", {"seeds": [{**unsaid, **seed} for seed in seeds], **made_by})
    return folder


def evidence(row: Row, *folders: Folder) -> Evidence:
    return Evidence(row, folders)
