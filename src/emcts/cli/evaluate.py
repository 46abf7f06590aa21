"""`emcts evaluate`: evaluation episodes with the trained seeds of a run."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from emcts.agents import catalogue as installed_agents
from emcts.inspect import recording
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import stored_settings
from emcts.runs.folder import Folder
from emcts.runs.logging.metrics import readable
from emcts.runs.provenance import provenance
from emcts.training.seeds import SeedTrainer


def evaluate(
    run: Positional[Path],
    /,
    *,
    episodes: int = 32,
    beta: float = 0.0,
    seed: int = 0,
    best: bool = False,
    record: Path | None = None,
    env_from: str | None = None,
) -> None:
    """Runs episodes with every seed of a run, prints a table and writes evaluation.json into the run.

    Args:
        run: the folder of the run.
        episodes: number of episodes of each seed.
        beta: weight of the uncertainty in the search: above 0 it explores, below 0 it avoids uncertainty.
        seed: random seed of the episodes.
        best: use the checkpoint of highest mean return instead of the newest.
        record: also write these episodes into a file: .npz has all of them as arrays, .html and .gif have pictures of
            the first ones.
        env_from: MODULE:NAME of the environment, if it is code of yours: what a folder names is not run.
    """
    if episodes < 1:
        raise ValueError(f"--episodes {episodes}: give at least 1")
    if not math.isfinite(beta):
        raise ValueError(f"--beta {beta}: give a finite number")
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed {seed}: give a number from 0 to {2**32 - 1:,}")
    write_record = None if record is None else recording.writer(record)
    folder = Folder.open(run)
    config = folder.config()
    catalogue = installed_agents.installed_for(config.environment, env_from)
    trainer = catalogue.trainer(
        config.environment, config.agent, stored_settings(config, catalogue), config.seeds
    )
    console = Console()
    restored = Checkpoints(folder.checkpoints).restore(
        jax.eval_shape(trainer.init), best=best, shardings=trainer.shardings
    )
    if restored is None:
        raise ValueError(f"{run} has no checkpoint yet: continue it with `{folder.resume_command}`")
    for problem in restored.damaged:
        console.print(f"warning: {problem}; using another checkpoint", markup=False)
    results = trainer.evaluate(restored.state, episodes=episodes, beta=beta, seed=seed)
    title = f"{run}, step {restored.env_steps:,}: {episodes} episodes of each seed, beta {beta:g}"
    console.print(_table(title, config.seeds, results))
    flags = f"--episodes {episodes} --beta {beta} --seed {seed}" + (" --best" if best else "")
    flags += "" if env_from is None else f" --env-from {env_from}"
    made_by = provenance(f"emcts evaluate {shlex.quote(str(run))} {flags}")
    content = {
        "env_steps": restored.env_steps,
        "episodes": episodes,
        "beta": beta,
        "seed": seed,
        "mean": {name: float(values.mean()) for name, values in results.items()},
        "seeds": [
            {"seed": one, **{name: values[row].tolist() for name, values in results.items()}}
            for row, one in enumerate(config.seeds)
        ],
    }
    file = folder.write("evaluation.json", {**content, **made_by})
    console.print(f"The results of every episode are in {file}")
    if record is not None and write_record is not None:
        if not isinstance(trainer, SeedTrainer):
            raise ValueError(
                f"--record {record}: {type(trainer).__name__} plays no episodes that can be recorded"
            )
        played = recording.play(trainer, restored.state, episodes=episodes, beta=beta, seed=seed)
        write_record(record, played, f"{config.agent} on {config.environment}, beta {beta:g}")
        console.print(f"The episodes are recorded in {record}")


def _table(title: str, seeds: Sequence[int], results: Mapping[str, np.ndarray]) -> Table:
    spread = (
        "± is one standard error: in the row of a seed between its episodes, in the row all between seeds"
    )
    table = Table(title=title, title_justify="left", caption=spread, caption_justify="left")
    table.add_column("seed", justify="right")
    for name in results:
        table.add_column(f"{name}, mean ± standard error", justify="right")
    for row, seed in enumerate(seeds):
        table.add_row(str(seed), *(_mean_and_error(values[row]) for values in results.values()))
    table.add_section()
    table.add_row("all", *(_mean_and_error(values.mean(axis=1)) for values in results.values()))
    return table


def _mean_and_error(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{readable(float(values.mean())):.4g} ± {error:.2g}"


COMMANDS = evaluate
