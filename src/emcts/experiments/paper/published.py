"""The numbers of the paper and of other publications, from one file: what our tables stand beside."""

from collections.abc import Mapping
from importlib import resources

from emcts.experiments.analysis.tables import Table, number, table_of_text, where

NAME = "published.csv"


def published(experiment: str) -> Table:
    """Returns the published numbers of a figure or table: row, quantity, value, and the steps that it is at."""
    path = resources.files("emcts.experiments.paper") / NAME
    rows = where(table_of_text(path.read_text(encoding="utf-8"), NAME), experiment=experiment)
    if not rows:
        raise ValueError(f"{NAME} has no numbers of {experiment!r}")
    return rows


def quantities(experiment: str, row: str) -> Mapping[str, float]:
    """Returns the numbers of a row that have one value each, by their quantity."""
    rows = where(published(experiment), row=row, at=None)
    return {str(entry["quantity"]): number(entry["value"]) for entry in rows}


def curve(experiment: str, row: str) -> Mapping[float, float]:
    """Returns the returns that were read off a curve, by environment steps."""
    rows = where(published(experiment), row=row, quantity="return")
    return {number(entry["at"]): number(entry["value"]) for entry in rows}
