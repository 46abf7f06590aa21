"""Numbers as texts of a table."""

import math
from collections.abc import Sequence

from emcts.experiments.analysis.tables import Cell, TableRow, number

LEAST_P = 0.001


def count(cell: Cell) -> str:
    """Returns a whole number with commas; nothing for an empty cell, and `never` where a seed counts as infinite."""
    value = number(cell)
    if math.isnan(value):
        return ""
    return "never" if math.isinf(value) else f"{value:,.0f}"


def decimal(cell: Cell, places: int = 2) -> str:
    value = round(number(cell), places) + 0.0  # no -0.00
    return f"{value:,.{places}f}"


def mean_and_std(row: TableRow) -> str:
    if row["mean_of_found"] is None:
        return "none"
    if row["std_of_found"] is None:
        return count(row["mean_of_found"])
    return f"{count(row['mean_of_found'])} ± {count(row['std_of_found'])}"


def found(row: TableRow) -> str:
    return f"{count(row['found'])} of {count(row['seeds'])}"


def probability(cell: Cell) -> str:
    value = number(cell)
    if math.isnan(value):
        return ""
    return f"< {LEAST_P}" if value < LEAST_P else f"{value:.2g}"


def spread(values: Sequence[Cell]) -> str:
    """Returns the least and the largest of some numbers."""
    numbers = [number(value) for value in values if value is not None]
    low, high = count(min(numbers)), count(max(numbers))
    return low if low == high else f"{low} to {high}"
