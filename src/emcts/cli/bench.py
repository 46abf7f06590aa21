"""`emcts bench`: runs the benchmarks of the repository's folder `benchmarks/`."""

import importlib
import sys
from pathlib import Path
from types import ModuleType


def search(
    *, rows: tuple[str, ...] = (), smoke: bool = False, growth: bool = True, out: Path | None = None
) -> None:
    """Search speed against mctx's and the model's own, with a check that both searches visit the same nodes.

    Args:
        rows: measure these cases alone, such as puct-128-16-32-tiny or gumbel-4096-16-128-mlp; without growth.
        smoke: tiny sizes, to test that it runs.
        growth: also measure how time grows with simulations (8 to 512) and batch.
        out: a JSON file for the numbers, with the command, commit and machine.
    """
    _benchmark("search").main(rows=rows, smoke=smoke, growth=growth, out=out)


def env(*, smoke: bool = False) -> None:
    """Steps per second of every environment, alone and vmapped, and SUBLEQ programs per second.

    Args:
        smoke: tiny sizes, to test that it runs.
    """
    _benchmark("env").main(smoke=smoke)


def train(*, smoke: bool = False, out: Path | None = None) -> None:
    """Environment steps per second of whole training, where the time goes, compilation and memory.

    Args:
        smoke: tiny sizes, to test that it runs.
        out: a JSON file for the numbers, with the command, commit and machine.
    """
    _benchmark("train").main(smoke=smoke, out=out)


def change(*, since: str, rows: tuple[str, ...] = (), smoke: bool = False, out: Path | None = None) -> None:
    """CPU time of a training iteration before and after a change, by processes of both commits in turns.

    Args:
        since: the commit before the change.
        rows: measure these alone: e-az-rnd, e-az-counts, e-mz.
        smoke: tiny sizes, to test that it runs.
        out: a JSON file for the numbers, with the command, commit and machine.
    """
    _benchmark("change").main(since=since, rows=rows, smoke=smoke, out=out)


def scale(*, smoke: bool = False, out: Path | None = None) -> None:
    """Environment steps per second against seeds and devices, memory per seed, and communication between devices.

    Args:
        smoke: tiny sizes, to test that it runs.
        out: a JSON file for the numbers, with the command, commit and machine.
    """
    _benchmark("scale").main(smoke=smoke, out=out)


def worlds(
    *, rows: tuple[str, ...] = (), seeds: int = 5, smoke: bool = False, out: Path | None = None
) -> None:
    """Agents with the default preset in environments that it was not chosen on: the steps each seed needs.

    Args:
        rows: train these alone, such as rooms, or rooms:e-az.
        seeds: number of seeds, from 1000 on.
        smoke: tiny sizes, to test that it runs.
        out: a folder for a JSON file of each row, with the command, commit and machine.
    """
    _benchmark("worlds").main(rows=rows, seeds=seeds, smoke=smoke, out=out)


def outcomes(
    *,
    rows: tuple[str, ...] = (),
    seeds: int = 3,
    steps: int | None = None,
    training: bool = True,
    smoke: bool = False,
    out: Path | None = None,
) -> None:
    """How many outcomes of each action a search should sample in stochastic worlds.

    Args:
        rows: measure these alone: search:lake and search:lake-8 (searches alone), or 2048, or 2048:4 (4 outcomes).
        seeds: number of seeds of each training, from 0 on.
        steps: environment steps of each training, in place of those of the row.
        training: if not, untrained agents play, whose searches alone differ.
        smoke: tiny sizes, to test that it runs.
        out: a folder for a JSON file of each row, with the command, commit and machine.
    """
    _benchmark("outcomes").main(rows=rows, seeds=seeds, steps=steps, training=training, smoke=smoke, out=out)


def reuse(
    *, rows: tuple[str, ...] = (), seeds: int = 5, smoke: bool = False, out: Path | None = None
) -> None:
    """What it is worth to keep the tree between moves: at equal simulations, and at equal time.

    Args:
        rows: measure these alone: deep-sea-10, deep-sea-20, breakout, breakout-learned.
        seeds: number of seeds, from 1000 on.
        smoke: tiny sizes, to test that it runs.
        out: a CSV file for the numbers, with the command, commit and machine.
    """
    _benchmark("reuse").main(rows=rows, seeds=seeds, smoke=smoke, out=out)


def heads(
    *,
    rows: tuple[str, ...] = (),
    size: int = 20,
    seeds: int = 8,
    first_seed: int = 0,
    steps: int = 2_500,
    settings: tuple[str, ...] = (),
    plan: bool = False,
    smoke: bool = False,
    out: Path | None = None,
) -> None:
    """How late and how noisy the UBE heads of agents in Deep Sea are, against exact uncertainty.

    Args:
        rows: measure these agents alone, such as e-az-counts or e-mz-anchored.
        size: rows and columns of Deep Sea.
        seeds: number of seeds, trained side by side.
        first_seed: the first of the seeds.
        steps: environment steps of each seed; training ends when all seeds saw the goal.
        settings: settings to change, such as targets.ube_depth=20; values are JSON, or text.
        plan: print what would be trained.
        smoke: tiny sizes, to test that it runs.
        out: a CSV file with a line for each episode, and beside it a JSON file with means, command and machine.
    """
    _benchmark("heads").main(
        rows=rows,
        size=size,
        seeds=seeds,
        first_seed=first_seed,
        steps=steps,
        settings=settings,
        plan=plan,
        smoke=smoke,
        out=out,
    )


def faults(
    *,
    size: int = 40,
    seeds: int = 20,
    ways: tuple[str, ...] = (),
    smoke: bool = False,
    out: Path | None = None,
) -> None:
    """Steps to the goal of Deep Sea by exact uncertainty that is late or noisy on purpose, without learning.

    Args:
        size: rows and columns of Deep Sea.
        seeds: number of seeds.
        ways: act in these ways alone, such as "50 simulations" or "power 16".
        smoke: tiny sizes, to test that it runs.
        out: a CSV file for the numbers, and beside it a JSON file with command, commit and machine.
    """
    _benchmark("faults").main(size=size, seeds=seeds, ways=ways, smoke=smoke, out=out)


def compile(*, processes: int = 5, smoke: bool = False, out: Path | None = None) -> None:
    """Seconds from a cold start to the first search, for each policy, beside mctx's.

    Args:
        processes: number of processes for each policy and library, of which the median counts.
        smoke: one policy once, to test that it runs.
        out: a JSON file for the numbers, with the command, commit and machine.
    """
    _benchmark("compile_time").main(processes=processes, smoke=smoke, out=out)


def _benchmark(name: str) -> ModuleType:
    root = Path(__file__).parents[3]
    if not (root / "benchmarks" / f"{name}.py").is_file():
        raise ValueError(
            "benchmarks need a checkout of the repository: clone it and install with `pip install -e .`"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        raise ValueError(f'{error.name} is not installed: pip install "emcts[bench]"') from error


COMMANDS = {
    "search": search,
    "env": env,
    "train": train,
    "change": change,
    "scale": scale,
    "worlds": worlds,
    "outcomes": outcomes,
    "reuse": reuse,
    "heads": heads,
    "faults": faults,
    "compile": compile,
}
