"""The tables of careful agents, trained offline."""

from collections.abc import Callable

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import figure, row_of
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


def stds() -> TextTable:
    """The value of the first state, and its std, as the search of evaluation with beta 0 finds them."""
    rows = []
    for row in where(figure(NAME)["learned"], evaluation=0.0, weight=0.0):
        named = [*_names(row), f"{number(row['reanalyse']):g}"]
        rows.append([*named, decimal(row["start_value"]), decimal(row["start_std"], 1)])
    header = ["world", "agent", "transitions", "beta of Reanalyse"]
    return TextTable([*header, "value of the first state", "its std"], rows)


def weights() -> TextTable:
    """The same returns with and without losses weighted by uncertainty, evaluated with beta 0."""
    learned = where(figure(NAME)["learned"], evaluation=0.0)
    rows = []
    for row in learned:
        if not row["weight"]:
            continue
        same = {name: row[name] for name in ("world", "agent", "transitions", "reanalyse")}
        plain = row_of(learned, weight=0.0, **same)  # type: ignore[arg-type]
        cells = [
            f"{decimal(one['return'])} ± {decimal(one['return_standard_error'])}" for one in (plain, row)
        ]
        rows.append([*_names(row), f"{number(row['reanalyse']):g}", *cells])
    header = ["world", "agent", "transitions", "beta of Reanalyse"]
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
    "careful-stds": stds,
    "careful-weights": weights,
}
