"""The tables of careful agents, trained offline."""

from collections.abc import Callable

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import figure
from benchmarks.pages.texts import count, decimal
from emcts.experiments.analysis.tables import TableRow, number, where

NAME = "careful"
AGENTS = {"e-az": "E-AZ", "e-mz": "E-MZ"}


def data() -> TextTable:
    rows = [
        [
            str(row["label"]),
            count(row["transitions"]),
            f"{count(row['seeds_with_goal'])} of {count(row['seeds'])}",
            decimal(row["goals"], 1),
            decimal(row["episodes"], 1),
            f"{number(row['seen']):.0%}",
            decimal(row["episode_return"]),
            decimal(row["best_within"]),
            decimal(row["best"]),
        ]
        for row in figure(NAME)["data"]
    ]
    header = ["world", "transitions", "seeds with the goal", "goals", "episodes", "pairs seen"]
    return TextTable([*header, "return of the data", "best within the data", "best"], rows)


def returns() -> TextTable:
    """Mean return and standard error, by the betas of evaluation and of Reanalyse."""
    return _by_betas(lambda row: f"{decimal(row['return'])} ± {decimal(row['return_standard_error'])}")


def unseen() -> TextTable:
    """Steps of an episode that the data do not have."""
    return _by_betas(lambda row: decimal(row["unseen_steps"]))


def inside() -> TextTable:
    """What the search of evaluation finds in the states of an episode."""
    rows = []
    for row in figure(NAME)["inside"]:
        cells = [
            ""
            if row[f"{kind}_q"] is None
            else f"{decimal(row[f'{kind}_q'], 3)} ± {decimal(row[f'{kind}_std'])}"
            for kind in ("tried", "untried")
        ]
        rows.append([f"{number(row['reanalyse']):g}", count(row["step"]), *cells, str(row["takes"])])
    header = ["beta of Reanalyse", "step", "q and std, tried in the data", "q and std, not tried"]
    return TextTable([*header, "takes one that was"], rows)


def weights() -> TextTable:
    """The same returns with and without losses weighted by uncertainty."""
    learned = figure(NAME)["learned"]
    rows = []
    for row in learned:
        if not row["weight"] or row["evaluation"] not in (-1.0, 0.0):
            continue
        same = ("world", "agent", "transitions", "reanalyse", "evaluation")
        (plain,) = [
            one for one in learned if not one["weight"] and all(one[name] == row[name] for name in same)
        ]
        betas = [f"{number(row[name]):g}" for name in ("reanalyse", "evaluation")]
        cells = [
            f"{decimal(one['return'])} ± {decimal(one['return_standard_error'])}" for one in (plain, row)
        ]
        rows.append([*_names(row), *betas, *cells])
    header = ["world", "agent", "transitions", "beta of Reanalyse", "beta of evaluation"]
    return TextTable([*header, "return, all losses alike", "return, weighted"], rows)


def _by_betas(cell: Callable[[TableRow], str]) -> TextTable:
    learned = where(figure(NAME)["learned"], weight=0.0)
    betas = sorted({number(row["reanalyse"]) for row in learned})
    rows: dict[tuple[str, ...], list[str]] = {}
    for row in learned:
        key = (*_names(row), f"{number(row['evaluation']):g}")
        cells = rows.setdefault(key, [""] * len(betas))
        cells[betas.index(number(row["reanalyse"]))] = cell(row)
    header = ["world", "agent", "transitions", "beta of evaluation"]
    return TextTable(
        [*header, *(f"Reanalyse {beta:g}" for beta in betas)], [[*key, *cells] for key, cells in rows.items()]
    )


def _names(row: TableRow) -> list[str]:
    return [str(row["label"]), AGENTS[str(row["agent"])], count(row["transitions"])]


TABLES = {
    "careful-data": data,
    "careful-returns": returns,
    "careful-unseen": unseen,
    "careful-inside": inside,
    "careful-weights": weights,
}
