"""`emcts runs`: a table of runs."""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional

from emcts.runs.checkpoints import Checkpoints
from emcts.runs.folder import Folder, Status, find_runs, status
from emcts.runs.logging.metrics import readable

COLUMNS = ("run", "environment", "agent", "seeds", "steps", "return", "solved", "state")


def runs(folder: Positional[Path] = Path("runs"), /) -> None:
    """Lists the runs of a folder, as of their last checkpoints.

    Args:
        folder: the folder of the runs.
    """
    found = find_runs(folder)
    if not found:
        print(f"no runs in {folder}: `emcts train` creates one")
        return
    table = Table()
    for column in COLUMNS:
        table.add_column(
            column, justify="right" if column in ("seeds", "steps", "return", "solved") else "left"
        )
    for run in found:
        try:
            cells = _row(status(run))
        except (ValueError, OSError) as error:
            reason = str(error).removeprefix(str(run.path)).lstrip(":/ ")
            cells = (str(run.path), *[""] * (len(COLUMNS) - 2), f"unreadable: {reason}")
        table.add_row(*map(_text, cells))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _text(cell: str) -> Text:
    """Returns a text as it is, without rich's markup or a terminal's control characters."""
    return Text(cell if cell.isprintable() else ascii(cell))


def _row(one: Status) -> tuple[str, ...]:
    seeds = len(one.config.seeds)
    total = "?" if one.total_env_steps is None else f"{one.total_env_steps:,}"
    # Of a run that ended early, the last checkpoint may be later than the last evaluation.
    saved = max(Checkpoints(Folder(one.path).checkpoints).steps(), default=0)
    return (
        str(one.path),
        one.config.environment,
        one.config.agent,
        str(seeds),
        f"{max(one.env_steps, saved):,} of {total}",
        "-" if one.mean_return is None else f"{readable(one.mean_return):.3g}",
        "-" if one.seeds_solved is None else f"{one.seeds_solved} of {seeds}",
        one.state,
    )


COMMANDS = runs
