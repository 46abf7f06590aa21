"""Figures of runs, drawn from their files alone."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure, SubFigure

from emcts.runs.curves import CURVES, Curve, curve
from emcts.runs.files import write_atomically
from emcts.runs.folder import Folder
from emcts.runs.logging.maps import MapHistory, moments_of
from emcts.runs.logging.metrics import with_lines

MAX_PNG_BYTES = 300_000
RESOLUTIONS = (150, 100, 72, 50)  # dots per inch, tried in this order
MAP_TIMES = 5
LOG_SPAN = 10_000  # largest over smallest, from which a map is drawn on a logarithmic scale
PANEL = (4.2, 3.2)  # inches


def write_png(figure: Figure, file: str | Path) -> Path:
    """Writes the figure at the finest resolution that stays under 300 kB."""
    file = Path(file)
    for resolution in RESOLUTIONS:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=resolution)
        if buffer.tell() < MAX_PNG_BYTES:
            return write_atomically(file, buffer.getvalue())
    raise ValueError(f"{file.name} is over 300 kB at {RESOLUTIONS[-1]} dots per inch: draw fewer panels")


def draw_run(folder: Folder, out: Path) -> Path:
    """Draws learning curves, and below them the maps of the first seed at several steps."""
    history = MapHistory.read(folder.path / "maps.npz")
    rows = len(history.maps)
    height = PANEL[1] * (1 + 0.8 * rows)
    figure = Figure(figsize=(PANEL[0] * len(CURVES), height), layout="constrained")
    if not rows:
        draw_curves(figure, [folder], each_seed=True)
        return _save(figure, out)
    grid = figure.add_gridspec(2, 1, height_ratios=[1, 0.8 * rows])
    draw_curves(figure.add_subfigure(grid[0]), [folder], each_seed=True)
    draw_maps(figure.add_subfigure(grid[1]), history, folder)
    return _save(figure, out)


def draw_comparison(folders: Sequence[Folder], out: Path) -> Path:
    """Draws the curves of several runs: the mean over seeds, with its standard error as a band."""
    figure = Figure(figsize=(PANEL[0] * len(CURVES), PANEL[1] * 1.2), layout="constrained")
    draw_curves(figure, folders, each_seed=False)
    return _save(figure, out)


def draw_curves(figure: Figure | SubFigure, folders: Sequence[Folder], each_seed: bool) -> None:
    """Draws a panel per metric, with a line per run: each seed, or a band of the standard error."""
    found = {name: [curve(folder, name) for folder in folders] for name in CURVES}
    shown = [name for name, curves in found.items() if any(curves)]
    if not shown:
        raise ValueError(
            f"{folders[0].path} has no curve to draw yet: its metrics.jsonl has none of {list(CURVES)}"
        )
    axes = np.atleast_1d(figure.subplots(1, len(shown)))
    for axis, name in zip(axes, shown, strict=True):
        for folder, one in zip(folders, found[name], strict=True):
            if one is not None:
                _draw_curve(axis, one, _label(folder), each_seed)
        axis.set(xlabel="environment steps of each seed", ylabel=CURVES[name])
        axis.ticklabel_format(axis="x", style="sci", scilimits=(-4, 5))
    shown_with = "thin lines: seeds" if each_seed else "band: standard error"
    axes[0].legend(fontsize="small", title=f"mean; {shown_with}", title_fontsize="small")


def _draw_curve(axis: Axes, one: Curve, label: str, each_seed: bool) -> None:
    (line,) = axis.plot(one.env_steps, one.mean, label=label, linewidth=1.8)
    if each_seed:
        for values in one.values:
            reported = np.isfinite(values)
            axis.plot(
                one.env_steps[reported], values[reported], color=line.get_color(), linewidth=0.5, alpha=0.5
            )
    else:
        low, high = one.mean - one.standard_error, one.mean + one.standard_error
        axis.fill_between(one.env_steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def draw_maps(figure: Figure | SubFigure, history: MapHistory, folder: Folder) -> None:
    """Draws the maps of the first seed of a run, a row per map, at moments and other times of the training."""
    seed = folder.config().seeds[0]
    shown_at = history.chosen(MAP_TIMES, moments_of(with_lines({}, folder.metrics.read()).get(seed, {})))
    times = list(shown_at)
    axes = figure.subplots(len(history.maps), len(times), squeeze=False)
    for row, (name, maps) in zip(axes, history.maps.items(), strict=True):
        shown = np.ma.masked_invalid(maps[times, 0])
        norm = _norm(shown)
        for axis, time, values in zip(row, times, shown, strict=True):
            image = axis.imshow(values, cmap="viridis", interpolation="nearest", norm=norm)
            title = f"{history.env_steps[time]:,} steps"
            axis.set(
                title=f"{title}\n{shown_at[time]}" if any(shown_at.values()) else title, xticks=[], yticks=[]
            )
        row[0].set_ylabel(f"{name}, seed {seed}")
        figure.colorbar(image, ax=list(row), shrink=0.85)


def _norm(values: np.ma.MaskedArray) -> Normalize:
    """Returns one scale for all steps: logarithmic, with zeros blank, where the values span decades."""
    seen = values.compressed()
    above = seen[seen > 0]
    if len(above) == 0 or seen.min() < 0 or above.max() < LOG_SPAN * above.min():
        return Normalize(seen.min(initial=0.0), seen.max(initial=0.0))
    return LogNorm(above.min(), above.max())


def _label(folder: Folder) -> str:
    config = folder.config()
    name, seeds = folder.path.name, len(config.seeds)
    agent = "" if name == config.agent else f" {config.agent},"
    return f"{name}:{agent} {seeds} {'seed' if seeds == 1 else 'seeds'}"


def _save(figure: Figure, out: Path) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    return write_png(figure, out)
