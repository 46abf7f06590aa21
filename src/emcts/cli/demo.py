"""`emcts demo`: a search with and without uncertainty, as a table and a picture."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from emcts.envs.deep_sea_render import heat_maps, reachable, write_png
from emcts.experiments.demo import Demo, Dives, dive


def demo(
    *, size: int = 20, seeds: int = 3, episodes: int = 100, simulations: int = 32, out: Path = Path("demo")
) -> None:
    """Searches Deep Sea for its treasure, once knowing what it does not know and once not.

    Args:
        size: rows and columns of the sea; the treasure is at the end of one path of this many moves.
        seeds: how many seas, each with its own meaning of left and right.
        episodes: after this many dives it is over.
        simulations: of the search, for each move.
        out: a folder for the picture.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    settings = Demo(size=size, simulations=simulations, episodes=episodes)
    console = Console()
    console.print(
        f"Deep Sea {size} x {size}: one path of {size} moves earns 1, each step on it costs {0.01 / size:.4f}."
    )
    with Progress(console=console) as progress:
        task = progress.add_task("diving", total=seeds * episodes)
        dives = [dive(settings, seed, lambda: progress.advance(task)) for seed in range(seeds)]
    console.print(_table(settings, dives))
    out.mkdir(parents=True, exist_ok=True)
    panels = {"visits, beta 0": dives[0].visits[0], f"visits, beta {settings.beta:g}": dives[0].visits[1]}
    picture = write_png(heat_maps(panels, log=True), out / "deep-sea.png")
    console.print(_verdict(settings, dives))
    console.print(f"Which cells each visited: {picture}")


def _table(settings: Demo, dives: list[Dives]) -> Table:
    table = Table(box=box.SIMPLE)
    for column in ("sea", "search", "cells seen", "treasure found in episode", "steps"):
        table.add_column(column, justify="left" if column == "search" else "right")
    cells = int(reachable(settings.size).sum())
    for seed, result in enumerate(dives):
        for row, name in enumerate(("plain (beta 0)", f"epistemic (beta {settings.beta:g})")):
            found = int(result.found[row])
            seen = int((result.visits[row] > 0).sum())
            when = (str(found), f"{found * settings.size:,}") if found else (f"not in {result.episodes}", "-")
            table.add_row(str(seed), name, f"{seen} of {cells}", *when)
    return table


def _verdict(settings: Demo, dives: list[Dives]) -> str:
    steps = [int(result.found[1]) * settings.size for result in dives if result.found[1]]
    found = f"in {len(steps)} of {len(dives)} seas"
    when = f", after {sum(steps) / len(steps):,.0f} steps on average" if steps else ""
    luck = sum(bool(result.found[0]) for result in dives)
    return (
        f"The search that carries its uncertainty found the treasure {found}{when}; the one that does not, in {luck}. "
        f"Moves drawn by chance find it once in {2**settings.size:,} episodes."
    )


COMMANDS = demo
