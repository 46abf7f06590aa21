"""`emcts plot`: learning curves of one run, or of several in one figure."""

from pathlib import Path

from tyro.conf import Positional

from emcts.runs.curves import write_table
from emcts.runs.figure import draw_comparison, draw_run
from emcts.runs.folder import Folder


def plot(
    runs: Positional[tuple[Path, ...]], /, *, out: Path | None = None, table: Path | None = None
) -> None:
    """Plots from the files of runs: one with all its seeds and maps, several as means with standard errors.

    Args:
        runs: the folders.
        out: a PNG file. If not given, and for one run: figure.png in the run.
        table: also write the curves, as means with standard errors, into this CSV file.
    """
    if not runs:
        raise ValueError("name a run to plot: `emcts runs` lists them")
    if out is None and len(runs) > 1:
        raise ValueError("a figure of several runs needs a file: add --out comparison.png")
    if out is not None and out.suffix != ".png":
        raise ValueError(f"--out {out}: figures are PNG files, choose a name that ends in .png")
    folders = [Folder.open(run) for run in runs]
    if len(folders) == 1:
        print(draw_run(folders[0], out or folders[0].path / "figure.png"))
    else:
        print(draw_comparison(folders, out or Path("comparison.png")))
    if table is not None:
        print(write_table(folders, table))


COMMANDS = plot
