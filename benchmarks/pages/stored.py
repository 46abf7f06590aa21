"""The files that tables of pages are made from."""

import json
from functools import cache
from typing import Any

from benchmarks.pages.page import ROOT
from emcts.experiments.analysis.tables import Results, Table, TableRow, Tables, table_of_text, where


@cache
def figure(name: str) -> Tables:
    """Returns the stored tables of a figure or table of the paper."""
    return Results(ROOT / "results" / name).read()


@cache
def file(name: str) -> Table:
    """Returns a table of docs/results."""
    return table_of_text((ROOT / "docs" / "results" / name).read_text(encoding="utf-8"), name)


@cache
def record(name: str) -> dict[str, Any]:
    """Returns a benchmark's record in docs/results."""
    read: dict[str, Any] = json.loads((ROOT / "docs" / "results" / name).read_text(encoding="utf-8"))
    return read


@cache
def made(name: str) -> dict[str, Any]:
    """Returns what made the tables of a figure: its command, and the runs that they are of."""
    return Results(ROOT / "results" / name).provenance()


def row_of(table: Table, **wanted: str | float) -> TableRow:
    """Returns the one row that has these values."""
    rows = where(table, **wanted)
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows have {wanted}: expected one")
    return rows[0]
