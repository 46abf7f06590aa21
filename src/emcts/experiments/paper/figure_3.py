"""Figure 3: uncertainty over the cells of Deep Sea 40 x 40, by search and by the UBE head, while E-AZ trains."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.tables import Table, TableRow, Tables, number, unique, where
from emcts.experiments.paper.deep_sea import deep_sea_specs
from emcts.experiments.paper.experiment import Experiment
from emcts.runs.logging.maps import MapHistory

SIZE, SEEDS = 40, 20
SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)  # of the steps to the goal, at which maps are shown
MAPS = {
    "search std": "std at the root of the search",
    "UBE std": "std by the UBE head",
    "inverse visits": "1 / (visits + 1/2)",
}
SPEC = deep_sea_specs(SIZE, SEEDS)["true-e"]


def analyse(groups: Sequence[RunGroup]) -> Tables:
    """Takes the maps of the first seed, and correlates both kinds of uncertainty with the unvisited cells below."""
    folder = groups[0].folders[0]
    history = MapHistory.read(folder.path / "maps.npz")
    if not len(history.env_steps):
        raise ValueError(f"{folder.path} has no maps yet: train it for longer")
    first = folder.summary()["seeds"][0]
    end = first["first_reward_step"] or first["env_steps"]
    wanted = np.array([share * end for share in SHARES])
    nearest = np.abs(history.env_steps[None] - wanted[:, None]).argmin(axis=1)
    cells: list[TableRow] = []
    for snapshot in np.unique(nearest):
        maps = {name: history.maps[name][snapshot, 0] for name in ("search std", "UBE std", "visits")}
        cells += _cells(int(history.env_steps[snapshot]), maps)
    return {"maps": cells, "agreement": _agreement(history)}


def draw(tables: Tables) -> Figure:
    steps = unique(tables["maps"], "env_steps")
    figure = Figure(figsize=(2.6 * len(steps) + 1, 2.5 * len(MAPS)), layout="constrained")
    axes = figure.subplots(len(MAPS), len(steps), squeeze=False)
    for row, (name, label) in zip(axes, MAPS.items(), strict=True):
        grids = [_grid(where(tables["maps"], env_steps=step), name) for step in steps]
        top = max(float(np.nanmax(grid)) for grid in grids)
        for axis, step, grid in zip(row, steps, grids, strict=True):
            shown = np.ma.masked_invalid(grid)
            image = axis.imshow(shown, vmin=0, vmax=max(top, 1e-9), cmap="Blues", interpolation="nearest")
            axis.set(title=f"{number(step):,.0f} steps", xticks=[], yticks=[])
        row[0].set_ylabel(label, fontsize="small")
        figure.colorbar(image, ax=list(row), shrink=0.85)
    return figure


def _cells(env_steps: int, maps: dict[str, Float[np.ndarray, "N N"]]) -> Table:
    rows, columns = np.nonzero(np.isfinite(maps["visits"]))
    return [
        {
            "env_steps": env_steps,
            "row": int(row),
            "column": int(column),
            "search std": _short(float(maps["search std"][row, column])),
            "UBE std": _short(float(maps["UBE std"][row, column])),
            "inverse visits": _short(1 / (float(maps["visits"][row, column]) + 0.5)),
        }
        for row, column in zip(rows, columns, strict=True)
    ]


def _grid(cells: Table, name: str) -> Float[np.ndarray, "N N"]:
    size = 1 + int(max(number(cell["row"]) for cell in cells))
    grid = np.full((size, size), np.nan)
    for cell in cells:
        grid[int(number(cell["row"])), int(number(cell["column"]))] = number(cell[name])
    return grid


def _agreement(history: MapHistory) -> Table:
    """Returns, per snapshot, the mean over seeds of the rank correlation with the unvisited cells within reach."""
    rows: list[TableRow] = []
    for step, visits, *stds in zip(
        history.env_steps, *(history.maps[name] for name in ("visits", "search std", "UBE std")), strict=True
    ):
        ranks = [
            [
                _rank_correlation(_unvisited_below(count), std)
                for count, std in zip(visits, of_kind, strict=True)
            ]
            for of_kind in stds
        ]
        with_search, with_head = (np.array(kind) for kind in ranks)
        known = np.isfinite(with_search) & np.isfinite(with_head)
        if known.any():
            rows.append(
                {
                    "env_steps": int(step),
                    "seeds": int(known.sum()),
                    "search": float(with_search[known].mean()),
                    "UBE head": float(with_head[known].mean()),
                    "seeds where search is closer": int((with_search > with_head)[known].sum()),
                }
            )
    return rows


def _unvisited_below(visits: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """Returns the most unvisited cells on a path that begins at each cell, itself included."""
    size = len(visits)
    left, right = np.maximum(np.arange(size) - 1, 0), np.minimum(np.arange(size) + 1, size - 1)
    most = np.full((size, size), np.nan)
    after = np.zeros(size)
    for row in reversed(range(size)):
        after = (visits[row] == 0) + np.maximum(after[left], after[right])
        most[row] = np.where(np.isfinite(visits[row]), after, np.nan)
    return most


def _rank_correlation(a: Float[np.ndarray, "N N"], b: Float[np.ndarray, "N N"]) -> float:
    """Returns Spearman's correlation; NaN where one of the maps is constant."""
    both = np.isfinite(a) & np.isfinite(b)
    first, second = _ranks(a[both]), _ranks(b[both])
    if first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(cells: Float[np.ndarray, "C"]) -> Float[np.ndarray, "C"]:
    """Ranks cells from the lowest; equal cells share their mean rank."""
    index: Int[np.ndarray, "C"]
    _, index, count = np.unique(cells, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[index]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


EXPERIMENT = Experiment(
    name="figure-3",
    title="heat maps of uncertainty in Deep Sea 40 x 40",
    specs=(SPEC,),
    smoke=(SPEC.name,),
    analyse=analyse,
    draw=draw,
    shown={"agreement": ()},
)
