"""`emcts inspect`: what the search of a trained agent thinks, as a page for the browser."""

from pathlib import Path
from typing import Literal

from rich.console import Console
from tyro.conf import Positional

from emcts.api import load
from emcts.inspect.episode import MAX_MOVES, Episode
from emcts.inspect.session import Session
from emcts.runs.files import write_atomically
from emcts.runs.folder import Folder


def inspect(
    run: Positional[Path],
    /,
    *,
    checkpoint: Literal["latest", "best"] = "latest",
    seed: int | None = None,
    episode: Literal["explore", "exploit"] = "exploit",
    start: int = 0,
    simulations: int | None = None,
    max_moves: int = MAX_MOVES,
    out: Path = Path("inspect.html"),
    env_from: str | None = None,
) -> None:
    """Plays an episode with a trained agent, and writes a page with the search of each move.

    Args:
        run: the folder of the run.
        checkpoint: the newest one, or that of highest mean return.
        seed: which seed of the run; if not given, the one of the highest return.
        episode: exploit as evaluation does, or explore as training does.
        start: random seed of the episode.
        simulations: of each search; if not given, as many as the agent makes.
        max_moves: play no more than this many.
        out: the HTML file.
        env_from: MODULE:NAME of the environment, if it is code of yours: what a folder names is not run.
    """
    if out.suffix not in (".html", ".htm"):
        raise ValueError(f"--out {out}: the page is an HTML file, choose a name that ends in .html")
    if simulations is not None and simulations < 1:
        raise ValueError(f"--simulations {simulations}: give at least 1")
    console = Console()
    agent = load(run, env=env_from, checkpoint=checkpoint, seed=seed)
    session = Session(agent, episode == "explore", start, simulations)
    config = Folder.open(run).config()
    title = f"{config.agent} on {config.environment}"
    subtitle = f"{run.name}, seed {agent.seed}, step {agent.env_steps:,}"
    page = Episode.play(session, max_moves).page(title, subtitle)
    file = write_atomically(out, page)
    console.print(f"{file}: {len(page.encode()) / 1e6:.2f} MB, open it in a browser", highlight=False)


COMMANDS = inspect
