"""How a run stands, from its files alone."""

from dataclasses import dataclass
from pathlib import Path

from emcts.runs.config import Config
from emcts.runs.folder import CONFIG, Folder


@dataclass(frozen=True)
class Status:
    """As of the last checkpoint. `state` is running, finished, stopped or broken."""

    path: Path
    config: Config
    env_steps: int
    total_env_steps: int | None
    mean_return: float | None
    seeds_solved: int
    state: str


def status(folder: Folder) -> Status:
    config, summary = folder.config(), folder.summary()
    env_steps = max((seed["env_steps"] for seed in summary.get("seeds", [])), default=0)
    total = config.total_env_steps or summary.get("total_env_steps")
    return Status(
        path=folder.path,
        config=config,
        env_steps=env_steps,
        total_env_steps=total,
        mean_return=summary.get("mean_final_return"),
        seeds_solved=summary.get("seeds_solved", 0),
        state=_state(folder, summary.get("state"), total is not None and env_steps >= total),
    )


def find_runs(parent: Path) -> list[Folder]:
    """The runs in a folder, and the folder itself if it is one, by name."""
    if not parent.is_dir():
        raise ValueError(f"there is no folder {parent}: name the one that runs are in")
    return [Folder.open(file.parent) for file in sorted([*parent.glob(CONFIG), *parent.glob(f"*/{CONFIG}")])]


def _state(folder: Folder, written: str | None, complete: bool) -> str:
    """A killed run still says `running`, and a lengthened one `finished`: the lock and the steps know better."""
    if folder.is_locked():
        return "running"
    if written == "broken":
        return "broken"
    return "finished" if complete else "stopped"
