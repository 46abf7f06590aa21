"""`emcts evaluate`: plays with what a run has learned, and keeps the returns."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from emcts.agents import catalogue as installed_agents
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import stored_settings
from emcts.runs.folder import Folder
from emcts.runs.provenance import provenance


def evaluate(
    run: Positional[Path], /, *, episodes: int = 32, beta: float = 0.0, seed: int = 0, best: bool = False
) -> None:
    """Plays episodes with every seed of a run, prints a table and writes evaluation.json into the run.

    Args:
        run: the folder.
        episodes: to play with each seed.
        beta: of the search: above 0 it explores, below 0 it is careful.
        seed: of the episodes.
        best: take the checkpoint of highest mean return, not the newest.
    """
    if episodes < 1:
        raise ValueError(f"--episodes {episodes}: give at least 1")
    folder = Folder.open(run)
    config, catalogue = folder.config(), installed_agents.installed()
    trainer = catalogue.trainer(
        config.environment, config.agent, stored_settings(config, catalogue), config.seeds
    )
    console = Console()
    restored = Checkpoints(folder.checkpoints).restore(
        jax.eval_shape(trainer.init), best=best, shardings=trainer.shardings
    )
    if restored is None:
        raise ValueError(f"{run} has no checkpoint yet: train it on with `emcts resume {run}`")
    for problem in restored.damaged:
        console.print(f"warning: {problem}; taking another checkpoint", markup=False)
    played = trainer.evaluate(restored.state, episodes=episodes, beta=beta, seed=seed)
    where = f"{run}, step {restored.env_steps:,}: {episodes} episodes of each seed, beta {beta:g}"
    console.print(_table(where, config.seeds, played))
    flags = [
        "--episodes",
        str(episodes),
        "--beta",
        str(beta),
        "--seed",
        str(seed),
        *(["--best"] if best else []),
    ]
    made_by = provenance(shlex.join(["emcts", "evaluate", str(run), *flags]))
    result = {
        "env_steps": restored.env_steps,
        "episodes": episodes,
        "beta": beta,
        "seed": seed,
        "mean": {name: float(values.mean()) for name, values in played.items()},
        "seeds": [
            {"seed": one, **{name: values[row].tolist() for name, values in played.items()}}
            for row, one in enumerate(config.seeds)
        ],
    }
    file = folder.write("evaluation.json", {**result, **made_by})
    console.print(f"Every episode is in {file}")


def _table(title: str, seeds: Sequence[int], played: Mapping[str, np.ndarray]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("seed", justify="right")
    for name in played:
        table.add_column(f"{name}, mean and standard error", justify="right")
    for row, seed in enumerate(seeds):
        table.add_row(str(seed), *(_spread(values[row]) for values in played.values()))
    table.add_section()
    table.add_row("all", *(_spread(values.mean(axis=1)) for values in played.values()))
    return table


def _spread(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():.4g} ± {error:.2g}"


COMMANDS = evaluate
