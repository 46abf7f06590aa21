"""Deep Sea as text, and heat maps of values per cell, such as counts, learned variances or the std of a search."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

SHADES = ".:-=+*#%@"


def reachable(size: int) -> Bool[np.ndarray, "N N"]:
    """The cells on and below the diagonal: no path enters the upper triangle."""
    return np.tri(size, dtype=bool)


def text(size: int, agent: tuple[int, int] | None = None, values: ArrayLike | None = None) -> str:
    """The grid in letters: `A` at the agent's (row, column), `$` at the goal, other cells shaded by `values` [N, N]."""
    cells = np.full((size, size), ".", "<U1")
    if values is not None:
        cells = np.array(list(SHADES))[_shades(_grid("values", values, size))]
    cells[-1, -1] = "$"
    if agent is not None:
        cells[agent] = "A"
    cells = np.where(reachable(size), cells, " ")
    edge = "+" + "-" * (2 * size + 1) + "+"
    return "\n".join([edge, *(f"| {' '.join(row)} |" for row in cells), edge])


def heat_maps(
    panels: Mapping[str, ArrayLike], *, log: bool = False, path: Sequence[tuple[int, int]] = ()
) -> Figure:
    """One map for each named [N, N] array, side by side, and blank cells where no path leads.

    `path` draws a line through (row, column) cells. With `log`, cells that are not above 0 are blank too.
    """
    if not panels:
        raise ValueError("no panels to draw: give a mapping from names to [N, N] arrays")
    figure = Figure(figsize=(4.2 * len(panels), 3.8), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    for axis, (name, values) in zip(axes, panels.items(), strict=True):
        image = _draw(axis, name, _grid(name, values), log, path)
        figure.colorbar(image, ax=axis, shrink=0.85)
    return figure


def _draw(
    axis: Axes,
    name: str,
    values: Float[np.ndarray, "N N"],
    log: bool,
    path: Sequence[tuple[int, int]],
) -> AxesImage:
    shown = reachable(len(values)) & np.isfinite(values) & ((values > 0) | (not log))
    masked = np.ma.masked_array(values, ~shown)
    norm = LogNorm if log and shown.any() else Normalize
    image = axis.imshow(masked, cmap="viridis", interpolation="nearest", norm=norm())
    if path:
        rows, columns = np.transpose(path)
        axis.plot(columns, rows, color="tab:red", linewidth=1.5)
    axis.set(title=name, xlabel="column", ylabel="row")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(integer=True))
    return image


def _grid(name: str, values: ArrayLike, size: int | None = None) -> Float[np.ndarray, "N N"]:
    grid = np.asarray(values, np.float64)
    if grid.ndim != 2 or grid.shape[0] != grid.shape[1] or size not in (None, len(grid)):
        wanted = "[N, N]" if size is None else f"[{size}, {size}]"
        raise ValueError(f"{name or 'values'} has shape {list(grid.shape)}: a map of Deep Sea is {wanted}")
    return grid


def _shades(values: Float[np.ndarray, "N N"]) -> Int[np.ndarray, "N N"]:
    """Indices into SHADES, from the smallest to the largest reachable value; 0 for cells that are not finite."""
    finite = np.isfinite(values)
    shown = values[reachable(len(values)) & finite]
    low, high = (shown.min(), shown.max()) if shown.size else (0.0, 0.0)
    share = (np.where(finite, values, low) - low) / max(high - low, np.finfo(float).tiny)
    return np.clip(share * len(SHADES), 0, len(SHADES) - 1).astype(int)
