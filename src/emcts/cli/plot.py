"""`emcts plot`: learning curves of one run, or of several in one figure."""

from pathlib import Path

from tyro.conf import Positional

from emcts.runs.curves import has_curves, write_table
from emcts.runs.figure import draw_comparison, draw_run
from emcts.runs.folder import Folder, find_runs


def plot(
    runs: Positional[tuple[Path, ...]], /, *, out: Path | None = None, table: Path | None = None
) -> None:
    """Plots from the files of runs: one with all its seeds and maps, several as means with standard errors.

    Args:
        runs: the folders, of runs or of sweeps, of which each run is drawn.
        out: a PNG file. If not given, and for one run or sweep: figure.png in its folder.
        table: also write the curves, as means with standard errors, into this CSV file.
    """
    if not runs:
        raise ValueError("name a run to plot: `emcts runs` lists them")
    if out is None and len(runs) > 1:
        raise ValueError("a figure of several runs needs a file: add --out comparison.png")
    if out is not None and out.suffix != ".png":
        raise ValueError(f"--out {out}: figures are PNG files, choose a name that ends in .png")
    folders = [folder for run in runs for folder in _folders(run)]
    out = out or runs[0] / "figure.png"
    print(draw_run(folders[0], out) if len(folders) == 1 else draw_comparison(folders, out))
    if table is not None:
        print(write_table(folders, table))


def _folders(path: Path) -> list[Folder]:
    """Returns a run, or the runs in a folder that have anything to draw."""
    if (path / "config.json").is_file() or not path.is_dir():
        return [Folder.open(path)]
    found = find_runs(path)
    begun = [folder for folder in found if has_curves(folder)]
    if not begun:
        raise ValueError(f"{path} is not a run, and has {len(found)} runs, none with a curve to draw yet")
    return begun


COMMANDS = plot
