"""`emcts inspect`: what the search of a trained agent thinks, as a page for the browser."""

import importlib.util
from pathlib import Path
from typing import Literal

from rich.console import Console
from tyro.conf import Positional

from emcts.agents import catalogue as installed_agents
from emcts.api import load
from emcts.envs.base import is_on_host
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
    out: Path | None = None,
    serve: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    env_from: str | None = None,
) -> None:
    """Plays an episode with a trained agent, and writes a page with the search of each move.

    With --serve, the page comes from a small server on this machine instead: play other moves, and search again.

    Args:
        run: the folder of the run.
        checkpoint: the newest one, or that of highest mean return.
        seed: which seed of the run; if not given, the one of the highest return.
        episode: exploit as evaluation does, or explore as training does.
        start: random seed of the episode.
        simulations: of each search; if not given, as many as the agent makes.
        max_moves: play no more than this many.
        out: the HTML file; inspect.html, if neither a file nor --serve is given.
        serve: open the page from a local server, which searches again; needs the extra `inspect`.
        host: the address that it listens on. Any other than the default lets other machines in.
        port: where it listens; 0 takes a free one.
        env_from: MODULE:NAME of the environment, if it is code of yours: what a folder names is not run.
    """
    if out is not None and out.suffix not in (".html", ".htm"):
        raise ValueError(f"--out {out}: the page is an HTML file, choose a name that ends in .html")
    if simulations is not None and simulations < 1:
        raise ValueError(f"--simulations {simulations}: give at least 1")
    if not 0 <= port < 2**16:
        raise ValueError(f"--port {port}: give a number from 0 to {2**16 - 1}")
    if serve:
        _need_server()
    console = Console()
    config = Folder.open(run).config()
    installed_agents.installed_for(
        config.environment, env_from
    )  # refuses what `load` would, in words of options
    agent = load(run, env=env_from, checkpoint=checkpoint, seed=seed)
    session = Session(agent, episode == "explore", start, simulations)
    title = f"{config.agent} on {config.environment}"
    subtitle = f"{run.name}, seed {agent.seed}, step {agent.env_steps:,}"
    played = Episode.play(session, max_moves)
    if out is not None or not serve:
        page = played.page(title, subtitle)
        file = write_atomically(out or Path("inspect.html"), page)
        console.print(f"{file}: {len(page.encode()) / 1e6:.2f} MB, open it in a browser", highlight=False)
    if serve:
        _serve(played, title, subtitle, host, port, console)


def _need_server() -> None:
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f'--serve needs {" and ".join(missing)}, not installed: pip install "emcts[inspect]"'
        )


def _serve(played: Episode, title: str, subtitle: str, host: str, port: int, console: Console) -> None:
    from emcts.inspect.server import LOOPBACK, Live, serve  # needs the extra

    if is_on_host(played.session.agent.env):
        raise ValueError(
            "--serve plays moves from any state, and the simulator of this environment runs on the host, where "
            "a state cannot be returned to: leave --serve out"
        )
    if host in ("0.0.0.0", "::", ""):
        raise ValueError(f"--host {host!r} is no address that a browser can open: name one of this machine's")
    if host not in (LOOPBACK, "localhost", "::1"):
        console.print(f"warning: with --host {host} other machines can connect", markup=False)

    def announce(address: str) -> None:
        console.print(f"Open {address}", highlight=False, soft_wrap=True, markup=False)
        console.print("Ctrl-C ends it.")

    serve(Live(played.session, played), played.data(title, subtitle), host, port, announce)


COMMANDS = inspect
